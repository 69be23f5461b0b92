"""Time as a dependency: the one module that reads the clock, so that everything else can be tested
without sleeping.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """A source of monotonic instants, comparable between the processes of one machine."""

    def now(self) -> float:
        """Seconds on a monotonic clock whose zero is arbitrary but shared by this machine's
        processes.
        """
        ...


class MonotonicClock:
    """The system's monotonic clock (CLOCK_MONOTONIC on Linux: one zero for gateway and engine)."""

    def now(self) -> float:
        """Seconds since an arbitrary, machine-wide zero."""
        return time.monotonic()
