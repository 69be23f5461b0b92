"""Codec, stage B: the decoder alone goes on learning, with the tokens frozen.

Tokens do not change, so this may run beside the language model and be repeated at any time. Further
speakers are learnt here: from the first speaker's codes to their own sound (`parallel`).
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from models.codec.decoder import CodecDecoder
from models.spec import CodecSpec
from models.training.codec_tokens import CropSampler, envelope_loss
from models.training.exchange import Worker
from models.training.features import HopFeatures
from models.training.progress import ProgressLog, falling

_HOPS_PER_FRAME = 16


@dataclass(frozen=True)
class SoundStageConfig:
    """How stage B trains; the defaults made the shipped voice."""

    batch_size: int = 6
    crop_frames: int = 12
    learning_rate: float = 1.2e-3
    stable_ratio: float = 0.3  # of the budget, before the rate falls
    cold_weight: float = 0.3  # of the loss on a crop's first frame, which lacks its past
    speaker_rate: float = 6e-3  # learning rate of what tells speakers apart
    first_ratio: float = 0.5  # of a batch, for the first speaker where there are more
    exchange_steps: int = 10
    seed: int = 1


def _hop_weights(hops: int, cold_weight: float) -> Tensor:
    weights = torch.ones(hops)
    weights[:_HOPS_PER_FRAME] = cold_weight
    return weights / weights.mean()


@dataclass(frozen=True)
class SpeakerSpeech:
    """What one speaker is learnt from.

    Attributes:
        data: Parameters of whole frames on end.
        codes: Their frozen codes, int16 `[F, 7]`; those of the first speaker saying the same, for
            the others.
        speaker: Whose sound `data` is.
    """

    data: HopFeatures
    codes: np.ndarray
    speaker: int = 0


class _SpeakerCrops:
    """Crops of one speaker."""

    def __init__(
        self, speech: SpeakerSpeech, spec: CodecSpec, rows: int, frames: int, seed: int
    ) -> None:
        self.speech, self.frames = speech, frames
        self.sampler = CropSampler(speech.data, spec, rows, frames, seed)
        hz = (spec.reference_hz, *spec.speaker_hz)[speech.speaker]
        self.to_first_speaker = spec.reference_hz / hz

    def draw(self) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Codes `[B, F, 7]`, speakers `[B]`, and what the synthesiser should be told."""
        starts = self.sampler.starts()
        firsts = starts // _HOPS_PER_FRAME
        codes = np.stack([self.speech.codes[f : f + self.frames] for f in firsts])
        harmonic, noise, f0, voiced, _ = self.sampler.features(starts)
        speakers = torch.full((len(starts),), self.speech.speaker)
        # the pitch in octaves is relative to the speaker
        wanted = [harmonic, noise, f0 * self.to_first_speaker, voiced]
        return torch.from_numpy(codes).long(), speakers, wanted


def _rows_of(speech: list[SpeakerSpeech], batch_size: int, first_ratio: float) -> list[int]:
    """Rows of a batch for each speaker."""
    others = len(speech) - 1
    first = batch_size if not others else max(1, round(batch_size * first_ratio))
    return [first, *[max(1, (batch_size - first) // max(1, others))] * others]


def _groups(decoder: CodecDecoder, config: SoundStageConfig) -> list[dict[str, object]]:
    """Parameters by learning rate: the tables of speakers start at zero and have far to go."""
    tables = [p for n, p in decoder.named_parameters() if ".speakers." in n]
    chosen = {id(p) for p in tables}
    others = [p for p in decoder.parameters() if id(p) not in chosen]
    groups: list[dict[str, object]] = [{"params": others, "full_rate": config.learning_rate}]
    if tables:
        groups.append({"params": tables, "full_rate": config.speaker_rate})
    return groups


def train(
    speech: list[SpeakerSpeech],
    decoder: CodecDecoder,
    config: SoundStageConfig,
    worker: Worker,
) -> None:
    """Train `decoder` in place.

    Args:
        speech: What each speaker is learnt from, the first speaker first.
        decoder: Codebooks and trunk; the codebooks' vectors move, the codes' meaning does not.
        config: See there.
        worker: Budget and company.
    """
    spec = decoder.spec
    torch.manual_seed(config.seed + worker.index)
    seed = config.seed + 1000 * worker.index
    rows = _rows_of(speech, config.batch_size, config.first_ratio)
    crops = [
        _SpeakerCrops(part, spec, count, config.crop_frames, seed + 100 * part.speaker)
        for part, count in zip(speech, rows, strict=True)
    ]
    vectors = nn.Parameter(decoder.codebooks.vectors.clone())
    del decoder.codebooks.vectors
    decoder.codebooks.vectors = vectors
    params = list(decoder.parameters())
    exchange = worker.meet(params)
    optimizer = torch.optim.AdamW(_groups(decoder, config), betas=(0.9, 0.98), weight_decay=1e-3)
    weights = _hop_weights(config.crop_frames * _HOPS_PER_FRAME, config.cold_weight)
    log = ProgressLog(worker.log)
    while (done := log.elapsed_s / worker.budget_s) < 1:
        rate = min(1.0, (log.step + 1) / 50) * falling(done, config.stable_ratio)
        for group in optimizer.param_groups:
            group["lr"] = group["full_rate"] * rate
        parts = [crop.draw() for crop in crops]
        codes = torch.cat([part[0] for part in parts])
        speakers = torch.cat([part[1] for part in parts])
        wanted = tuple(torch.cat(x) for x in zip(*(part[2] for part in parts), strict=True))
        predicted = decoder.trunk(decoder.codebooks.embed(codes), None, speakers)
        loss, report = envelope_loss(predicted[:3], wanted, spec, weights)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(params, 1.0)
        optimizer.step()
        log.add(report)
        if exchange is not None and log.step % config.exchange_steps == 0:
            exchange.average()
    log.flush()
    fitted = vectors.detach()
    del decoder.codebooks.vectors
    decoder.codebooks.register_buffer("vectors", fitted)
