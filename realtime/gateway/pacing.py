"""The listener's playback clock and the socket's progress, from what was sent and when. Pure; only
the engine limits the lead.
"""


class PlaybackClock:
    """A listener that starts to play at the first byte, never pauses, and waits in silence whenever
    data is late.

    A silence that begins while the caller's next text has not reached the engine is the text's, all
    of it; `text_resume_s` says how much of the longest one came after the text had arrived. Every
    other silence is an underrun of the service.

    Args:
        sample_rate_hz: Samples it plays per second.
        tolerance_s: Lateness that no one hears and that is not counted: the arrival of a chunk is
            stamped by an event loop.
    """

    def __init__(self, sample_rate_hz: int, *, tolerance_s: float = 0.001) -> None:
        self.sample_rate_hz = sample_rate_hz
        self._tolerance_s = tolerance_s
        self._plays_until: float | None = None
        self._reported_samples: int | None = None
        self.sent_samples = 0
        self.underrun_s = 0.0
        self.num_underruns = 0
        self.text_underrun_s = 0.0
        self.num_text_underruns = 0
        self.text_resume_s: float | None = None

    def sent(self, num_samples: int, at: float, text_at: float | None = None) -> float:
        """Account for a chunk given to the socket.

        Args:
            num_samples: Samples in the chunk, at least one.
            at: When it was given.
            text_at: When its text reached the engine, where the engine had to wait for it.

        Returns:
            The instant at which the listener hears the chunk's first sample.
        """
        starts_at = at if self._plays_until is None else self._plays_until
        if at > starts_at:
            self._note_silence(starts_at, at, text_at)
            starts_at = at
        self._plays_until = starts_at + num_samples / self.sample_rate_hz
        self.sent_samples += num_samples
        return starts_at

    def _note_silence(self, dry_at: float, at: float, text_at: float | None) -> None:
        late_s = at - dry_at
        if late_s <= self._tolerance_s:
            return
        if text_at is None or text_at <= dry_at:
            self.underrun_s += late_s
            self.num_underruns += 1
            return
        self.text_underrun_s += late_s
        self.num_text_underruns += 1
        self.text_resume_s = max(at - text_at, self.text_resume_s or 0.0)

    def played(self, samples: int) -> None:
        """Take the caller's word for what was heard; a report cannot exceed what was sent and never
        goes back.
        """
        heard = min(samples, self.sent_samples)
        self._reported_samples = max(heard, self._reported_samples or 0)

    @property
    def played_samples(self) -> int | None:
        """Samples the caller says were heard; `None` where it never said."""
        return self._reported_samples

    def lead_s(self, at: float) -> float:
        """Audio that the simulated listener still holds at this instant, in seconds."""
        return 0.0 if self._plays_until is None else max(0.0, self._plays_until - at)


class WriteProgress:
    """Tells a reader that has stopped from one that is merely slow."""

    def __init__(self) -> None:
        self._taken_bytes = 0
        self._moved_at: float | None = None

    def stalled_s(self, *, given_bytes: int, unsent_bytes: int, at: float) -> float:
        """How long the socket has refused data, in seconds; 0 while it takes some or nothing is
        left to send.

        Args:
            given_bytes: All bytes ever given to the transport.
            unsent_bytes: Bytes of them that the transport still holds, plus those that wait for it.
            at: Now.
        """
        taken_bytes = given_bytes - unsent_bytes
        if self._moved_at is None or unsent_bytes == 0 or taken_bytes > self._taken_bytes:
            self._moved_at = at
        self._taken_bytes = max(taken_bytes, self._taken_bytes)
        return at - self._moved_at
