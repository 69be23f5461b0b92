"""The raw rows of a load test, one an utterance; nothing is rounded or averaged here."""

from dataclasses import asdict, dataclass, field
from typing import Any

from realtime.wire import Metrics


@dataclass(slots=True, kw_only=True)
class Row:
    """One utterance; times are seconds after its text was begun, unless said otherwise.

    Attributes:
        stream: Number of the caller.
        index: Number of the utterance within its caller.
        started_s: Start, in seconds after the start of the test.
        text_chars: Length of its text.
        ttfb_s: Until the first byte of audio; `None` if none came.
        audible_s: Until the listener hears the first audible sample.
        received_s: Until the last audio came.
        total_s: Until the last message came.
        audio_s: Audio received, in seconds.
        num_underruns: Gaps that a listener hears who starts at the first byte.
        underrun_s: Their length.
        longest_wait_s: Longest time between two chunks.
        least_lead_s: Smallest reserve of the listener; negative is a gap.
        reason: Reason of `done`; `None` where it failed.
        error: Code of the error; `None` where it did not fail.
        service: The service's own metrics.
        arrivals: Instant and number of samples of every chunk.
    """

    stream: int
    index: int
    started_s: float
    text_chars: int
    ttfb_s: float | None = None
    audible_s: float | None = None
    received_s: float | None = None
    total_s: float | None = None
    audio_s: float = 0.0
    num_underruns: int = 0
    underrun_s: float = 0.0
    longest_wait_s: float = 0.0
    least_lead_s: float | None = None
    reason: str | None = None
    error: str | None = None
    service: Metrics | None = None
    arrivals: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])


class Recorder:
    """Keeps rows in the order in which utterances ended."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def add(self, row: Row) -> None:
        """Keep a finished utterance."""
        self.rows.append(row)

    def as_plain(self) -> list[dict[str, Any]]:
        """The rows as JSON-ready values."""
        plain: list[dict[str, Any]] = []
        for row in self.rows:
            fields = asdict(row)
            metrics = row.service
            fields["service"] = (
                None
                if metrics is None
                else {name: getattr(metrics, name) for name in metrics.__struct_fields__}
            )
            plain.append(fields)
        return plain
