"""Residual vector quantisation at three rates: a code per four latents, two, and one."""

import torch
from torch import Tensor, nn

from models.codec.phones import NUM_PHONES, PHONE_SIZE, VARIANTS
from models.spec import CodecSpec


def level_strides(spec: CodecSpec) -> tuple[int, ...]:
    """Latents that one code of each level covers, coarsest first."""
    return tuple(
        spec.latents_per_frame // spec.levels.count(level) for level in range(max(spec.levels) + 1)
    )


def pack_codes(level_codes: list[Tensor], spec: CodecSpec) -> Tensor:
    """Per-level codes `[B, F * n_level]` -> frames in token order `[B, F, tokens_per_frame]`."""
    batch = level_codes[0].shape[0]
    rows = [
        codes.view(batch, -1, spec.levels.count(level)) for level, codes in enumerate(level_codes)
    ]
    taken = [0] * len(rows)
    columns = []
    for level in spec.levels:
        columns.append(rows[level][..., taken[level]])
        taken[level] += 1
    return torch.stack(columns, -1)


def unpack_codes(frames: Tensor, spec: CodecSpec) -> list[Tensor]:
    """Frames in token order `[B, F, tokens_per_frame]` -> per-level codes `[B, F * n_level]`."""
    return [
        frames[..., [i for i, of in enumerate(spec.levels) if of == level]].flatten(1)
        for level in range(max(spec.levels) + 1)
    ]


class Codebooks(nn.Module):
    """The codebooks of all levels, `[levels, codebook_size, latent_size]`, and a table of sounds.

    The sum of a latent's codes is the latent. A code of the finest level is `sound * VARIANTS +
    variant`.
    """

    def __init__(self, spec: CodecSpec) -> None:
        super().__init__()
        self.spec = spec
        self.strides = level_strides(spec)
        shape = (len(self.strides), spec.codebook_size, spec.latent_size)
        self.register_buffer("vectors", torch.zeros(shape))
        self.vectors: Tensor
        self.phones = nn.Embedding(NUM_PHONES, PHONE_SIZE)
        nn.init.normal_(self.phones.weight, 0.0, 0.5)

    @property
    def output_size(self) -> int:
        """Width of what the decoder gets."""
        return self.spec.latent_size + PHONE_SIZE

    def with_phones(self, latents: Tensor, phones: Tensor) -> Tensor:
        """Put the vector of each latent's sound beside it, `[B, T, D]` -> `[B, T, output_size]`."""
        return torch.cat([latents, self.phones(phones)], -1)

    def embed(self, frames: Tensor) -> Tensor:
        """Codes int64 `[B, F, 7]` -> latents with their sounds `[B, F * 4, output_size]`."""
        total: Tensor | None = None
        finest = unpack_codes(frames, self.spec)[-1]
        for level, codes in enumerate(unpack_codes(frames, self.spec)):
            part = self.vectors[level][codes].repeat_interleave(self.strides[level], 1)
            total = part if total is None else total + part
        assert total is not None
        # codes past the last sound are never trained on; sampling may still draw one
        return self.with_phones(
            total, finest.div(VARIANTS, rounding_mode="floor").clamp(max=NUM_PHONES - 1)
        )

    def quantize(
        self, latents: Tensor, phones: Tensor
    ) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Nearest codes of `[B, T, D]`, level by level; the finest within the sound `[B, T]`.

        Returns:
            Per level: codes `[B, T / stride]`, the pooled residuals that they stand for `[B, T /
            stride, D]`, and the quantised vectors repeated to `[B, T, D]`. Carries no gradient.
        """
        residual = latents.detach()
        codes, pooled, parts = [], [], []
        for level, stride in enumerate(self.strides):
            batch, length, size = residual.shape
            mean = residual.view(batch, length // stride, stride, size).mean(2)
            table = self.vectors[level]
            flat = mean.reshape(-1, size)
            if level < len(self.strides) - 1:
                index = (table.square().sum(1) - 2 * flat @ table.T).argmin(1)
            else:
                first = phones.reshape(-1) * VARIANTS
                variants = first[:, None] + torch.arange(VARIANTS, device=first.device)
                index = first + (table[variants] - flat[:, None]).square().sum(-1).argmin(1)
            part = table[index].view_as(mean).repeat_interleave(stride, 1)
            codes.append(index.view(batch, -1))
            pooled.append(mean)
            parts.append(part)
            residual = residual - part
        return codes, pooled, parts
