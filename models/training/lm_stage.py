"""Training of the language model: one process per core, weights averaged, resumable at any moment.

The end may be moved while it runs: `control.json` in the run directory holds the instants (Unix
seconds) at which the learning rate starts to fall and at which training stops, and is read again
every few steps.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec
import torch
from torch import nn

from models.language_model import LanguageModel
from models.spec import ModelSpec
from models.training.exchange import WeightExchange
from models.training.lm_loss import batch_loss, collate, initialize
from models.training.muon import Muon
from models.training.sequences import MixConfig, Sequence, SequenceMixer, Spoken, build, load_spoken
from models.training.wall import wall_s

_REPORT_STEPS = 24


class Control(msgspec.Struct, frozen=True):
    """When training changes; instants in Unix seconds.

    Attributes:
        decay_at: The learning rate starts to fall towards zero.
        stop_at: It has fallen; training stops.
    """

    decay_at: float
    stop_at: float


@dataclass(frozen=True)
class LanguageStageConfig:
    """How the language model trains; the defaults made the shipped voice."""

    batch_tokens: int = 2048
    accumulate: int = 1
    matrix_rate: float = 0.015
    other_rate: float = 4e-3
    weight_decay: float = 0.05
    corruption: float = 0.06
    guide_weight: float = 0.25
    guided_layers: tuple[int, ...] = (1, 3)
    warmup_steps: int = 40
    curriculum_s: float = 360.0
    first_length: int = 120
    exchange_steps: int = 12
    stable_ratio: float = 0.65  # of a budget, before the rate falls
    average_decay: float = 0.97  # of the exported weights' moving average, once per exchange
    checkpoint_s: float = 120.0
    evaluate_s: float = 300.0
    device: str = "cpu"
    seed: int = 0


class LanguageStage:
    """One worker of the training; worker 0 also keeps the average, the checkpoints and the log."""

    def __init__(
        self,
        spec: ModelSpec,
        tokens: Path,
        run: Path,
        config: LanguageStageConfig,
        *,
        worker: int = 0,
        num_workers: int = 1,
    ) -> None:
        self.config, self.run_dir, self.worker = config, run, worker
        self.device = torch.device(config.device)
        self.model = LanguageModel(spec)
        initialize(self.model, torch.Generator().manual_seed(config.seed))
        self.model.to(self.device)
        torch.manual_seed(config.seed * 1000 + worker + int(wall_s()))
        self.tokens, self._tokens_mtime = tokens, tokens.stat().st_mtime
        self.mixer = SequenceMixer(
            load_spoken(tokens),
            spec,
            MixConfig(),
            config.batch_tokens,
            config.seed * 1000 + worker + int(wall_s()),
        )
        self.held = self._held_sequences(load_spoken(tokens.with_name("held.npz")), spec)
        hidden = [p for n, p in self.model.named_parameters() if p.dim() == 2 and ".layers." in n]
        chosen = {id(p) for p in hidden}
        others = [p for p in self.model.parameters() if id(p) not in chosen]
        self.others = others
        self.muon = Muon(hidden, config.matrix_rate, weight_decay=config.weight_decay)
        self.adam = torch.optim.AdamW(
            others, config.other_rate, betas=(0.9, 0.95), weight_decay=0.0
        )
        self.average = {n: p.detach().clone() for n, p in self.model.named_parameters()}
        self.step, self.seen, self.elapsed_s = 0, 0, 0.0
        run.mkdir(parents=True, exist_ok=True)
        self._resume()
        self.exchange = WeightExchange(
            run / "exchange", worker, num_workers, self.model.parameters()
        )

    @staticmethod
    def _held_sequences(spoken: list[Spoken], spec: ModelSpec) -> list[list[Sequence]]:
        sequences = sorted((build([s], spec) for s in spoken), key=lambda s: len(s.ids))
        return [sequences[i : i + 8] for i in range(0, len(sequences), 8)]

    def _resume(self) -> None:
        """Go on from the run's checkpoint, if there is one."""
        path = self.run_dir / "checkpoint.pt"
        if not path.exists():
            return
        saved = torch.load(path, weights_only=True, map_location=self.device)
        self.model.load_state_dict(saved["model"])
        self.average = saved["average"]
        self.step, self.seen, self.elapsed_s = saved["step"], saved["seen"], saved["elapsed_s"]
        if self.worker == 0:
            self.muon.load_state_dict(saved["muon"])
            self.adam.load_state_dict(saved["adam"])

    def start_from(self, weights: dict[str, torch.Tensor]) -> None:
        """Begin from given weights where the run has no checkpoint of its own."""
        if self.step == 0:
            self.model.load_state_dict(weights)
            self.average = {n: p.detach().clone() for n, p in self.model.named_parameters()}
            self.elapsed_s = self.config.curriculum_s

    def _save(self) -> None:
        part = self.run_dir / "checkpoint.part"
        torch.save(
            {
                "model": self.model.state_dict(),
                "average": self.average,
                "muon": self.muon.state_dict(),
                "adam": self.adam.state_dict(),
                "step": self.step,
                "seen": self.seen,
                "elapsed_s": self.elapsed_s,
            },
            part,
        )
        part.replace(self.run_dir / "checkpoint.pt")

    def _rate(self, control: Control) -> float:
        warm = min(1.0, (self.step + 1) / self.config.warmup_steps)
        left = (control.stop_at - wall_s()) / max(1.0, control.stop_at - control.decay_at)
        return warm * min(1.0, max(0.02, left))

    def _control(self) -> Control:
        return msgspec.json.decode((self.run_dir / "control.json").read_bytes(), type=Control)

    def _follow_data(self) -> None:
        """Read the tokens again where the file was replaced by a larger one."""
        mtime = self.tokens.stat().st_mtime
        if mtime != self._tokens_mtime:
            self._tokens_mtime = mtime
            self.mixer.spoken = load_spoken(self.tokens)

    @torch.no_grad()
    def evaluate(self) -> tuple[list[float], float]:
        """Held-out cross-entropy per frame position and aligned share, of the averaged weights."""
        own = {n: p.detach().clone() for n, p in self.model.named_parameters()}
        self.model.load_state_dict(self.average)
        total, aligned = torch.zeros(7), 0.0
        for sequences in self.held:
            _, entropy, share = self._loss(sequences, corruption=0.0)
            total += entropy.cpu()
            aligned += float(share)
        self.model.load_state_dict(own)
        return (total / len(self.held)).tolist(), aligned / len(self.held)

    def _loss(
        self, sequences: list[Sequence], corruption: float
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return batch_loss(
            self.model,
            collate(sequences, self.device),
            corruption=corruption,
            guide_weight=self.config.guide_weight,
            guided_layers=self.config.guided_layers,
        )

    def _update_average(self) -> None:
        # young weights change fast: a shorter memory at first
        decay = min(
            self.config.average_decay,
            (1 + self.step) / (10 * self.config.exchange_steps + self.step),
        )
        with torch.no_grad():
            for name, p in self.model.named_parameters():
                self.average[name].lerp_(p, 1 - decay)

    def _longest(self) -> int:
        ramp = min(1.0, self.elapsed_s / self.config.curriculum_s)
        limit = self.model.spec.max_positions
        return limit if ramp >= 1 else int(self.config.first_length + ramp * 700)

    def _set_rate(self, rate: float) -> None:
        for optimizer, full in (
            (self.muon, self.config.matrix_rate),
            (self.adam, self.config.other_rate),
        ):
            for group in optimizer.param_groups:
                group["lr"] = full * rate

    def _train_step(self, batches: Iterator[list[Sequence]], report: "_Report") -> None:
        """Accumulate gradients over the step's batches and apply both optimisers."""
        for _ in range(self.config.accumulate):
            sequences = next(batches)
            loss, entropy, aligned = self._loss(sequences, self.config.corruption)
            (loss / self.config.accumulate).backward()
            report.add(entropy.cpu(), float(aligned))
            self.seen += sum(int((s.said >= 0).sum()) for s in sequences)
        nn.utils.clip_grad_norm_(self.others, 1.0)
        self.muon.step()
        self.adam.step()
        self.muon.zero_grad()
        self.adam.zero_grad()
        self.step += 1

    def _meet(self) -> Control:
        """Average with the other workers; look for new orders and new data."""
        self.exchange.average()
        if self.worker == 0:
            self._update_average()
        self._follow_data()
        return self._control()

    def run(self) -> None:
        """Train until the control file's stop."""
        config, control = self.config, self._control()
        batches = self.mixer.batches()
        saved = evaluated = tick = wall_s()
        report = _Report(self.run_dir / f"worker_{self.worker}.jsonl")
        while tick < control.stop_at:
            rate = self._rate(control)
            self._set_rate(rate)
            self.mixer.max_length = self._longest()
            self._train_step(batches, report)
            now = wall_s()
            self.elapsed_s, tick = self.elapsed_s + now - tick, now
            if self.step % config.exchange_steps == 0:
                control = self._meet()
            if self.step % _REPORT_STEPS == 0:
                report.write(self, rate)
            if self.worker == 0 and now - saved > config.checkpoint_s:
                self._save()
                saved = now
            if self.worker == 0 and now - evaluated > config.evaluate_s:
                self._log_evaluation()
                evaluated = now
        if self.worker == 0:
            self._save()
            self._log_evaluation()

    def _log_evaluation(self) -> None:
        entropy, aligned = self.evaluate()
        row = {
            "held_out": [round(x, 3) for x in entropy],
            "held_out_mean": round(sum(entropy) / len(entropy), 4),
            "held_out_aligned": round(aligned, 3),
            "step": self.step,
            "elapsed_s": round(self.elapsed_s, 1),
            "config": asdict(self.config),
        }
        with (self.run_dir / "evaluations.jsonl").open("a") as lines:
            lines.write(json.dumps(row) + "\n")


class _Report:
    """Sums since the last line of the log."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._clear()

    def _clear(self) -> None:
        self.entropy, self.aligned, self.batches = torch.zeros(7), 0.0, 0

    def add(self, entropy: torch.Tensor, aligned: float) -> None:
        """Count one batch."""
        self.entropy += entropy
        self.aligned += aligned
        self.batches += 1

    def write(self, stage: LanguageStage, rate: float) -> None:
        """Append one line and start anew."""
        mean = (self.entropy / self.batches).tolist()
        row = {
            "step": stage.step,
            "elapsed_s": round(stage.elapsed_s, 1),
            "speech_tokens": stage.seen,
            "rate": round(rate, 4),
            "longest": stage.mixer.max_length,
            "entropy": [round(x, 3) for x in mean],
            "mean": round(sum(mean) / len(mean), 4),
            "aligned": round(self.aligned / self.batches, 3),
        }
        with self.path.open("a") as lines:
            lines.write(json.dumps(row) + "\n")
        self._clear()
