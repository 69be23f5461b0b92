"""Codec, stage B: the decoder alone goes on learning, with the tokens frozen.

Tokens do not change, so this may run beside the language model and be repeated at any time. It fits the teacher's
parameters first; a waveform loss (multi-resolution spectra) may be mixed in for the last part.
"""

import json
import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from models.codec.decoder import CodecDecoder
from models.training.codec_tokens import CropSampler, envelope_loss
from models.training.exchange import WeightExchange
from models.training.features import HopFeatures

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


def _frame_weights(hops: int, cold_weight: float) -> Tensor:
    weights = torch.ones(hops)
    weights[:_HOPS_PER_FRAME] = cold_weight
    return weights / weights.mean()


def train(
    data: HopFeatures,
    codes: np.ndarray,
    decoder: CodecDecoder,
    config: SoundStageConfig,
    budget_s: float,
    log: Path,
    *,
    exchange_folder: Path | None = None,
    worker: int = 0,
    num_workers: int = 1,
) -> None:
    """Train `decoder` in place for `budget_s` seconds.

    Args:
        data: Teacher parameters of whole frames on end.
        codes: Their frozen codes, int16 `[F, 7]`.
        decoder: Codebooks and trunk; the codebooks' vectors move with it, the codes' meaning does not.
        config: See there.
        budget_s: Seconds of wall time.
        log: Progress as JSON lines.
        exchange_folder: Where several processes that train the same decoder average their weights.
        worker: Which of them this is.
        num_workers: How many there are.
    """
    spec = decoder.spec
    torch.manual_seed(config.seed + worker)
    sampler = CropSampler(data, spec, config.batch_size, config.crop_frames, config.seed + 1000 * worker)
    vectors = nn.Parameter(decoder.codebooks.vectors.clone())
    del decoder.codebooks.vectors
    decoder.codebooks.vectors = vectors
    params = list(decoder.parameters())
    exchange = WeightExchange(exchange_folder, worker, num_workers, params) if exchange_folder else None
    optimizer = torch.optim.AdamW(params, config.learning_rate, betas=(0.9, 0.98), weight_decay=1e-3)
    weights = _frame_weights(sampler.hops, config.cold_weight)
    started, step, sums = time.perf_counter(), 0, {}
    with log.open("a") as lines:
        while (done := (time.perf_counter() - started) / budget_s) < 1:
            fall = max(0.0, (done - config.stable_ratio) / (1 - config.stable_ratio))
            rate = min(1.0, (step + 1) / 50) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * fall)))
            for group in optimizer.param_groups:
                group["lr"] = config.learning_rate * rate
            starts = sampler.starts()
            harmonic, noise, f0, voiced, _ = sampler.features(starts)
            frames = [codes[s // _HOPS_PER_FRAME : s // _HOPS_PER_FRAME + config.crop_frames] for s in starts]
            latents = decoder.codebooks.embed(torch.from_numpy(np.stack(frames)).long())
            predicted = decoder.trunk(latents)
            loss, report = envelope_loss(predicted[:3], harmonic, noise, f0, voiced, spec, weights)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(params, 1.0)
            optimizer.step()
            step += 1
            if exchange is not None and step % config.exchange_steps == 0:
                exchange.average()
            for name, value in report.items():
                sums[name] = sums.get(name, 0.0) + value
            if step % 100 == 0:
                elapsed = round(time.perf_counter() - started, 1)
                row = {"step": step, "elapsed_s": elapsed} | {k: round(v / 100, 4) for k, v in sums.items()}
                lines.write(json.dumps(row) + "\n")
                lines.flush()
                sums = {}
    fitted = vectors.detach()
    del decoder.codebooks.vectors
    decoder.codebooks.register_buffer("vectors", fitted)
