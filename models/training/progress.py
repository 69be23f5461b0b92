"""What the training loops share: the fall of a learning rate, and a log of means as JSON lines."""

import json
import math
import time
from pathlib import Path

_LEAST = 0.02  # of the full rate, at the end


def falling(done_ratio: float, stable_ratio: float) -> float:
    """Factor of a learning rate: one at first, then along a half cosine to nearly nothing."""
    fall = max(0.0, (done_ratio - stable_ratio) / (1 - stable_ratio))
    return _LEAST + (1 - _LEAST) * 0.5 * (1 + math.cos(math.pi * min(1.0, fall)))


class ProgressLog:
    """Means of named values over every `every` steps."""

    def __init__(self, path: Path, every: int = 100) -> None:
        self.path, self.every = path, every
        self.started = time.perf_counter()
        self.step = self._since = 0
        self._sums: dict[str, float] = {}

    @property
    def elapsed_s(self) -> float:
        """Seconds since training began."""
        return time.perf_counter() - self.started

    def add(self, values: dict[str, float]) -> None:
        """Count one step; write a line when it is due."""
        self.step += 1
        self._since += 1
        for name, value in values.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
        if self._since == self.every:
            self.flush()

    def flush(self) -> None:
        """Write the means since the last line, if any."""
        if not self._since:
            return
        row = {"step": self.step, "elapsed_s": round(self.elapsed_s, 1)}
        row |= {name: round(total / self._since, 4) for name, total in self._sums.items()}
        with self.path.open("a") as lines:
            lines.write(json.dumps(row) + "\n")
        self._sums, self._since = {}, 0
