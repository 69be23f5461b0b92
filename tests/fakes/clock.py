"""A clock that moves only when told."""


class FakeClock:
    """Implements `realtime.clock.Clock`; starts at 1000 s so that a forgotten zero shows."""

    def __init__(self, start: float = 1000.0) -> None:
        self._now = start

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        assert seconds >= 0
        self._now += seconds
