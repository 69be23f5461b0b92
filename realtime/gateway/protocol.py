"""The session's protocol as a sans-I/O state machine: events in, commands out. Knows no socket,
clock or engine process.

Rules that hold for every order of events:

* `hello` comes first; what breaks the session as a whole is answered by an `error` without a
  context and a close.
* An `error` with a context ends that context alone; every context that was opened gets exactly one
  `done`.
* Once `cancelled` or an `error` was answered, no audio of that context is queued any more.
* Messages for a context that is over, which the caller may not know of yet, are ignored.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol, assert_never

import msgspec

from realtime import wire
from realtime.config import VoicesConfig
from realtime.errors import (
    BinaryNotAllowedError,
    EngineNotReadyError,
    HelloTimeoutError,
    MalformedMessageError,
    OutOfOrderError,
    ShuttingDownError,
    SpeechError,
    TextTimeoutError,
    TooManyContextsError,
    UnauthorizedError,
    UnknownContextError,
)
from realtime.gateway.access import is_accepted
from realtime.gateway.commands import (
    Close,
    Command,
    CountError,
    OpenRequest,
    Released,
    Send,
)
from realtime.gateway.context import Context, ContextSettings
from realtime.gateway.voices import VoiceRegistry
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

ContextMessage = wire.Text | wire.Flush | wire.End | wire.Cancel | wire.Played
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
        limits: What is granted, before the caller's own wishes.
        find_audible: Index of the first audible sample of some PCM; `None` where all is quieter.
        credentials: Accepted API keys; empty accepts everyone.
        is_authenticated: The upgrade request already carried a valid key.
        key: Who the caller is until `hello` brings a credential.
        voices: What callers may call the engine's voices.
    """

    session_id: str
    limits: wire.Limits
    find_audible: Callable[[bytes], int | None]
    credentials: tuple[str, ...] = ()
    is_authenticated: bool = False
    key: str = ""
    voices: VoicesConfig = VoicesConfig()


