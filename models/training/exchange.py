"""Weight averaging between training processes of one machine, through files mapped into memory.

No process waits for another: each publishes its weights and meets the others' latest halfway. A
torn read mixes two versions a few steps apart, which is what the averaging does anyway.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from models.training.wall import wall_s

_STALE_S = 120.0


@dataclass(frozen=True)
class Worker:
    """One process of a training stage.

    Attributes:
        budget_s: Seconds that it trains.
        log: Where its progress goes, as JSON lines.
        exchange: Folder through which the workers of the stage average; None where it is alone.
        index: Which of them it is.
        count: How many there are.
    """

    budget_s: float
    log: Path
    exchange: Path | None = None
    index: int = 0
    count: int = 1

    def meet(self, params: Iterable[Tensor]) -> "WeightExchange | None":
        """The exchange of these weights, None where there is nobody to meet."""
        if self.exchange is None:
            return None
        return WeightExchange(self.exchange, self.index, self.count, params)


class WeightExchange:
    """The weights of `num_workers` processes, one mapped row each."""

    def __init__(
        self, folder: Path, worker: int, num_workers: int, params: Iterable[Tensor]
    ) -> None:
        self.params = list(params)
        self.worker = worker
        size = sum(p.numel() for p in self.params) + 1
        folder.mkdir(parents=True, exist_ok=True)
        self.rows = [
            torch.from_file(
                str(folder / f"weights_{i}.bin"), shared=True, size=size, dtype=torch.float32
            )
            for i in range(num_workers)
        ]
        # float32 holds seconds since an epoch of its own to a fraction of a second for a day
        self._epoch = float(int(wall_s() / 86400) * 86400)

    def _now(self) -> float:
        return wall_s() - self._epoch

    @torch.no_grad()
    def publish(self) -> None:
        """Write this process's weights into its row."""
        row = self.rows[self.worker]
        row[:-1] = torch.cat([p.detach().cpu().flatten() for p in self.params])
        row[-1] = self._now()

    @torch.no_grad()
    def average(self) -> int:
        """Publish, then move to the mean of all fresh rows; return how many were fresh."""
        self.publish()
        now = self._now()
        fresh = [row for row in self.rows if abs(now - float(row[-1])) < _STALE_S]
        if len(fresh) > 1:
            mean = torch.stack([row[:-1] for row in fresh]).mean(0)
            for p, part in zip(
                self.params, mean.split([p.numel() for p in self.params]), strict=True
            ):
                p.copy_(part.view_as(p))
        return len(fresh)
