"""Codec, stage A: encoder, codebooks and decoder trunk; then the tokens are frozen.

The trunk learns the synthesiser's parameters directly, so the decoder speaks as soon as this stage
ends; stage B (`codec_sound`) only tunes its sound. The finest codes name the sound being made
(`models.codec.phones`).
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from models.codec.encoder import CodecEncoder
from models.codec.phones import NUM_PHONES, VARIANTS
from models.codec.quantizer import Codebooks
from models.codec.trunk import DecoderTrunk
from models.spec import CodecSpec
from models.training.exchange import Worker
from models.training.features import HopFeatures
from models.training.progress import ProgressLog, falling

_DECAY = 0.98  # of the codebooks' moving averages
_RESTART_UNTIL = 0.75  # of the budget
_DEAD = 0.03  # average uses a step below which a code is given a new place
_FLOOR = 1.5e-3  # amplitude below which envelope errors are inaudible


@dataclass(frozen=True)
class TokenStageConfig:
    """How stage A trains; the defaults made the shipped voice."""

    batch_size: int = 8
    crop_frames: int = 8
    learning_rate: float = 1.2e-3
    unquantized_steps: int = 250
    stable_ratio: float = 0.35  # of the budget, before the rate falls
    exchange_steps: int = 10
    seed: int = 0


class TokenStage(nn.Module):
    """Everything that stage A trains."""

    def __init__(self, spec: CodecSpec) -> None:
        super().__init__()
        self.encoder = CodecEncoder(spec)
        self.codebooks = Codebooks(spec)
        self.trunk = DecoderTrunk(spec)


class CodebookAverages:
    """Moving averages that the codebooks follow (van den Oord et al., 2017)."""

    def __init__(self, codebooks: Codebooks) -> None:
        self.codebooks = codebooks
        self.counts = torch.ones(codebooks.vectors.shape[:2])
        self.sums = (
            codebooks.vectors.clone()
        )  # so long as nothing was counted, as if each code was used once
        self._recent: list[Tensor] = []

    @torch.no_grad()
    def seed(self, latents: Tensor, phones: Tensor) -> None:
        """Start every level from k-means on `[B, T, D]` with the sounds `[B, T]`."""
        residual = latents
        last = len(self.codebooks.strides) - 1
        for level, stride in enumerate(self.codebooks.strides):
            batch, _, size = residual.shape
            flat = residual.reshape(batch, -1, stride, size).mean(2).reshape(-1, size)
            table = self.codebooks.vectors[level]
            if level < last:
                _k_means(flat, table)
            else:
                for phone in range(NUM_PHONES):
                    rows = flat[phones.flatten() == phone]
                    if len(rows):
                        _k_means(rows, table[phone * VARIANTS : (phone + 1) * VARIANTS])
            _, _, parts = self.codebooks.quantize(latents, phones)
            residual = latents - torch.stack(parts[: level + 1]).sum(0)
        self.counts.fill_(1.0)
        self.sums.copy_(self.codebooks.vectors)

    @torch.no_grad()
    def update(self, codes: list[Tensor], pooled: list[Tensor]) -> None:
        """Move the codebooks towards the residuals that chose them."""
        self._recent = [p.reshape(-1, p.shape[-1]) for p in pooled]
        for level, (index, flat) in enumerate(zip(codes, self._recent, strict=True)):
            table = self.codebooks.vectors[level]
            counts = torch.bincount(index.flatten(), minlength=len(table)).float()
            sums = torch.zeros_like(table).index_add_(0, index.flatten(), flat)
            self.counts[level].mul_(_DECAY).add_(counts, alpha=1 - _DECAY)
            self.sums[level].mul_(_DECAY).add_(sums, alpha=1 - _DECAY)
        self.apply()

    @torch.no_grad()
    def apply(self) -> None:
        """Set the codebooks from the averages."""
        self.codebooks.vectors.copy_(self.sums / self.counts.clamp(min=1e-3)[..., None])

    @torch.no_grad()
    def restart_dead(self) -> None:
        """Put codes that are hardly used where data is."""
        # a dead variant of a sound would have to move to that sound: the finest level is left alone
        for level, flat in enumerate(self._recent[:-1]):
            dead = (self.counts[level] < _DEAD).nonzero()[:, 0][: len(flat)]
            vectors = flat[torch.randperm(len(flat))[: len(dead)]]
            self.codebooks.vectors[level][dead] = vectors
            self.counts[level][dead] = 0.3
            self.sums[level][dead] = vectors * 0.3


def _k_means(rows: Tensor, table: Tensor, rounds: int = 6) -> None:
    """Fit `table` `[N, D]` to `rows`, in place."""
    table.copy_(rows[torch.randint(0, len(rows), (len(table),))])
    table += 0.01 * torch.randn_like(table)
    for _ in range(rounds):
        index = torch.cdist(rows, table).argmin(1)
        counts = torch.bincount(index, minlength=len(table)).float()
        sums = torch.zeros_like(table).index_add_(0, index, rows)
        table.copy_(torch.where(counts[:, None] > 0, sums / counts.clamp(min=1)[:, None], table))


class CropSampler:
    """Random crops of the joined corpus, aligned to frames."""

    def __init__(
        self, data: HopFeatures, spec: CodecSpec, batch_size: int, frames: int, seed: int
    ) -> None:
        self.data, self.batch_size = data, batch_size
        self.hops_per_frame = spec.samples_per_frame // 128
        self.hops = frames * self.hops_per_frame
        self.last_frame = len(data.f0) // self.hops_per_frame - frames
        self.rng = np.random.default_rng(seed)

    def starts(self) -> np.ndarray:
        """First hop of each crop."""
        return self.rng.integers(0, self.last_frame, self.batch_size) * self.hops_per_frame

    def features(self, starts: np.ndarray) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """The encoder's arguments for the crops at `starts`."""
        d = self.data

        def crop(rows: np.ndarray, per: int = 1) -> Tensor:
            parts = [rows[s // per : s // per + self.hops // per] for s in starts]
            return torch.from_numpy(np.stack(parts))

        envelopes = crop(d.harmonic).float(), crop(d.noise).float()
        return (*envelopes, crop(d.f0), crop(d.voiced), crop(d.phones, 4))


def _levels(harmonic: Tensor, noise: Tensor) -> Tensor:
    """Log of the total amplitude per band, whichever branch it comes from."""
    fine = noise.repeat_interleave(2, -1) * 2
    floor = torch.full_like(fine, 2 * math.log(_FLOOR))
    return 0.5 * torch.logsumexp(torch.stack([harmonic * 2, fine, floor]), 0)


def envelope_loss(
    predicted: tuple[Tensor, ...],
    wanted: tuple[Tensor, ...],
    spec: CodecSpec,
    weights: Tensor | None = None,
) -> tuple[Tensor, dict[str, float]]:
    """Loss of the synthesiser's parameters, and its parts by name.

    Args:
        predicted: Harmonic and noise envelopes and pitch in octaves, as from the trunk.
        wanted: Harmonic, noise, f0 in hertz and voicing, as the encoder takes them.
        spec: The codec.
        weights: Weights of mean one of the hops, `[T]`; None weighs all alike.
    """
    harmonic, noise, f0, voiced = wanted
    weight = torch.ones(harmonic.shape[1]) if weights is None else weights
    column = weight[:, None]
    level, target = _levels(predicted[0], predicted[1]), _levels(harmonic, noise)
    total = ((level - target).abs() * column).mean()
    delta = ((level[:, 1:] - level[:, :-1]) - (target[:, 1:] - target[:, :-1])).abs().mean()
    branches = ((predicted[0] - harmonic).abs() * column).mean() + (
        (predicted[1] - noise).abs() * column
    ).mean()
    octaves = torch.log2(f0.clamp(min=50.0) / spec.reference_hz)
    heard = voiced * weight
    pitch = ((predicted[2] - octaves).abs() * heard).sum() / (heard.sum() + 1)
    loss = total + 0.5 * delta + 0.25 * branches + 2.0 * pitch
    return loss, {
        "level": total.item(),
        "branches": branches.item(),
        "semitones": pitch.item() * 12,
    }


def _forward(
    stage: TokenStage,
    averages: CodebookAverages,
    features: tuple[Tensor, ...],
    *,
    is_quantized: bool,
) -> tuple[Tensor, dict[str, float]]:
    """Loss of one batch and its parts by name; moves the codebooks' averages."""
    latents = stage.encoder(*features)
    spread = (latents.square().mean() - 1).abs() * 0.01
    phones = features[4]
    if not is_quantized:
        total, commit = latents, torch.zeros(())
    else:
        codes, pooled, parts = stage.codebooks.quantize(latents, phones)
        averages.update(codes, pooled)
        commit = (latents - sum(parts)).square().mean()
        keep = torch.ones(len(parts), latents.shape[0], 1, 1)
        shallow = torch.rand(latents.shape[0]) < 0.1
        keep[-1, shallow] = 0.0

        kept = sum(p * k for p, k in zip(parts, keep, strict=True))
        total = latents + (kept - latents).detach()
    predicted = stage.trunk(stage.codebooks.with_phones(total, phones))
    loss, report = envelope_loss(predicted[:3], features[:4], stage.codebooks.spec)
    report |= {"commit": commit.item(), "power": latents.square().mean().item()}
    return loss + 0.25 * commit + spread, report


def _seed(stage: TokenStage, averages: CodebookAverages, sampler: CropSampler) -> None:
    """Start the codebooks from what the encoder says by now."""
    with torch.no_grad():
        batches = [sampler.features(sampler.starts()) for _ in range(30)]
        averages.seed(
            torch.cat([stage.encoder(*b) for b in batches]), torch.cat([b[4] for b in batches])
        )


def train(
    data: HopFeatures,
    spec: CodecSpec,
    config: TokenStageConfig,
    worker: Worker,
    start: dict[str, Tensor] | None = None,
) -> TokenStage:
    """Train stage A.

    Args:
        data: Teacher parameters of whole frames on end.
        spec: The codec.
        config: See there.
        worker: Budget and company; workers that average must start from the same weights.
        start: Weights of an earlier run to go on from; None starts from nothing.
    """
    torch.manual_seed(config.seed + worker.index)
    seed = config.seed + 1000 * worker.index + 7
    sampler = CropSampler(data, spec, config.batch_size, config.crop_frames, seed)
    stage = TokenStage(spec)
    if start is not None:
        stage.load_state_dict(start)
    averages = CodebookAverages(stage.codebooks)
    exchange = worker.meet([*stage.parameters(), averages.counts, averages.sums])
    optimizer = torch.optim.AdamW(
        stage.parameters(), config.learning_rate, betas=(0.9, 0.98), weight_decay=1e-3
    )
    log = ProgressLog(worker.log)
    quantize_from = config.unquantized_steps if start is None else 0
    while (done := log.elapsed_s / worker.budget_s) < 1:
        rate = min(1.0, (log.step + 1) / 100) * falling(done, config.stable_ratio)
        for group in optimizer.param_groups:
            group["lr"] = config.learning_rate * rate
        if start is None and log.step == quantize_from:
            _seed(stage, averages, sampler)
        features = sampler.features(sampler.starts())
        is_quantized = log.step >= quantize_from
        loss, report = _forward(stage, averages, features, is_quantized=is_quantized)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(stage.parameters(), 1.0)
        optimizer.step()
        log.add(report)
        if exchange is not None and log.step % config.exchange_steps == 0:
            exchange.average()
            averages.apply()
        elif exchange is None and is_quantized and log.step % 50 == 0 and done < _RESTART_UNTIL:
            averages.restart_dead()
    log.flush()
    return stage
