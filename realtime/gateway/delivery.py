"""What one context's output went through: queued, sent, heard, and when. Pure; sends nothing
itself.
"""

from collections import deque

from realtime.gateway.pacing import PlaybackClock
from realtime.messages import Finished
from realtime.telemetry.stages import RequestStages


class Delivery:
    """Samples queued for the socket and taken by it, with the time stamps that follow from both.

    A context without audio is counted the same way: by the samples that its tokens stand for.

    Args:
        at: When the context's first piece of text arrived.
    """

    def __init__(self, sample_rate_hz: int, at: float) -> None:
        self.playback = PlaybackClock(sample_rate_hz)
        self.stages = RequestStages(opened_at=at)
        self.queued_samples = 0
        self.sent_samples = 0
        self.audible_sample: int | None = None
        self._text_waits: deque[tuple[int, float]] = deque()  # queued, not sent: sample, text_at
        self._first_sentence_end: int | None = None
        self._last_sent_at = at

    @property
    def is_complete(self) -> bool:
        """Whether the socket has taken everything that was queued."""
        return self.sent_samples >= self.queued_samples

    def waited_for_text(self, text_at: float) -> None:
        """The output that is queued next had to wait for its text, which arrived at `text_at`."""
        self._text_waits.append((self.queued_samples, text_at))

    def _text_at(self, first_sample: int) -> float | None:
        """When the text of the output from this sample on arrived, where it was waited for."""
        if self._text_waits and self._text_waits[0][0] <= first_sample:
            return self._text_waits.popleft()[1]
        return None

    def sent(self, num_samples: int, at: float, *, is_audio: bool) -> None:
        """The socket has taken output that covers the next `num_samples` samples."""
        first_sample = self.sent_samples
        self.sent_samples += num_samples
        self._last_sent_at = at
        if is_audio and num_samples:
            if self.stages.first_audio_at is None:
                self.stages.first_audio_at = at
            heard_at = self.playback.sent(num_samples, at, self._text_at(first_sample))
            audible = self.audible_sample
            if audible is not None and first_sample <= audible < self.sent_samples:
                offset_s = (audible - first_sample) / self.playback.sample_rate_hz
                self.stages.audible_at = heard_at + offset_s
        self._note_first_sentence()

    def sentence_ends(self, end_sample: int) -> None:
        """A sentence ends at this sample; only the first one's time is kept, once its last sample
        is sent.
        """
        if self._first_sentence_end is None:
            self._first_sentence_end = end_sample
            self._note_first_sentence()

    def _note_first_sentence(self) -> None:
        end = self._first_sentence_end
        if end is not None and self.sent_samples >= end and self.stages.first_sentence_at is None:
            self.stages.first_sentence_at = self._last_sent_at

    def finished_in_engine(self, finished: Finished, *, num_samples: int) -> None:
        """Keep what the engine measured."""
        stages, timings = self.stages, finished.timings
        stages.first_segment_at = timings.first_segment_at
        stages.scheduled_at = timings.scheduled_at
        stages.first_token_at = timings.first_token_at
        stages.last_token_at = timings.last_token_at
        stages.starved_s = timings.starved_s
        stages.parked_s = timings.parked_s
        stages.freed_at = timings.freed_at
        stages.num_tokens = finished.num_tokens
        stages.num_mended = finished.num_mended
        stages.num_samples = num_samples

    def close(self, at: float) -> None:
        """The context is over: complete the stages."""
        self.stages.done_at = at
        self.stages.num_samples = max(self.stages.num_samples, self.queued_samples)
        self.stages.underrun_s = self.playback.underrun_s
        self.stages.num_underruns = self.playback.num_underruns
        self.stages.text_underrun_s = self.playback.text_underrun_s
        self.stages.num_text_underruns = self.playback.num_text_underruns
        self.stages.text_resume_s = self.playback.text_resume_s
