"""The engine's idea of one listener: what it holds and when it runs dry.

Knows frames and instants, no tokens and no sockets.
"""

# A report is as old as its way here; what was heard meanwhile must not count as still held.
_REPORT_AGE_S = 0.2
# A listener who stands still keeps its place for so long in all; then the rest is made and sent.
_LONGEST_PAUSE_S = 30.0


class ListenerClock:
    """A listener that plays without a pause from the first frame that was let go.

    The real one starts a little later (codec and network) and so holds a little more; one that
    says what it has played is taken at its word where it is further behind than that.

    Args:
        frame_s: Length of a frame in seconds.
    """

    def __init__(self, frame_s: float) -> None:
        self._frame_s = frame_s
        self._dry_at: float | None = None
        self._paused_s = 0.0

    @property
    def dry_at(self) -> float | None:
        """The instant at which everything let go so far has been played; `None` before the first
        frame.
        """
        return self._dry_at

    def let_go(self, now: float) -> float:
        """A frame leaves for the listener.

        Returns:
            When it is needed: behind all before it, or at once.
        """
        needed_at = now if self._dry_at is None else max(now, self._dry_at)
        self._dry_at = needed_at + self._frame_s
        return needed_at

    def heard(self, unheard_s: float, now: float) -> None:
        """The listener reported its position: it still has `unheard_s` of speech to play.

        Only ever moves the end later, as a listener cannot hear faster than it plays, and only so
        far in all, as it would hold its place for ever.
        """
        if self._dry_at is not None:
            pause_s = max(0.0, now + unheard_s - _REPORT_AGE_S - self._dry_at)
            pause_s = min(pause_s, _LONGEST_PAUSE_S - self._paused_s)
            self._paused_s += pause_s
            self._dry_at += pause_s

    def lead_s(self, now: float) -> float:
        """Speech that the listener still holds, in seconds; negative once it waits in silence."""
        return 0.0 if self._dry_at is None else self._dry_at - now
