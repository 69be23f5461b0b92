"""Codec, stage B: the decoder alone goes on learning, with the tokens frozen.

Tokens do not change, so this may run beside the language model and be repeated at any time. It
fits the teacher's parameters first; a waveform loss (multi-resolution spectra) may be mixed in for
the last part.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from models.codec.decoder import CodecDecoder
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
    exchange_steps: int = 10
    seed: int = 1


def _hop_weights(hops: int, cold_weight: float) -> Tensor:
    weights = torch.ones(hops)
    weights[:_HOPS_PER_FRAME] = cold_weight
    return weights / weights.mean()


def train(
    data: HopFeatures,
    codes: np.ndarray,
    decoder: CodecDecoder,
    config: SoundStageConfig,
    worker: Worker,
) -> None:
    """Train `decoder` in place.

    Args:
        data: Teacher parameters of whole frames on end.
        codes: Their frozen codes, int16 `[F, 7]`.
        decoder: Codebooks and trunk; the codebooks' vectors move, the codes' meaning does not.
        config: See there.
        worker: Budget and company.
    """
    spec = decoder.spec
    torch.manual_seed(config.seed + worker.index)
    seed = config.seed + 1000 * worker.index
    sampler = CropSampler(data, spec, config.batch_size, config.crop_frames, seed)
    vectors = nn.Parameter(decoder.codebooks.vectors.clone())
    del decoder.codebooks.vectors
    decoder.codebooks.vectors = vectors
    params = list(decoder.parameters())
    exchange = worker.meet(params)
    optimizer = torch.optim.AdamW(
        params, config.learning_rate, betas=(0.9, 0.98), weight_decay=1e-3
    )
    weights = _hop_weights(sampler.hops, config.cold_weight)
    log = ProgressLog(worker.log)
    while (done := log.elapsed_s / worker.budget_s) < 1:
        rate = min(1.0, (log.step + 1) / 50) * falling(done, config.stable_ratio)
        for group in optimizer.param_groups:
            group["lr"] = config.learning_rate * rate
        starts = sampler.starts()
        first = starts // _HOPS_PER_FRAME
        frames = np.stack([codes[f : f + config.crop_frames] for f in first])
        latents = decoder.codebooks.embed(torch.from_numpy(frames).long())
        wanted = sampler.features(starts)[:4]
        loss, report = envelope_loss(decoder.trunk(latents)[:3], wanted, spec, weights)
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
