"""One time stamp per stage of a request, and the figures computed from them.

The definitions are part of the protocol (docs/PROTOCOL.md, "Metrics"). Gateway and engine stamp
with the same machine-wide monotonic clock, so that stamps of both may be subtracted. This module
reads no clock and knows no messages.
"""

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class RequestStages:
    """Instants of one request in seconds; `None` where the stage was never reached. The session
    that owns it fills it in.

    Attributes:
        opened_at: The first piece of text arrived.
        released_at: The piece, flush or end arrived that completed the first segment.
        first_segment_at: The first segment reached the engine.
        scheduled_at: The engine gave a slot.
        first_token_at: The first speech token was committed.
        last_token_at: The last speech token was committed.
        starved_s: Time in a slot without text to speak.
        parked_s: Time in a slot held back because the listener is far behind.
        first_audio_at: The first audio byte was given to the socket.
        audible_at: A listener that starts at the first byte hears the first sample above the
            audible level.
        first_sentence_at: The last sample of the first sentence was given to the socket.
        cancelled_at: The cancel arrived.
        freed_at: Slot and blocks were free again.
        done_at: Everything was given to the socket.
        num_tokens: Speech tokens generated.
        num_samples: Samples generated.
        num_mended: Segments that ran into a fault and were drawn anew from before it.
        underrun_s: Silence that listener heard while waiting for data whose text was there.
        num_underruns: How often.
        text_underrun_s: Silence that began before the next text had reached the engine.
        num_text_underruns: How often.
        text_resume_s: Longest part of such a silence that came after the text.
    """

    opened_at: float
    released_at: float | None = None
    first_segment_at: float | None = None
    scheduled_at: float | None = None
    first_token_at: float | None = None
    last_token_at: float | None = None
    starved_s: float = 0.0
    parked_s: float = 0.0
    first_audio_at: float | None = None
    audible_at: float | None = None
    first_sentence_at: float | None = None
    cancelled_at: float | None = None
    freed_at: float | None = None
    done_at: float | None = None
    num_tokens: int = 0
    num_samples: int = 0
    num_mended: int = 0
    underrun_s: float = 0.0
    num_underruns: int = 0
    text_underrun_s: float = 0.0
    num_text_underruns: int = 0
    text_resume_s: float | None = None

    def figures(self, sample_rate_hz: int) -> dict[str, float | int | None]:
        """The request's metrics under their names on the wire, seconds rounded to microseconds."""
        speaking_s = self._speaking_s()
        audio_s = self.num_samples / sample_rate_hz
        tpot_s = speaking_s / (self.num_tokens - 1) if speaking_s and self.num_tokens > 1 else None
        busy_s = _between(self.scheduled_at, self.last_token_at)
        if busy_s is not None:
            busy_s = max(0.0, busy_s - self.starved_s - self.parked_s)
        figures: dict[str, float | int | None] = {
            "text_wait_s": _between(self.opened_at, self.released_at),
            "queue_s": _between(self.first_segment_at, self.scheduled_at),
            "ttft_s": _between(self.released_at, self.first_token_at),
            "ttfb_s": _between(self.released_at, self.first_audio_at),
            "audible_s": _between(self.released_at, self.audible_at),
            "first_sentence_s": _between(self.released_at, self.first_sentence_at),
            "total_s": _between(self.opened_at, self.done_at),
            "tpot_s": tpot_s,
            "tokens_per_s": 1.0 / tpot_s if tpot_s else None,
            "audio_s": audio_s,
            "real_time_factor": busy_s / audio_s if busy_s is not None and audio_s else None,
            "underrun_s": self.underrun_s,
            "text_underrun_s": self.text_underrun_s,
            "text_resume_s": self.text_resume_s,
            "slot_free_s": _between(self.cancelled_at, self.freed_at),
        }
        rounded = {
            name: None if value is None else round(value, 6) for name, value in figures.items()
        }
        return rounded | {
            "tokens": self.num_tokens,
            "underruns": self.num_underruns,
            "text_underruns": self.num_text_underruns,
        }

    def _speaking_s(self) -> float | None:
        span_s = _between(self.first_token_at, self.last_token_at)
        return None if span_s is None else max(0.0, span_s - self.starved_s - self.parked_s)


def _between(start: float | None, end: float | None) -> float | None:
    return None if start is None or end is None else max(0.0, end - start)
