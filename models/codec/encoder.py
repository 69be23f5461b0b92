"""The codec's encoder, used in training only: the teacher's parameters and sounds to latents.

It runs on teacher speech, whose envelopes, pitch and phonemes are known; it cannot encode a
recording.
"""

import torch
from torch import Tensor, nn

from models.codec.bands import HARMONIC_BANDS, NOISE_BANDS
from models.codec.blocks import ConvBlock
from models.codec.phones import NUM_PHONES, PHONE_SIZE
from models.codec.quantizer import Codebooks, pack_codes
from models.spec import CodecSpec

_HOPS_PER_LATENT = 4
_STEPS_PER_LATENT = 2  # envelopes are averaged over pairs of hops


class CodecEncoder(nn.Module):
    """Non-causal convolutions at four latents a frame."""

    def __init__(self, spec: CodecSpec, size: int = 256, hidden_size: int = 512) -> None:
        super().__init__()
        self.spec = spec
        self.phones = nn.Embedding(NUM_PHONES, PHONE_SIZE)
        nn.init.normal_(self.phones.weight, 0.0, 0.3)
        features = _STEPS_PER_LATENT * (HARMONIC_BANDS + NOISE_BANDS + 2)
        self.stem = nn.Linear(features + PHONE_SIZE, size)
        self.blocks = nn.ModuleList(
            ConvBlock(size, hidden_size, dilation, causal=False) for dilation in (1, 1, 2, 1)
        )
        self.norm = nn.RMSNorm(size, eps=1e-5)
        self.out = nn.Linear(size, spec.latent_size)

    def forward(
        self, harmonic: Tensor, noise: Tensor, f0: Tensor, voiced: Tensor, phones: Tensor
    ) -> Tensor:
        """Encode.

        Args:
            harmonic: Log amplitudes per hop of 128 samples, `[B, 4T, 80]`.
            noise: `[B, 4T, 40]`.
            f0: Hertz, `[B, 4T]`.
            voiced: 0 or 1, `[B, 4T]`.
            phones: The class of the sound that each latent lies in, int64 `[B, T]`.

        Returns:
            Latents `[B, T, latent_size]`.
        """
        batch, length = phones.shape
        pitch = torch.log2(f0.clamp(min=50.0) / self.spec.reference_hz) * 2 * voiced
        hops = torch.cat(
            [(harmonic + 4) / 2, (noise + 5) / 1.5, pitch[..., None], voiced[..., None]], -1
        )
        steps = hops.view(batch, length * _STEPS_PER_LATENT, -1, hops.shape[-1]).mean(2)
        x = self.stem(torch.cat([steps.reshape(batch, length, -1), self.phones(phones)], -1))
        for block in self.blocks:
            x, _ = block(x)
        return self.out(self.norm(x))

    @torch.no_grad()
    def encode(self, codebooks: Codebooks, *features: Tensor) -> Tensor:
        """Codes of `features` (the arguments of `forward`), int64 `[B, F, tokens_per_frame]`."""
        codes, _, _ = codebooks.quantize(self(*features), features[-1])
        return pack_codes(codes, self.spec)
