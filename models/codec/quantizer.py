"""Residual vector quantisation at three rates: one code per four latents, one per two, one per latent."""

import torch
from torch import Tensor, nn

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
    """The codebooks of all levels, `[levels, codebook_size, latent_size]`; the sum of a latent's codes is the latent."""

    def __init__(self, spec: CodecSpec) -> None:
        super().__init__()
        self.spec = spec
        self.strides = level_strides(spec)
        shape = (len(self.strides), spec.codebook_size, spec.latent_size)
        self.register_buffer("vectors", torch.zeros(shape))
        self.vectors: Tensor

    def embed(self, frames: Tensor) -> Tensor:
        """Codes int64 `[B, F, tokens_per_frame]` -> latents `[B, F * latents_per_frame, latent_size]`."""
        total: Tensor | None = None
        for level, codes in enumerate(unpack_codes(frames, self.spec)):
            part = self.vectors[level][codes].repeat_interleave(self.strides[level], 1)
            total = part if total is None else total + part
        assert total is not None
        return total

    def quantize(self, latents: Tensor) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Nearest codes of `[B, T, latent_size]`, level by level.

        Returns:
            Per level: codes `[B, T / stride]`, the pooled residuals that they stand for `[B, T / stride, D]`, and the
            quantised vectors repeated to `[B, T, D]`. Carries no gradient.
        """
        residual = latents.detach()
        codes, pooled, parts = [], [], []
        for level, stride in enumerate(self.strides):
            batch, length, size = residual.shape
            mean = residual.view(batch, length // stride, stride, size).mean(2)
            table = self.vectors[level]
            flat = mean.reshape(-1, size)
            distance = table.square().sum(1) - 2 * flat @ table.T
            index = distance.argmin(1)
            part = table[index].view_as(mean).repeat_interleave(stride, 1)
            codes.append(index.view(batch, -1))
            pooled.append(mean)
            parts.append(part)
            residual = residual - part
        return codes, pooled, parts
