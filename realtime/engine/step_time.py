"""How long a step takes: a line fitted when the engine starts, corrected by what steps really take.

Pure arithmetic over numbers that others measured.
"""

from collections.abc import Iterable

import msgspec
import numpy as np

_SMOOTHING = 0.01  # weight of the newest step in the correction: about a second's worth
_FORGETTING = 0.0005  # of the worst lately: about half a minute's worth
_RIDGE = 0.005  # how strongly both corrections are drawn to their common one
_APART = 3.0  # how far each may be from it
_SLOWEST = 20.0  # a step that took longer than this many predictions was a pause, not a trend


class StepCosts(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that a step takes by what is in it.

    Attributes:
        step_s: Of any step: the weights are read once, the host works once.
        row_s: Of each sequence that draws a token.
        prefill_s: Of each further token, which draws none.
        context_s: Of each cached token that a row looks back at.
    """

    step_s: float
    row_s: float
    prefill_s: float
    context_s: float = 0.0

    def predict(self, num_rows: int, num_prefill: int = 0, num_context: int = 0) -> float:
        """Seconds of a step."""
        return (
            self.step_s
            + self.row_s * num_rows
            + self.prefill_s * num_prefill
            + self.context_s * num_context
        )


class StepSample(msgspec.Struct, frozen=True):
    """One measured step: its work and its seconds."""

    num_rows: int
    num_prefill: int
    num_context: int
    seconds: float


def fit(samples: Iterable[StepSample]) -> StepCosts:
    """The costs that explain measured steps best, none of them negative.

    Relative errors count, so that small steps are met as well as large ones. A cost that comes out
    negative is none: it is left out and the others are fitted again.
    """
    measured = list(samples)
    work = np.array([[1, s.num_rows, s.num_prefill, s.num_context] for s in measured], float)
    seconds = np.array([s.seconds for s in measured])
    kept = [0, 1, 2, 3]
    costs = np.zeros(4)
    while kept:
        found = np.linalg.lstsq(work[:, kept] / seconds[:, None], np.ones(len(seconds)), rcond=None)
        if (found[0] >= 0).all():
            costs[kept] = found[0]
            break
        kept.pop(int(found[0].argmin()))
    step_s, row_s, prefill_s, context_s = (float(cost) for cost in costs)
    return StepCosts(step_s=step_s, row_s=row_s, prefill_s=prefill_s, context_s=context_s)


class StepTime:
    """`StepCosts` times a running correction: another process on the machine, a clock that was
    throttled, caches that are shared.

    What every step costs and what its work costs are corrected apart, as a busy neighbour touches
    them differently and a small batch would mislead about a large one. Both come from the steps of
    about the last second, weighted by how much they tell (recursive least squares of the relative
    error, drawn to one common factor where the steps are too alike to tell the two apart).

    Args:
        costs: As fitted.
        correction: What to begin with, and what `foresee` reckons with at least.
    """

    def __init__(self, costs: StepCosts, correction: float = 1.0) -> None:
        self.costs = costs
        self._fixed = self._work = self._ratio = self._worst = self._least = correction
        self._moments = [0.0] * 5  # of fixed and work shares: ff, fw, ww, f, w

    @property
    def correction(self) -> float:
        """How many times longer steps take than fitted, lately."""
        return self._ratio

    def predict(self, num_rows: int, num_prefill: int = 0, num_context: int = 0) -> float:
        """Seconds of a step now."""
        fixed_s = self.costs.step_s
        work_s = self.costs.predict(num_rows, num_prefill, num_context) - fixed_s
        return self._fixed * fixed_s + self._work * work_s

    def foresee(self, num_rows: int, num_prefill: int = 0, num_context: int = 0) -> float:
        """Seconds of a step as slow as they lately were at worst.

        Steps get slower as streams come: the codec, the sockets and the caches take their share.
        Who is admitted while little happens has to bear what happens later.
        """
        caution = max(1.0, self._worst / self._ratio)
        return caution * self.predict(num_rows, num_prefill, num_context)

    def observe(self, sample: StepSample) -> None:
        """Learn from a step that was run."""
        fixed_s = self.costs.step_s
        whole_s = self.costs.predict(sample.num_rows, sample.num_prefill, sample.num_context)
        if whole_s <= 0:
            return
        ratio = min(sample.seconds / whole_s, _SLOWEST)
        self._ratio += _SMOOTHING * (ratio - self._ratio)
        forgotten = self._worst + _FORGETTING * (self._ratio - self._worst)
        self._worst = max(self._ratio, forgotten, self._least)
        seconds = ratio * whole_s
        fixed, work = fixed_s / seconds, (whole_s - fixed_s) / seconds
        for i, moment in enumerate((fixed * fixed, fixed * work, work * work, fixed, work)):
            self._moments[i] += _SMOOTHING * (moment - self._moments[i])
        self._solve()

    def _solve(self) -> None:
        ff, fw, ww, f, w = self._moments
        pull = _RIDGE * (ff + ww)
        ff, ww = ff + pull, ww + pull
        f, w = f + pull * self._ratio, w + pull * self._ratio
        determinant = ff * ww - fw * fw
        if determinant > 0:
            low, high = self._ratio / _APART, self._ratio * _APART
            self._fixed = min(max((f * ww - w * fw) / determinant, low), high)
            self._work = min(max((w * ff - f * fw) / determinant, low), high)
