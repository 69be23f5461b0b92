"""One context (an utterance in progress) as a sans-I/O state machine: events in, commands out.

Its life: it takes text (OPEN), knows that no more comes (ENDED), waits until the socket has taken
what the engine finished (DRAINING), and is done. A cancel or an error takes it out of any of these:
it answers at once, queues nothing further, and is done when the engine says that the slot is free.
"""

from collections.abc import Callable
from enum import Enum, auto

import msgspec

from realtime import wire
from realtime.errors import (
    EngineError,
    OutOfOrderError,
    SpeechError,
    TextTooLongError,
    all_error_types,
)
from realtime.gateway.commands import (
    AbortRequest,
    AppendPhonemes,
    Command,
    ContextDone,
    CountError,
    DropUnsent,
    EndRequestText,
    FeedText,
    OpenRequest,
    Released,
    ReportPlayback,
    Send,
    StopText,
    TextKind,
)
from realtime.gateway.delivery import Delivery
from realtime.gateway.spoken import SentenceSpan, SpokenText
from realtime.messages import Failed, Finished, OutputChunk, SegmentSpoken


class ContextState(Enum):
    """Where a context is in its life."""

    OPEN = auto()
    ENDED = auto()
    DRAINING = auto()
    CANCELLING = auto()
    FAILING = auto()
    DONE = auto()


class ContextSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a context has from its session.

    Attributes:
        outputs: What the caller wants to receive.
        max_text_chars: Longest text.
        find_audible: Index of the first audible sample of some PCM; `None` where all is quieter.
    """

    outputs: tuple[wire.OutputKind, ...]
    max_text_chars: int
    sample_rate_hz: int
    samples_per_frame: int
    find_audible: Callable[[bytes], int | None]


class Context:
    """One utterance. Methods carry out one event at the instant `at` and pass the commands that
    follow to `emit`.

    Args:
        name: The caller's name for it.
        settings: From its session.
        request: What is opened for it in the engine; its number goes on every audio frame.
        emit: Takes the commands.
        at: When its first piece of text arrived.
    """

    def __init__(
        self,
        name: str,
        settings: ContextSettings,
        request: OpenRequest,
        *,
        emit: Callable[[Command], None],
        at: float,
    ) -> None:
        self.name = name
        self.number = request.number
        self.state = ContextState.OPEN
        self.has_ended = False
        self.spoken = SpokenText()
        self._settings = settings
        self._request = request
        self._emit = emit
        self._delivery = Delivery(settings.sample_rate_hz, at)
        self._num_chars = 0
        self._num_unspoken = 0
        self._is_blank = True
        self._is_preparing_text = False
        self._idle_since_at = at
        self._reason: wire.DoneReason = "end_of_speech"
        self._error: SpeechError | None = None
        seed = request.sampling.seed
        opened = wire.Opened(
            context=name,
            number=request.number,
            voice=request.voice,
            speed=request.speed,
            seed=seed,
        )
        emit(Send(opened))
        emit(request)

    @property
    def is_speaking(self) -> bool:
        """Whether its output may still be queued for the caller."""
        return self.state in (ContextState.OPEN, ContextState.ENDED)

    @property
    def is_stopping(self) -> bool:
        """Whether a cancel or an error has been answered and nothing but `done` follows."""
        return self.state in (ContextState.CANCELLING, ContextState.FAILING)

    @property
    def is_done(self) -> bool:
        """Whether its `done` was said."""
        return self.state is ContextState.DONE

    # --- the caller ---

    def piece(self, text: str, at: float) -> None:
        """A piece of text arrived.

        Raises:
            OutOfOrderError: It came after `end`.
            TextTooLongError: It is more than the context may hold.
        """
        if not text:
            self._idle_since_at = at
        elif self.is_stopping:
            self._refuse_text_while_stopping()
        elif self.has_ended:
            self.has_ended = False  # what follows of this text is ignored as well, up to its end
            raise OutOfOrderError("text after `end`")
        else:
            self._num_chars += len(text)
            self._is_blank = self._is_blank and text.isspace()
            limit = self._settings.max_text_chars
            if self._num_chars > limit:
                raise TextTooLongError(f"more than {limit} characters in one context")
            self._feed("text", text, at)

    def _refuse_text_while_stopping(self) -> None:
        """Text of this utterance is ignored; that of the next one came too early, which is said
        once: it must not begin in the middle when the name is free.
        """
        if not self.has_ended:
            return
        self.has_ended = False
        error = OutOfOrderError("text for a name whose `done` has not come")
        self._emit(CountError(error.code))
        self._emit(Send(wire.error_message(error, self.name)))

    def flush(self, at: float) -> None:
        """Speak all text so far."""
        self._feed("flush", "", at)

    def end(self, at: float) -> None:
        """No more text comes."""
        self._feed("end", "", at)
        self.has_ended = True
        if self.state is ContextState.OPEN:
            self.state = ContextState.ENDED

    def cancel(self, at: float) -> None:
        """Stop at once."""
        self.has_ended = True  # text that comes next under this name is a new utterance
        if self.state is ContextState.CANCELLING:
            return
        was = self.state
        delivery = self._delivery
        delivery.stages.cancelled_at = at
        if was is not ContextState.FAILING:
            self.state = ContextState.CANCELLING
        self._emit(DropUnsent(self.number))
        char = self._char()
        self._emit(
            Send(wire.Cancelled(context=self.name, samples=delivery.sent_samples, char=char))
        )
        if was is ContextState.DRAINING:
            self._finish("cancelled", at)
        elif was is not ContextState.FAILING:
            self._stop_work()

    def played(self, samples: int) -> None:
        """The listener has heard the first `samples` samples."""
        if not self.is_stopping:
            self._delivery.playback.played(samples)
            self._report_playback(self._delivery.playback.played_samples)

    def _feed(self, kind: TextKind, text: str, at: float) -> None:
        if self.state is ContextState.OPEN:
            self._is_preparing_text = True
            self._idle_since_at = at
            self._emit(FeedText(self.number, kind, text, at))

    # --- the socket ---

    def sent(self, num_samples: int, at: float, *, is_audio: bool) -> None:
        """The socket has taken output that covers the next `num_samples` samples."""
        self._delivery.sent(num_samples, at, is_audio=is_audio)
        if not self.is_stopping:
            self._report_playback()
            self._finish_if_sent(at)

    def _report_playback(self, played_samples: int | None = None) -> None:
        """With the listener's position only when the caller has just named it: said again later, it
        would tell of a pause.
        """
        self._emit(ReportPlayback(self.number, self._delivery.sent_samples, played_samples))

    # --- the text front end ---

    def text_released(self, released: Released, at: float) -> None:
        """The front end has taken a piece, flush or end."""
        if not self.is_speaking:
            return
        self._is_preparing_text = released.has_more
        self._num_unspoken = released.num_unspoken
        self._idle_since_at = at
        for segment in released.segments:
            if self._delivery.stages.released_at is None:
                self._delivery.stages.released_at = released.arrived_at
            self.spoken.append(segment)
            self._emit(AppendPhonemes(self.number, segment.index, segment.phonemes))
        if released.kind == "end":
            self._emit(EndRequestText(self.number))

    def is_overdue(self, at: float, timeout_s: float) -> bool:
        """Whether it waits for the caller alone, and has for `timeout_s` seconds: all its text is
        spoken.
        """
        is_out_of_text = not self._is_preparing_text and self.spoken.num_unspoken == 0
        return (
            self.state is ContextState.OPEN
            and is_out_of_text
            and at - self._idle_since_at >= timeout_s
        )

    # --- the engine ---

    def output(self, chunk: OutputChunk) -> None:
        """The engine has made audio, tokens or both."""
        if not self.is_speaking:
            return
        settings, delivery = self._settings, self._delivery
        num_samples = chunk.num_frames * settings.samples_per_frame
        sample_offset = chunk.first_frame * settings.samples_per_frame
        has_audio = "audio" in settings.outputs
        if has_audio and chunk.text_at is not None:
            delivery.waited_for_text(chunk.text_at)
        if "tokens" in settings.outputs:
            tokens = wire.Tokens(
                context=self.name, first_frame=chunk.first_frame, codes=chunk.codes
            )
            self._emit(Send(tokens, self.number, 0 if has_audio else num_samples, True))
        if has_audio:
            if delivery.audible_sample is None:
                audible = settings.find_audible(chunk.pcm)
                delivery.audible_sample = None if audible is None else sample_offset + audible
            frame = wire.AudioFrame(self.number, sample_offset, chunk.pcm)
            self._emit(Send(frame, self.number, num_samples, True))
        delivery.queued_samples += num_samples

    def segment_spoken(self, event: SegmentSpoken, at: float) -> None:
        """All output of one segment was made."""
        if self.is_speaking:
            self._idle_since_at = at
            end_sample = event.end_frame * self._settings.samples_per_frame
            self._queue_sentence(self.spoken.spoken(event.index, end_sample))

    def _queue_sentence(self, span: SentenceSpan | None) -> None:
        if span is None:
            return
        self._delivery.sentence_ends(span.end_sample)
        message = wire.Sentence(
            context=self.name,
            index=span.index,
            start_char=span.start_char,
            end_char=span.end_char,
            start_sample=span.start_sample,
            end_sample=span.end_sample,
        )
        self._emit(Send(message, self.number, 0, True))

    def request_finished(self, event: Finished, at: float) -> None:
        """The engine has finished the request; its slot is free."""
        num_samples = event.num_frames * self._settings.samples_per_frame
        self._delivery.finished_in_engine(event, num_samples=num_samples)
        if self.state is ContextState.CANCELLING:
            self._finish("cancelled", at)
        elif self.state is ContextState.FAILING:
            self._finish("error", at)
        elif self.is_speaking:
            self._queue_sentence(self.spoken.last_sentence())
            self._reason = event.reason
            self.state = ContextState.DRAINING
            self._emit(StopText(self.number))
            self._finish_if_sent(at)

    def request_failed(self, event: Failed, at: float) -> None:
        """The engine has given the request up, or is gone."""
        self._delivery.stages.freed_at = at
        if self.state is ContextState.CANCELLING:
            self._finish("cancelled", at)
            return
        if self.state is not ContextState.FAILING:
            kind = all_error_types().get(event.code, EngineError)
            self._answer(kind(event.message, retry_after_s=event.retry_after_s))
            self._emit(StopText(self.number))
        self._finish("error", at)

    # --- ends ---

    def fail(self, error: SpeechError, at: float) -> None:
        """Something of this context is wrong: answer it and stop."""
        if self.is_stopping:
            return
        was_draining = self.state is ContextState.DRAINING
        self._answer(error)
        if was_draining:
            self._finish("error", at)
        else:
            self._stop_work()

    def abandon(self, error: SpeechError | None, at: float) -> None:
        """The session ends under it, because of `error` or because the caller vanished: free
        everything, say nothing.
        """
        self._emit(DropUnsent(self.number))
        if not self.is_stopping:
            if self.state is not ContextState.DRAINING:
                self._stop_work()
            self._error = error
        self.state = ContextState.DONE
        reason = "cancelled" if self._error is None else "error"
        self._emit(self._summary(reason, at, was_abandoned=error is None))

    def _answer(self, error: SpeechError) -> None:
        self._error = error
        self.state = ContextState.FAILING
        self._emit(DropUnsent(self.number))
        self._emit(CountError(error.code))
        self._emit(Send(wire.error_message(error, self.name)))

    def _stop_work(self) -> None:
        self._emit(StopText(self.number))
        self._emit(AbortRequest(self.number))

    def _finish_if_sent(self, at: float) -> None:
        delivery = self._delivery
        if self.state is not ContextState.DRAINING or not delivery.is_complete:
            return
        if "audio" in self._settings.outputs:
            last = wire.AudioFrame(self.number, delivery.sent_samples, b"", is_last=True)
            self._emit(Send(last, self.number))
        self._finish(self._reason, at)

    def _finish(self, reason: wire.DoneReason, at: float) -> None:
        char = self._char()
        summary = self._summary(reason, at)
        metrics = summary.stages.figures(self._settings.sample_rate_hz)
        done = wire.Done(
            context=self.name,
            reason=reason,
            samples=summary.sent_samples,
            char=char,
            metrics=msgspec.convert(metrics, wire.Metrics),
            warning=self._warning(reason),
            unspoken_letters=self._num_unspoken,
        )
        self.state = ContextState.DONE
        self._emit(Send(done))
        self._emit(summary)

    def _warning(self, reason: wire.DoneReason) -> wire.SpeechWarning | None:
        """What the caller may not have meant."""
        if reason == "end_of_speech" and not self.spoken.num_segments and not self._is_blank:
            return "nothing_speakable"
        return "partly_unspoken" if self._num_unspoken else None

    def _char(self) -> int:
        """Character of the text that the samples sent so far reach."""
        if self.state is ContextState.DRAINING and self._reason == "end_of_speech":
            return self._num_chars
        return self.spoken.char_at(self._delivery.sent_samples)

    def _summary(
        self, reason: wire.DoneReason, at: float, *, was_abandoned: bool = False
    ) -> ContextDone:
        self._delivery.close(at)
        return ContextDone(
            number=self.number,
            voice=self._request.voice,
            seed=self._request.sampling.seed,
            reason=reason,
            error_code=self._error.code if self._error is not None else None,
            was_abandoned=was_abandoned,
            num_chars=self._num_chars,
            num_segments=self.spoken.num_segments,
            sent_samples=self._delivery.sent_samples,
            stages=self._delivery.stages,
        )
