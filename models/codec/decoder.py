"""The codec's decoder: frames of codes to samples, with each stream's state in a row."""

from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn

from models.codec.quantizer import Codebooks
from models.codec.synthesiser import HOP, OVERLAP, SOURCE_TAIL, Synthesiser, overlap_add
from models.codec.trunk import DecoderTrunk, pitch_hz
from models.spec import CodecSpec


@dataclass(frozen=True)
class CodecState:
    """What the decoder remembers of each stream; row b belongs to slot b.

    Attributes:
        contexts: Past rows of each convolution block, `[B, rows, C]`.
        source: The last 384 samples of the pulse train, `[B, 384]`.
        phase: Its phase in cycles, float64 `[B]`.
        pitch: Its pitch in hertz, `[B]`.
        hops: Hops decoded so far, int64 `[B]`; the noise is a function of it.
        overlap: Samples that are still to be added to, `[B, 896]`.
        speaker: Who speaks, int64 `[B]`.
    """

    contexts: tuple[Tensor, ...]
    source: Tensor
    phase: Tensor
    pitch: Tensor
    hops: Tensor
    overlap: Tensor
    speaker: Tensor

    def _tensors(self) -> list[Tensor]:
        others = [getattr(self, f.name) for f in fields(self) if f.name != "contexts"]
        return [*self.contexts, *others]

    def gather(self, rows: Tensor) -> "CodecState":
        """Copy the given rows (int64 `[R]`) into a state of batch size R."""
        contexts = tuple(c[rows] for c in self.contexts)
        return CodecState(
            contexts,
            self.source[rows],
            self.phase[rows],
            self.pitch[rows],
            self.hops[rows],
            self.overlap[rows],
            self.speaker[rows],
        )

    def scatter(self, rows: Tensor, part: "CodecState") -> None:
        """Write `part` (batch size R) into the rows `rows` of this state, in place."""
        for mine, theirs in zip(self._tensors(), part._tensors(), strict=True):
            mine[rows] = theirs


class CodecDecoder(nn.Module):
    """Codes to samples: causal; every call returns all the samples of its frames."""

    def __init__(self, spec: CodecSpec) -> None:
        super().__init__()
        self.spec = spec
        self.codebooks = Codebooks(spec)
        self.trunk = DecoderTrunk(spec)
        self.synthesiser = Synthesiser()
        references = torch.tensor([spec.reference_hz, *spec.speaker_hz])
        self.register_buffer("references", references, persistent=False)
        self.references: Tensor

    def new_state(self, batch_size: int, speaker: int | Tensor = 0) -> CodecState:
        """The state of `batch_size` streams at their first sample: silence before.

        Args:
            batch_size: Streams.
            speaker: Who speaks in all of them, or in each (int64 `[batch_size]`).
        """
        device = self.codebooks.vectors.device
        speakers = torch.zeros(batch_size, dtype=torch.int64, device=device) + speaker
        zeros = lambda *shape: torch.zeros(batch_size, *shape, device=device)  # noqa: E731
        return CodecState(
            contexts=tuple(zeros(b.context_rows, b.size) for b in self.trunk.blocks),
            source=zeros(SOURCE_TAIL),
            phase=zeros().double(),
            pitch=self.references[speakers],
            hops=torch.zeros(batch_size, dtype=torch.int64, device=device),
            overlap=zeros(OVERLAP),
            speaker=speakers,
        )

    def forward(self, codes: Tensor, state: CodecState) -> tuple[Tensor, CodecState]:
        """Decode the next frames of each stream.

        Args:
            codes: int64 `[B, F, 7]`, F >= 1, each below the codebook size.
            state: Of the frames before; not changed.

        Returns:
            Samples float32 `[B, F * samples_per_frame]` in [-1, 1], and the state after them.
        """
        latents = self.codebooks.embed(codes)
        harmonic, aperiodic, octaves, contexts = self.trunk(
            latents, list(state.contexts), state.speaker
        )
        pitch = pitch_hz(octaves, self.references[state.speaker])
        length = pitch.shape[1]
        wave, phase = self.synthesiser.pulses(pitch, state.pitch, state.phase)
        pulses = torch.cat([state.source, wave], 1)
        noise = self.synthesiser.noise_at(state.hops, length + SOURCE_TAIL // HOP)
        summed = overlap_add(self.synthesiser.frames(pulses, noise, harmonic, aperiodic))
        summed = torch.cat([summed[:, :OVERLAP] + state.overlap, summed[:, OVERLAP:]], 1)
        done = length * HOP
        after = CodecState(
            tuple(contexts),
            pulses[:, -SOURCE_TAIL:],
            phase,
            pitch[:, -1],
            state.hops + length,
            summed[:, done:],
            state.speaker,
        )
        return summed[:, :done].clamp(-1.0, 1.0), after

    def decode(self, codes: Tensor, speaker: int | Tensor = 0) -> Tensor:
        """Decode whole streams at once, `[B, F, 7]` -> `[B, F * samples_per_frame]`."""
        samples, _ = self(codes, self.new_state(codes.shape[0], speaker))
        return samples
