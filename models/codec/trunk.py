"""The decoder's network: latents to the parameters of the source-filter synthesiser, causal."""

import torch
from torch import Tensor, nn

from models.codec.bands import HARMONIC_BANDS, NOISE_BANDS
from models.codec.blocks import ConvBlock
from models.codec.phones import PHONE_SIZE
from models.codec.speakers import Film, SpeakerFilm, modulate
from models.spec import CodecSpec

HOPS_PER_LATENT = 4
_PITCH_OCTAVES = 1.6  # the pitch stays within this of the reference


class DecoderTrunk(nn.Module):
    """Causal convolutions per latent, then per hop, and three linear heads."""

    def __init__(self, spec: CodecSpec) -> None:
        super().__init__()
        self.spec = spec
        self.stem = nn.Linear(spec.latent_size + PHONE_SIZE, spec.trunk_size)
        self.slow = nn.ModuleList(
            ConvBlock(spec.trunk_size, spec.trunk_hidden_size, d, causal=True)
            for d in spec.trunk_dilations
        )
        self.upsample = nn.Linear(spec.trunk_size, HOPS_PER_LATENT * spec.fine_size)
        self.fast = nn.ModuleList(
            ConvBlock(spec.fine_size, spec.fine_hidden_size, d, causal=True)
            for d in spec.fine_dilations
        )
        self.norm = nn.RMSNorm(spec.fine_size, eps=1e-5)
        self.harmonic = nn.Linear(spec.fine_size, HARMONIC_BANDS)
        self.noise = nn.Linear(spec.fine_size, NOISE_BANDS)
        self.pitch = nn.Linear(spec.fine_size, 1)
        for head in (self.harmonic, self.noise, self.pitch):
            nn.init.normal_(head.weight, 0.0, 0.01)
            nn.init.zeros_(head.bias)
        if spec.num_speakers > 1:
            sizes = [block.size for block in self.blocks] + [spec.fine_size]
            self.speakers = SpeakerFilm(spec.num_speakers, sizes)

    @property
    def blocks(self) -> list[ConvBlock]:
        """Every block in the order of the contexts."""
        return [
            block
            for group in (self.slow, self.fast)
            for block in group
            if isinstance(block, ConvBlock)
        ]

    def _films(self, speaker: Tensor | None) -> list[Film | None]:
        if self.spec.num_speakers == 1 or speaker is None:
            return [None] * (len(self.blocks) + 1)
        return list(self.speakers(speaker))

    def forward(
        self,
        latents: Tensor,
        contexts: list[Tensor] | None = None,
        speaker: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
        """Predict the synthesiser's parameters.

        Args:
            latents: With their sounds, `[B, T, latent_size + PHONE_SIZE]`.
            contexts: One `[B, rows, C]` per block from the call before; None starts from silence.
            speaker: Who speaks, int64 `[B]`; None is speaker 0 as it was before there were others.

        Returns:
            Log amplitudes of the harmonic `[B, 4T, 80]` and noise `[B, 4T, 40]` envelopes, pitch
            in octaves from the speaker's reference `[B, 4T]`, and the contexts for the next call.
        """
        given = iter(contexts) if contexts is not None else iter(())
        kept: list[Tensor] = []
        films = iter(self._films(speaker))
        x = self.stem(latents)
        for block in self.slow:
            x, context = block(x, next(given, None), next(films))
            kept.append(context)
        batch, length, _ = x.shape
        x = self.upsample(x).view(batch, length * HOPS_PER_LATENT, -1)
        for block in self.fast:
            x, context = block(x, next(given, None), next(films))
            kept.append(context)
        x = modulate(self.norm(x), next(films))
        octaves = self.pitch(x)[..., 0].clamp(-_PITCH_OCTAVES, _PITCH_OCTAVES)
        return self.harmonic(x) * 2 - 4, self.noise(x) * 1.5 - 5, octaves, kept


def pitch_hz(octaves: Tensor, reference_hz: Tensor) -> Tensor:
    """Octaves `[B, T]` from each stream's reference `[B]` to hertz."""
    return torch.exp2(octaves) * reference_hz[:, None]
