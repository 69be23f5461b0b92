"""The last few steps: how much of them was computed for a request after somebody gave it up."""

import math
from collections import deque

from realtime.engine.plan import StepPlan

_NUM_STEPS = 64  # a cancel was seen eight short steps on its way through a busy gateway


class StepLog:
    """Remembers which requests the last steps worked for, and when they ended."""

    def __init__(self) -> None:
        self._steps: deque[tuple[StepPlan, float]] = deque(maxlen=_NUM_STEPS)

    def begin(self, plan: StepPlan) -> None:
        """A step was planned; until `end` it counts as running."""
        self._steps.append((plan, math.inf))

    def end(self, plan: StepPlan, now: float) -> None:
        """The step that was planned last is over."""
        if self._steps and self._steps[-1][0] is plan:
            self._steps[-1] = plan, now

    def work_since(self, request_id: int, at: float) -> tuple[int, int]:
        """Steps, and tokens in them, that were computed for a request and ended after `at`."""
        counts = [
            len(piece.token_ids)
            for plan, ended_at in self._steps
            if ended_at > at
            for piece in plan.slices
            if piece.request_id == request_id
        ]
        return len(counts), sum(counts)
