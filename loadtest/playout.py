"""A simulated listener, who starts at the first byte and hears a gap when audio is late."""

from dataclasses import dataclass, field
from itertools import pairwise

from realtime.audio.level import first_audible_sample


@dataclass(slots=True)
class Playout:
    """Follows one utterance; instants are seconds on the caller's clock.

    Attributes:
        sample_rate_hz: Of the audio.
        audible_dbfs: Level at which a sample counts as audible.
        arrivals: Instant and number of samples of every chunk.
        gaps: Start and length in seconds of every stretch without audio to play.
        started_at: When the first byte came; `None` before it.
        ends_at: When the audio that has arrived will have been heard; `None` before the first.
        audible_at: When the first audible sample is heard; `None` where there was none yet.
    """

    sample_rate_hz: int
    audible_dbfs: float
    arrivals: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    gaps: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    started_at: float | None = None
    ends_at: float | None = None
    audible_at: float | None = None

    def receive(self, pcm: bytes, at: float) -> None:
        """A chunk of little-endian s16 samples arrived; an empty one changes nothing."""
        num_samples = len(pcm) // 2
        if not num_samples:
            return
        self.arrivals.append((at, num_samples))
        if self.ends_at is None:
            self.started_at = self.ends_at = at
        elif at > self.ends_at:
            self.gaps.append((self.ends_at, at - self.ends_at))
            self.ends_at = at
        if self.audible_at is None:
            audible = first_audible_sample(pcm, self.audible_dbfs)
            if audible is not None:
                self.audible_at = self.ends_at + audible / self.sample_rate_hz
        self.ends_at += num_samples / self.sample_rate_hz

    @property
    def audio_s(self) -> float:
        """Audio received."""
        return sum(count for _, count in self.arrivals) / self.sample_rate_hz

    @property
    def longest_wait_s(self) -> float:
        """Longest time between two chunks; 0 with fewer than two."""
        times = [at for at, _ in self.arrivals]
        return max((b - a for a, b in pairwise(times)), default=0.0)

    @property
    def least_lead_s(self) -> float | None:
        """Smallest reserve when a chunk came; negative is a gap; `None` before the second chunk."""
        reserve, least, before = 0.0, None, None
        for at, count in self.arrivals:
            if before is not None:
                lead = reserve - (at - before)
                least = lead if least is None else min(least, lead)
                reserve = max(0.0, lead)
            reserve += count / self.sample_rate_hz
            before = at
        return least
