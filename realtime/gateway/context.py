"""State of one context (an utterance in progress): text received, output sent, time stamps. Sends nothing itself."""

from enum import Enum, auto

from realtime.errors import SpeechError
from realtime.gateway.commands import ContextDone
from realtime.gateway.pacing import PlaybackClock
from realtime.gateway.spoken import SpokenText
from realtime.messages import EngineTimings
from realtime.telemetry.stages import RequestStages
from realtime.wire import DoneReason


class ContextState(Enum):
    """Where a context is in its life."""

    OPEN = auto()  # takes text
    ENDED = auto()  # the caller has sent `end`; speech goes on
    DRAINING = auto()  # the engine has finished; output is still queued for the socket
    CANCELLING = auto()  # `cancelled` was answered; waits for the engine to free the slot
    FAILING = auto()  # `error` was answered; waits for the engine to free the slot


class Context:
    """One utterance.

    Args:
        name: The caller's name for it.
        number: The session's number for it, on every audio frame.
        at: When its first piece of text arrived.
    """

    def __init__(
        self, name: str, number: int, *, voice: str, seed: int, sample_rate_hz: int, at: float
    ) -> None:
        self.name = name
        self.number = number
        self.voice = voice
        self.seed = seed
        self.state = ContextState.OPEN
        self.playback = PlaybackClock(sample_rate_hz)
        self.spoken = SpokenText()
        self.stages = RequestStages(opened_at=at)
        self.num_chars = 0
        self.is_preparing_text = False
        self.has_ended = False
        self.idle_since_at = at
        self.last_sent_at = at
        self.queued_samples = 0
        self.sent_samples = 0
        self.audible_sample: int | None = None
        self.first_sentence_end: int | None = None
        self.reason: DoneReason = "end_of_speech"
        self.error: SpeechError | None = None

    @property
    def is_speaking(self) -> bool:
        """Whether its output may still be queued for the caller."""
        return self.state in (ContextState.OPEN, ContextState.ENDED)

    @property
    def is_stopping(self) -> bool:
        """Whether a cancel or an error has been answered and nothing but `done` follows."""
        return self.state in (ContextState.CANCELLING, ContextState.FAILING)

    @property
    def is_out_of_text(self) -> bool:
        """Whether it waits for the caller alone: all released text is spoken and none is being prepared."""
        return (
            self.state is ContextState.OPEN
            and not self.is_preparing_text
            and self.spoken.num_unspoken == 0
        )

    @property
    def char(self) -> int:
        """Character of the text that the samples sent so far reach."""
        is_all_sent = (
            self.sent_samples == self.queued_samples and self.state is ContextState.DRAINING
        )
        if is_all_sent and self.reason == "end_of_speech":
            return self.num_chars
        return self.spoken.char_at(self.sent_samples)

    def output_sent(self, num_samples: int, at: float, *, is_audio: bool) -> None:
        """The socket has taken output that covers the next `num_samples` samples."""
        first_sample = self.sent_samples
        self.sent_samples += num_samples
        self.last_sent_at = at
        if is_audio and num_samples:
            if self.stages.first_audio_at is None:
                self.stages.first_audio_at = at
            heard_at = self.playback.sent(num_samples, at)
            audible = self.audible_sample
            if audible is not None and first_sample <= audible < self.sent_samples:
                offset_s = (audible - first_sample) / self.playback.sample_rate_hz
                self.stages.audible_at = heard_at + offset_s
        self._note_first_sentence()

    def sentence_ends(self, end_sample: int) -> None:
        """A sentence ends at this sample; the first one's time is kept once its last sample was sent."""
        if self.first_sentence_end is None:
            self.first_sentence_end = end_sample
            self._note_first_sentence()

    def _note_first_sentence(self) -> None:
        end = self.first_sentence_end
        if end is not None and self.sent_samples >= end and self.stages.first_sentence_at is None:
            self.stages.first_sentence_at = self.last_sent_at

    def take_timings(self, timings: EngineTimings, num_tokens: int) -> None:
        """Keep what the engine measured."""
        stages = self.stages
        stages.first_segment_at = timings.first_segment_at
        stages.scheduled_at = timings.scheduled_at
        stages.first_token_at = timings.first_token_at
        stages.last_token_at = timings.last_token_at
        stages.starved_s = timings.starved_s
        stages.parked_s = timings.parked_s
        stages.freed_at = timings.freed_at
        stages.num_tokens = num_tokens

    def summary(self, reason: DoneReason, at: float, *, was_abandoned: bool = False) -> ContextDone:
        """The context's end, with its stages completed."""
        self.stages.done_at = at
        self.stages.num_samples = max(self.stages.num_samples, self.queued_samples)
        self.stages.underrun_s = self.playback.underrun_s
        self.stages.num_underruns = self.playback.num_underruns
        return ContextDone(
            number=self.number,
            voice=self.voice,
            seed=self.seed,
            reason=reason,
            error_code=self.error.code if self.error is not None else None,
            was_abandoned=was_abandoned,
            num_chars=self.num_chars,
            num_segments=self.spoken.num_segments,
            num_underruns=self.playback.num_underruns,
            sent_samples=self.sent_samples,
            stages=self.stages,
        )
