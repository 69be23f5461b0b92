"""The session's protocol as a sans-I/O state machine: events in, commands out. Knows no socket, no clock and no engine process.

Rules that hold for every order of events:

* `hello` comes first; whatever breaks the session as a whole is answered by an `error` without a context and a close.
* An `error` with a context ends that context alone; every context that was opened gets exactly one `done`.
* Once `cancelled` or an `error` was answered, no audio of that context is queued any more.
* Messages for a context that is over but that the caller may not know of yet are ignored.
"""

import hmac
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Protocol, assert_never

import msgspec

from realtime import wire
from realtime.errors import (
    BinaryNotAllowedError,
    EngineError,
    EngineNotReadyError,
    HelloTimeoutError,
    MalformedMessageError,
    OutOfOrderError,
    ShuttingDownError,
    SpeechError,
    TextTimeoutError,
    TextTooLongError,
    TooManyContextsError,
    UnauthorizedError,
    UnknownContextError,
    UnknownVoiceError,
    all_error_types,
)
from realtime.gateway.commands import (
    AbortRequest,
    AppendPhonemes,
    Close,
    Command,
    CountError,
    DropUnsent,
    EndRequestText,
    FeedText,
    OpenRequest,
    ReportPlayback,
    Send,
    StopText,
    TextKind,
)
from realtime.gateway.context import Context, ContextState
from realtime.gateway.spoken import SentenceSpan, SpokenSegment
from realtime.messages import (
    EngineReady,
    Failed,
    Finished,
    OutputChunk,
    SamplingParams,
    SegmentSpoken,
)

MAX_REMEMBERED_NAMES = 1024
MAX_SEGMENTS_AHEAD = 16

RequestEvent = OutputChunk | SegmentSpoken | Finished | Failed


class EngineView(Protocol):
    """What the protocol needs to know of the engine at this moment."""

    @property
    def ready(self) -> EngineReady | None:
        """The running engine's facts; `None` while it starts."""
        ...

    def refusal(self) -> SpeechError | None:
        """Why no further request can be taken now; `None` if one can."""
        ...


class SessionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is fixed before the first message.

    Attributes:
        session_id: Name of the session in logs and `ready`.
        credentials: Accepted API keys; empty accepts everyone.
        is_authenticated: The upgrade request already carried a valid key.
        limits: What is granted, before the caller's own wishes.
        find_audible: Index of the first audible sample of some PCM; `None` where all is quieter.
    """

    session_id: str
    limits: wire.Limits
    find_audible: Callable[[bytes], int | None]
    credentials: tuple[str, ...] = ()
    is_authenticated: bool = False


class SessionProtocol:
    """State of one session. Every method takes the instant `at` and returns the commands to carry out, in order.

    Args:
        settings: Fixed facts and limits.
        engine: Looked at when a session or a context opens.
        new_seed: Draws the seed of a context that names none, below 2**53.
        at: When the connection was accepted.
    """

    def __init__(
        self,
        settings: SessionSettings,
        engine: EngineView,
        *,
        new_seed: Callable[[], int],
        at: float,
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._new_seed = new_seed
        self._hello: wire.Hello | None = None
        self._hello_deadline = at + settings.limits.hello_timeout_s
        self._max_contexts = settings.limits.max_contexts
        self._voice = ""
        self.sample_rate_hz = 0
        self._samples_per_frame = 0
        self._by_name: dict[str, Context] = {}
        self._by_number: dict[int, Context] = {}
        self._past_names: OrderedDict[str, bool] = OrderedDict()
        self._last_number = 0
        self._is_draining = False
        self._commands: list[Command] = []
        self.is_closed = False

    # --- what the shell asks -------------------------------------------------------------------------------------------

    @property
    def num_contexts(self) -> int:
        """Contexts that are not done."""
        return len(self._by_number)

    def wants_text(self, number: int) -> bool:
        """Whether the context's next text should be prepared now: speech is not far behind what was prepared."""
        context = self._by_number.get(number)
        return context is not None and context.spoken.num_unspoken < MAX_SEGMENTS_AHEAD

    # --- events from the socket ----------------------------------------------------------------------------------------

    def receive_text(self, data: str, at: float) -> list[Command]:
        """A text frame arrived."""
        if self.is_closed:
            return []
        try:
            message = wire.decode_client_message(data)
        except msgspec.DecodeError as error:
            return self._malformed(data, MalformedMessageError(str(error)), at)
        return self.receive(message, at)

    def receive(self, message: wire.ClientMessage, at: float) -> list[Command]:
        """A well-formed message arrived."""
        if self.is_closed:
            return []
        match message:
            case wire.Hello():
                self._receive_hello(message, at)
            case _ if self._hello is None:
                self._end_session(OutOfOrderError("the first message must be `hello`"), at)
            case wire.Ping():
                self._commands.append(Send(wire.Pong(nonce=message.nonce)))
            case wire.Text() | wire.Flush() | wire.End() | wire.Cancel() | wire.Played():
                try:
                    self._receive_for_context(message, at)
                except SpeechError as error:
                    self._refuse(message.context, error, at)
            case _:
                assert_never(message)
        return self._take()

    def receive_binary(self, at: float) -> list[Command]:
        """A binary frame arrived."""
        if not self.is_closed:
            self._end_session(BinaryNotAllowedError("messages to the service are text frames"), at)
        return self._take()

    def disconnected(self, at: float) -> list[Command]:
        """The socket is gone: everything the session holds is freed."""
        self._abandon_contexts(None, at)
        self.is_closed = True
        return self._take()

    def sent(self, number: int, num_samples: int, at: float, *, is_audio: bool) -> list[Command]:
        """The socket has taken output that covers the context's next `num_samples` samples."""
        context = self._by_number.get(number)
        if context is None:
            return []
        context.output_sent(num_samples, at, is_audio=is_audio)
        if not context.is_stopping:
            self._report_playback(context)
            self._finish_if_sent(context, at)
        return self._take()

    # --- events from the text front end --------------------------------------------------------------------------------

    def text_released(
        self,
        number: int,
        kind: TextKind,
        segments: Sequence[SpokenSegment],
        *,
        arrived_at: float,
        has_more: bool,
        at: float,
    ) -> list[Command]:
        """The front end has taken a piece, flush or end.

        Args:
            number: The context.
            kind: What it took.
            segments: The segments this completed.
            arrived_at: When the caller's message arrived.
            has_more: Whether more of the context's text waits for the front end.
            at: Now.
        """
        context = self._by_number.get(number)
        if context is None or not context.is_speaking:
            return []
        context.is_preparing_text = has_more
        context.idle_since_at = at
        for segment in segments:
            if context.stages.released_at is None:
                context.stages.released_at = arrived_at
            context.spoken.append(segment)
            self._commands.append(AppendPhonemes(number, segment.index, segment.phonemes))
        if kind == "end":
            self._commands.append(EndRequestText(number))
        return self._take()

    def text_failed(self, number: int, error: SpeechError, at: float) -> list[Command]:
        """The front end cannot speak the context's text."""
        context = self._by_number.get(number)
        if context is not None and context.is_speaking:
            self._fail(context, error, at)
        return self._take()

    # --- events from the engine ----------------------------------------------------------------------------------------

    def engine_event(self, number: int, event: RequestEvent, at: float) -> list[Command]:
        """The engine sent something for the context's request."""
        context = self._by_number.get(number)
        if context is None:
            return []
        match event:
            case OutputChunk():
                if context.is_speaking:
                    self._queue_output(context, event)
            case SegmentSpoken():
                if context.is_speaking:
                    end_sample = event.end_frame * self._samples_per_frame
                    context.idle_since_at = at
                    self._queue_sentence(context, context.spoken.spoken(event.index, end_sample))
            case Finished():
                self._request_finished(context, event, at)
            case Failed():
                self._request_failed(context, event, at)
            case _:
                assert_never(event)
        return self._take()

    # --- time and shutdown ---------------------------------------------------------------------------------------------

    def tick(self, at: float) -> list[Command]:
        """Time has passed."""
        if self.is_closed:
            return []
        if self._hello is None and at >= self._hello_deadline:
            limit_s = self._settings.limits.hello_timeout_s
            self._end_session(HelloTimeoutError(f"no `hello` within {limit_s:g} s"), at)
        timeout_s = self._settings.limits.text_timeout_s
        for context in list(self._by_number.values()):
            if context.is_out_of_text and at - context.idle_since_at >= timeout_s:
                self._fail(
                    context, TextTimeoutError(f"no text, flush or end for {timeout_s:g} s"), at
                )
        return self._take()

    def drain(self) -> list[Command]:
        """Take no further contexts; those that are open go on."""
        self._is_draining = True
        return []

    def end(self, error: SpeechError, at: float) -> list[Command]:
        """Close the session because of `error`, whatever is open."""
        if not self.is_closed:
            self._end_session(error, at)
        return self._take()

    # --- the session as a whole ----------------------------------------------------------------------------------------

    def _receive_hello(self, message: wire.Hello, at: float) -> None:
        try:
            self._open_session(message)
        except SpeechError as error:
            self._end_session(error, at)

    def _open_session(self, hello: wire.Hello) -> None:
        settings = self._settings
        if self._hello is not None:
            raise OutOfOrderError("`hello` was already sent")
        is_open = settings.is_authenticated or not settings.credentials
        if not is_open and not is_accepted(hello.credential, settings.credentials):
            raise UnauthorizedError("the credential is missing or not accepted")
        ready = self._engine.ready
        if ready is None:
            raise EngineNotReadyError("the engine is starting", retry_after_s=1.0)
        self._voice = hello.voice or ready.default_voice
        _check_voice(self._voice, ready)
        self._hello = hello
        self.sample_rate_hz = ready.sample_rate_hz
        self._samples_per_frame = ready.samples_per_frame
        if hello.max_contexts is not None:
            self._max_contexts = min(self._max_contexts, hello.max_contexts)
        limits = msgspec.structs.replace(settings.limits, max_contexts=self._max_contexts)
        answer = wire.Ready(
            session=settings.session_id,
            protocol=wire.PROTOCOL_VERSION,
            voice=self._voice,
            voices=ready.voices,
            sample_rate_hz=ready.sample_rate_hz,
            encoding="pcm_s16le",
            tokens_per_second=ready.tokens_per_second,
            limits=limits,
        )
        self._commands.append(Send(answer))

    def _end_session(self, error: SpeechError, at: float) -> None:
        self._abandon_contexts(error, at)
        self._commands += [
            CountError(error.code),
            Send(error_message(error)),
            Close(error.close_code, error.code),
        ]
        self.is_closed = True

    def _abandon_contexts(self, error: SpeechError | None, at: float) -> None:
        for context in list(self._by_number.values()):
            self._commands.append(DropUnsent(context.number))
            if not context.is_stopping:
                self._stop_work(context)
                context.error = error
            reason = "cancelled" if context.error is None else "error"
            self._forget(context)
            self._commands.append(context.summary(reason, at, was_abandoned=error is None))

    def _malformed(self, data: str, error: MalformedMessageError, at: float) -> list[Command]:
        name = _context_named_in(data) if self._hello is not None else None
        if name is None:
            self._end_session(error, at)
        else:
            self._refuse(name, error, at)
        return self._take()

    # --- messages for a context ----------------------------------------------------------------------------------------

    def _receive_for_context(
        self, message: wire.Text | wire.Flush | wire.End | wire.Cancel | wire.Played, at: float
    ) -> None:
        name = message.context
        context = self._by_name.get(name)
        if context is None:
            if name in self._past_names and self._ignore_late(message):
                return
            if not isinstance(message, wire.Text):
                raise UnknownContextError(f"no context {name!r} is open")
            context = self._open_context(message, at)
        elif isinstance(message, wire.Text) and (
            message.voice is not None or message.sampling is not None
        ):
            raise OutOfOrderError("voice and sampling belong on a context's first piece")
        match message:
            case wire.Text():
                self._receive_piece(context, message.text, at)
            case wire.Flush():
                self._feed(context, "flush", "", at)
            case wire.End():
                self._receive_end(context, at)
            case wire.Cancel():
                self._cancel(context, at)
            case wire.Played():
                if not context.is_stopping:
                    context.playback.played(message.samples)
                    self._report_playback(context)
            case _:
                assert_never(message)

    def _ignore_late(
        self, message: wire.Text | wire.Flush | wire.End | wire.Cancel | wire.Played
    ) -> bool:
        """Whether a message for a past context only crossed its end; `end` and `cancel` set the name free again."""
        is_text = isinstance(message, wire.Text)
        if is_text and not self._past_names[message.context]:
            return False
        if isinstance(message, wire.End | wire.Cancel):
            self._past_names[message.context] = False
        return True

    def _open_context(self, message: wire.Text, at: float) -> Context:
        assert self._hello is not None
        if self._is_draining:
            raise ShuttingDownError("the service is stopping", retry_after_s=1.0)
        if len(self._by_name) >= self._max_contexts:
            raise TooManyContextsError(
                f"{len(self._by_name)} contexts are open, the session may hold no more"
            )
        ready = self._engine.ready
        if ready is None:
            raise EngineNotReadyError("the engine is starting", retry_after_s=1.0)
        voice = message.voice or self._voice
        _check_voice(voice, ready)
        refusal = self._engine.refusal()
        if refusal is not None:
            raise refusal
        sampling = self._merge_sampling(message.sampling)
        self._last_number += 1
        number = self._last_number
        rate_hz = self.sample_rate_hz
        context = Context(
            message.context, number, voice=voice, seed=sampling.seed, sample_rate_hz=rate_hz, at=at
        )
        self._by_name[context.name] = context
        self._by_number[number] = context
        self._past_names.pop(context.name, None)
        hello = self._hello
        self._commands += [
            Send(wire.Opened(context=context.name, number=number, voice=voice, seed=sampling.seed)),
            OpenRequest(
                number,
                voice,
                sampling,
                "audio" in hello.outputs,
                "tokens" in hello.outputs,
                hello.first_segment_min_chars,
            ),
        ]
        return context

    def _merge_sampling(self, own: wire.Sampling | None) -> SamplingParams:
        assert self._hello is not None
        merged = {
            field: value
            for sampling in (self._hello.sampling, own)
            if sampling is not None
            for field, value in msgspec.structs.asdict(sampling).items()
            if value is not None
        }
        return SamplingParams(**({"seed": self._new_seed()} | merged))

    def _receive_piece(self, context: Context, piece: str, at: float) -> None:
        if context.is_stopping or not piece:
            context.idle_since_at = at
            return
        if context.state is not ContextState.OPEN:
            if context.has_ended:
                raise OutOfOrderError("text after `end`")
            return
        context.num_chars += len(piece)
        limit = self._settings.limits.max_text_chars
        if context.num_chars > limit:
            raise TextTooLongError(f"more than {limit} characters in one context")
        self._feed(context, "text", piece, at)

    def _receive_end(self, context: Context, at: float) -> None:
        self._feed(context, "end", "", at)
        if context.state is ContextState.OPEN:
            context.state = ContextState.ENDED
        context.has_ended = True

    def _feed(self, context: Context, kind: TextKind, text: str, at: float) -> None:
        if context.state is ContextState.OPEN:
            context.is_preparing_text = True
            context.idle_since_at = at
            self._commands.append(FeedText(context.number, kind, text, at))

    def _cancel(self, context: Context, at: float) -> None:
        context.has_ended = (
            True  # whatever the caller sends next under this name is a new utterance
        )
        if context.state is ContextState.CANCELLING:
            return
        was_draining = context.state is ContextState.DRAINING
        was_failing = context.state is ContextState.FAILING
        context.stages.cancelled_at = at
        self._commands.append(DropUnsent(context.number))
        if not was_failing:
            char = context.spoken.char_at(context.sent_samples)
            context.state = ContextState.CANCELLING
        else:
            char = context.char
        self._commands.append(
            Send(wire.Cancelled(context=context.name, samples=context.sent_samples, char=char))
        )
        if was_draining:
            self._finish(context, "cancelled", at)
        elif not was_failing:
            self._stop_work(context)

    # --- output --------------------------------------------------------------------------------------------------------

    def _queue_output(self, context: Context, chunk: OutputChunk) -> None:
        assert self._hello is not None
        num_samples = chunk.num_frames * self._samples_per_frame
        sample_offset = chunk.first_frame * self._samples_per_frame
        wants_audio = "audio" in self._hello.outputs
        if "tokens" in self._hello.outputs:
            tokens = wire.Tokens(
                context=context.name, first_frame=chunk.first_frame, codes=chunk.codes
            )
            self._commands.append(
                Send(tokens, context.number, 0 if wants_audio else num_samples, True)
            )
        if wants_audio:
            if context.audible_sample is None:
                audible = self._settings.find_audible(chunk.pcm)
                context.audible_sample = None if audible is None else sample_offset + audible
            frame = wire.AudioFrame(context.number, sample_offset, chunk.pcm)
            self._commands.append(Send(frame, context.number, num_samples, True))
        context.queued_samples += num_samples

    def _queue_sentence(self, context: Context, span: SentenceSpan | None) -> None:
        if span is None:
            return
        context.sentence_ends(span.end_sample)
        message = wire.Sentence(
            context=context.name,
            index=span.index,
            start_char=span.start_char,
            end_char=span.end_char,
            start_sample=span.start_sample,
            end_sample=span.end_sample,
        )
        self._commands.append(Send(message, context.number, 0, True))

    def _report_playback(self, context: Context) -> None:
        report = ReportPlayback(
            context.number, context.sent_samples, context.playback.played_samples
        )
        self._commands.append(report)

    # --- ends ----------------------------------------------------------------------------------------------------------

    def _request_finished(self, context: Context, event: Finished, at: float) -> None:
        context.take_timings(event.timings, event.num_tokens)
        context.stages.num_samples = event.num_frames * self._samples_per_frame
        if context.state is ContextState.CANCELLING:
            self._finish(context, "cancelled", at)
        elif context.state is ContextState.FAILING:
            self._finish(context, "error", at)
        elif context.is_speaking:
            self._queue_sentence(context, context.spoken.last_sentence())
            context.reason = event.reason
            context.state = ContextState.DRAINING
            self._commands.append(StopText(context.number))
            self._finish_if_sent(context, at)

    def _request_failed(self, context: Context, event: Failed, at: float) -> None:
        context.stages.freed_at = at
        if context.state is ContextState.CANCELLING:
            self._finish(context, "cancelled", at)
            return
        if context.state is not ContextState.FAILING:
            kind = all_error_types().get(event.code, EngineError)
            self._answer_failure(context, kind(event.message, retry_after_s=event.retry_after_s))
            self._commands.append(StopText(context.number))
        self._finish(context, "error", at)

    def _fail(self, context: Context, error: SpeechError, at: float) -> None:
        was_draining = context.state is ContextState.DRAINING
        self._answer_failure(context, error)
        if was_draining:
            self._finish(context, "error", at)
        else:
            self._stop_work(context)

    def _answer_failure(self, context: Context, error: SpeechError) -> None:
        context.error = error
        context.state = ContextState.FAILING
        self._commands += [
            DropUnsent(context.number),
            CountError(error.code),
            Send(error_message(error, context.name)),
        ]

    def _refuse(self, name: str, error: SpeechError, at: float) -> None:
        """Answer an error about a context: it ends if it is open, and its further text is ignored until `end` or `cancel`."""
        context = self._by_name.get(name)
        if context is None:
            self._commands += [CountError(error.code), Send(error_message(error, name))]
            self._remember(name, ignores_text=not isinstance(error, UnknownContextError))
        elif not context.is_stopping:
            self._fail(context, error, at)

    def _stop_work(self, context: Context) -> None:
        self._commands.append(StopText(context.number))
        if context.state is not ContextState.DRAINING:
            self._commands.append(AbortRequest(context.number))

    def _finish_if_sent(self, context: Context, at: float) -> None:
        if (
            context.state is not ContextState.DRAINING
            or context.sent_samples < context.queued_samples
        ):
            return
        assert self._hello is not None
        if "audio" in self._hello.outputs:
            last = wire.AudioFrame(context.number, context.sent_samples, b"", is_last=True)
            self._commands.append(Send(last, context.number))
        self._finish(context, context.reason, at)

    def _finish(self, context: Context, reason: wire.DoneReason, at: float) -> None:
        char = context.char
        summary = context.summary(reason, at)
        metrics = msgspec.convert(context.stages.figures(self.sample_rate_hz), wire.Metrics)
        done = wire.Done(
            context=context.name,
            reason=reason,
            samples=context.sent_samples,
            char=char,
            metrics=metrics,
        )
        self._forget(context)
        self._commands += [Send(done), summary]

    def _forget(self, context: Context) -> None:
        del self._by_name[context.name]
        del self._by_number[context.number]
        self._remember(context.name, ignores_text=not context.has_ended)

    def _remember(self, name: str, *, ignores_text: bool) -> None:
        self._past_names[name] = ignores_text
        self._past_names.move_to_end(name)
        if len(self._past_names) > MAX_REMEMBERED_NAMES:
            self._past_names.popitem(last=False)

    def _take(self) -> list[Command]:
        commands, self._commands = self._commands, []
        return commands


def error_message(error: SpeechError, context: str | None = None) -> wire.Error:
    """An error as the message that answers it."""
    return wire.Error(
        code=error.code,
        message=error.message,
        retryable=error.is_retryable,
        retry_after_s=error.retry_after_s,
        context=context,
    )


def is_accepted(credential: str | None, accepted: tuple[str, ...]) -> bool:
    """Whether a credential is one of the accepted ones; takes as long for a near miss as for a far one."""
    if credential is None:
        return False
    given = credential.encode()
    return any([hmac.compare_digest(given, key.encode()) for key in accepted])


def _check_voice(voice: str, ready: EngineReady) -> None:
    if voice not in ready.voices:
        raise UnknownVoiceError(f"no voice {voice!r}; there are {', '.join(ready.voices)}")


def _context_named_in(data: str) -> str | None:
    """The context that a message of the wrong form is about, if it says so."""
    try:
        fields = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return None
    name = fields.get("context") if isinstance(fields, dict) else None
    return name if isinstance(name, str) and 0 < len(name) <= 128 else None