class SessionProtocol:
    """State of one session. Every method takes the instant `at` and returns the commands to carry
    out, in order.

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
        self._voice: str | None = None
        self._speed = 1.0
        self._key = settings.key
        self._context_settings: ContextSettings | None = None
        self._by_name: dict[str, Context] = {}
        self._by_number: dict[int, Context] = {}
        self._past_names: OrderedDict[str, bool] = OrderedDict()  # whether its text is ignored
        self._last_number = 0
        self._is_draining = False
        self._commands: list[Command] = []
        self.is_closed = False

    @property
    def sample_rate_hz(self) -> int:
        """Of the session's audio; 0 before `hello` was accepted."""
        return 0 if self._context_settings is None else self._context_settings.sample_rate_hz

    @property
    def num_contexts(self) -> int:
        """Contexts that are not done."""
        return len(self._by_number)

    def wants_text(self, number: int) -> bool:
        """Whether the context's next text should be prepared now: speech is not far behind what was
        prepared.
        """
        context = self._by_number.get(number)
        return context is not None and context.spoken.num_unspoken < MAX_SEGMENTS_AHEAD

    # --- the socket ---

    def receive_text(self, data: str, at: float) -> list[Command]:
        """A text frame arrived."""
        if self.is_closed:
            return []
        try:
            message = wire.decode_client_message(data)
        except msgspec.DecodeError as error:
            self._malformed(data, MalformedMessageError(str(error)), at)
        else:
            self._receive(message, at)
        return self._take()

    def receive_binary(self, at: float) -> list[Command]:
        """A binary frame arrived."""
        return self.end(BinaryNotAllowedError("messages to the service are text frames"), at)

    def disconnected(self, at: float) -> list[Command]:
        """The socket is gone: everything the session holds is freed."""
        self._abandon_contexts(None, at)
        self.is_closed = True
        return self._take()

    def sent(self, number: int, num_samples: int, at: float, *, is_audio: bool) -> list[Command]:
        """The socket has taken output that covers the context's next `num_samples` samples."""
        context = self._by_number.get(number)
        if context is not None:
            context.sent(num_samples, at, is_audio=is_audio)
        return self._take(context)

    # --- the text front end ---

    def text_released(self, released: Released, at: float) -> list[Command]:
        """The front end has taken a piece, flush or end."""
        context = self._by_number.get(released.number)
        if context is not None:
            context.text_released(released, at)
        return self._take(context)

    def text_failed(self, number: int, error: SpeechError, at: float) -> list[Command]:
        """The front end cannot speak the context's text."""
        context = self._by_number.get(number)
        if context is not None and context.is_speaking:
            context.fail(error, at)
        return self._take(context)

    # --- the engine ---

    def engine_event(self, number: int, event: RequestEvent, at: float) -> list[Command]:
        """The engine sent something for the context's request."""
        context = self._by_number.get(number)
        if context is None:
            return []
        match event:
            case OutputChunk():
                context.output(event)
            case SegmentSpoken():
                context.segment_spoken(event, at)
            case Finished():
                context.request_finished(event, at)
            case Failed():
                context.request_failed(event, at)
            case _:
                assert_never(event)
        return self._take(context)

    # --- time and shutdown ---

    def tick(self, at: float) -> list[Command]:
        """Time has passed."""
        limits = self._settings.limits
        if self._hello is None and at >= self._hello_deadline:
            return self.end(
                HelloTimeoutError(f"no `hello` within {limits.hello_timeout_s:g} s"), at
            )
        timeout_s = limits.text_timeout_s
        for context in self._by_number.values():
            if context.is_overdue(at, timeout_s):
                context.fail(TextTimeoutError(f"no text, flush or end for {timeout_s:g} s"), at)
        return self._take()

    def drain(self) -> None:
        """Take no further contexts; those that are open go on."""
        self._is_draining = True

    def end(self, error: SpeechError, at: float) -> list[Command]:
        """Close the session because of `error`, whatever is open."""
        if not self.is_closed:
            self._end(error, at)
        return self._take()

    def _end(self, error: SpeechError, at: float) -> None:
        self._abandon_contexts(error, at)
        self._commands += [
            CountError(error.code),
            Send(wire.error_message(error)),
            Close(error.close_code, error.code),
        ]
        self.is_closed = True

    # --- messages ---

    def _receive(self, message: wire.ClientMessage, at: float) -> None:
        match message:
            case wire.Hello():
                try:
                    self._open_session(message)
                except SpeechError as error:
                    self._end(error, at)
            case _ if self._hello is None:
                error = OutOfOrderError("the first message must be `hello`")
                self._end(error, at)
            case wire.Ping():
                self._commands.append(Send(wire.Pong(nonce=message.nonce)))
            case wire.Text() | wire.Flush() | wire.End() | wire.Cancel() | wire.Played():
                try:
                    self._receive_for_context(message, at)
                except SpeechError as error:
                    self._refuse(message.context, error, at)
            case _:
                assert_never(message)

    def _malformed(self, data: str, error: MalformedMessageError, at: float) -> None:
        name = _context_named_in(data) if self._hello is not None else None
        if name is None:
            self._end(error, at)
        else:
            self._refuse(name, error, at)

    def _open_session(self, hello: wire.Hello) -> None:
        settings = self._settings
        if self._hello is not None:
            raise OutOfOrderError("`hello` was already sent")
        if settings.credentials and hello.credential:
            self._key = hello.credential
        is_open = settings.is_authenticated or not settings.credentials
        if not is_open and not is_accepted(hello.credential, settings.credentials):
            raise UnauthorizedError("the credential is missing or not accepted")
        ready = _present(self._engine.ready)
        voices = VoiceRegistry(ready, settings.voices)
        voice = ready.voices[voices.find(hello.voice)].id
        self._speed = voices.check_speed(hello.speed if hello.speed is not None else 1.0)
        self._voice = hello.voice
        self._hello = hello
        self._context_settings = ContextSettings(
            outputs=hello.outputs,
            max_text_chars=settings.limits.max_text_chars,
            sample_rate_hz=ready.sample_rate_hz,
            samples_per_frame=ready.samples_per_frame,
            find_audible=settings.find_audible,
        )
        if hello.max_contexts is not None:
            self._max_contexts = min(self._max_contexts, hello.max_contexts)
        answer = wire.Ready(
            session=settings.session_id,
            protocol=wire.PROTOCOL_VERSION,
            voice=voice,
            voices=voices.names,
            speed_range=ready.speed_range,
            sample_rate_hz=ready.sample_rate_hz,
            encoding="pcm_s16le",
            tokens_per_second=ready.tokens_per_second,
            limits=msgspec.structs.replace(settings.limits, max_contexts=self._max_contexts),
        )
        self._commands.append(Send(answer))

    def _receive_for_context(self, message: ContextMessage, at: float) -> None:
        context = self._find_context(message, at)
        if context is None:
            return
        match message:
            case wire.Text():
                context.piece(message.text, at)
            case wire.Flush():
                context.flush(at)
            case wire.End():
                context.end(at)
            case wire.Cancel():
                context.cancel(at)
                self._forget_if_done(context)
            case wire.Played():
                context.played(message.samples)
            case _:
                assert_never(message)

    def _find_context(self, message: ContextMessage, at: float) -> Context | None:
        """The context that a message is for, opened if need be; `None` if it only crossed the end
        of one.
        """
        name = message.context
        context = self._by_name.get(name)
        if context is not None:
            is_next_utterance = context.is_stopping and context.has_ended
            if isinstance(message, wire.Text) and _has_options(message) and not is_next_utterance:
                raise OutOfOrderError(
                    "voice, speed, sampling and priority belong on a context's first piece"
                )
            return context
        if name in self._past_names and self._ignores(message):
            return None
        if not isinstance(message, wire.Text):
            raise UnknownContextError(f"no context {name!r} is open")
        return self._open_context(message, at)

    def _ignores(self, message: ContextMessage) -> bool:
        """Whether a message for a past context only crossed its end; `end` and `cancel` set its
        name free.
        """
        if isinstance(message, wire.Text) and not self._past_names[message.context]:
            return False
        if isinstance(message, wire.End | wire.Cancel):
            self._past_names[message.context] = False
        return True

    def _open_context(self, message: wire.Text, at: float) -> Context:
        assert self._hello is not None
        assert self._context_settings is not None
        if self._is_draining:
            raise ShuttingDownError("the service is stopping")
        if len(self._by_name) >= self._max_contexts:
            num_open = len(self._by_name)
            raise TooManyContextsError(
                f"{num_open} contexts are open, the session may hold no more"
            )
        ready = _present(self._engine.ready)
        voices = VoiceRegistry(ready, self._settings.voices)
        speaker = voices.find(message.voice or self._voice)
        speed = voices.check_speed(message.speed if message.speed is not None else self._speed)
        refusal = self._engine.refusal()
        if refusal is not None:
            raise refusal
        self._last_number += 1
        request = OpenRequest(
            self._last_number,
            ready.voices[speaker].id,
            speaker,
            speed,
            self._merge_sampling(message.sampling),
            self._key,
            message.priority == "batch",
            "audio" in self._hello.outputs,
            "tokens" in self._hello.outputs,
            self._hello.first_segment_min_chars,
        )
        settings = self._context_settings
        context = Context(message.context, settings, request, emit=self._emit, at=at)
        self._by_name[context.name] = context
        self._by_number[context.number] = context
        self._past_names.pop(context.name, None)
        return context

    def _emit(self, command: Command) -> None:
        self._commands.append(command)

    def _merge_sampling(self, own: wire.Sampling | None) -> SamplingParams:
        assert self._hello is not None
        merged: dict[str, Any] = {"seed": None}
        for sampling in (self._hello.sampling, own or wire.Sampling()):
            given = msgspec.structs.asdict(sampling)
            merged |= {field: value for field, value in given.items() if value is not None}
        if merged["seed"] is None:
            merged["seed"] = self._new_seed()
        return SamplingParams(**merged)

    # --- ends ---

    def _refuse(self, name: str, error: SpeechError, at: float) -> None:
        """Answer an error about a context. An open one ends; text for it is ignored until `end` or
        `cancel`.
        """
        context = self._by_name.get(name)
        if context is None:
            self._commands += [CountError(error.code), Send(wire.error_message(error, name))]
            self._remember(name, ignores_text=not isinstance(error, UnknownContextError))
        else:
            context.fail(error, at)
            self._forget_if_done(context)

    def _abandon_contexts(self, error: SpeechError | None, at: float) -> None:
        for context in list(self._by_number.values()):
            context.abandon(error, at)
            self._forget_if_done(context)

    def _forget_if_done(self, context: Context) -> None:
        if context.is_done:
            del self._by_name[context.name]
            del self._by_number[context.number]
            self._remember(context.name, ignores_text=not context.has_ended)

    def _remember(self, name: str, *, ignores_text: bool) -> None:
        self._past_names[name] = ignores_text
        self._past_names.move_to_end(name)
        if len(self._past_names) > MAX_REMEMBERED_NAMES:
            self._past_names.popitem(last=False)

    def _take(self, touched: Context | None = None) -> list[Command]:
        if touched is not None:
            self._forget_if_done(touched)
        commands, self._commands = self._commands, []
        return commands


def _has_options(piece: wire.Text) -> bool:
    is_live = piece.priority == "live"
    given = (piece.voice, piece.speed, piece.sampling)
    return not is_live or any(option is not None for option in given)


def _present(ready: EngineReady | None) -> EngineReady:
    if ready is None:
        raise EngineNotReadyError("the engine is starting")
    return ready


class _Named(msgspec.Struct):
    context: str


def _context_named_in(data: str) -> str | None:
    """The context that a message of the wrong form is about, if it says so."""
    try:
        name = msgspec.json.decode(data, type=_Named).context
    except (msgspec.DecodeError, RecursionError):
        return None
    return name if 0 < len(name) <= wire.MAX_CONTEXT_NAME_CHARS else None
