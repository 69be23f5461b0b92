"""One connection's life: a task group of reader, writer, engine pump, text feed and ticker around
the protocol state machine.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import anyio
import msgspec
import structlog
from starlette.websockets import WebSocket, WebSocketDisconnect
from uvicorn.protocols.utils import ClientDisconnected

from realtime import wire
from realtime.clock import Clock
from realtime.errors import (
    EngineError,
    EngineNotReadyError,
    SlowReaderError,
    SpeechError,
)
from realtime.gateway.commands import (
    AbortRequest,
    AppendPhonemes,
    Close,
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
)
from realtime.gateway.engine_client import EngineClient, EngineRequest, RequestEvent
from realtime.gateway.outgoing import OutgoingQueue
from realtime.gateway.pacing import WriteProgress
from realtime.gateway.protocol import EngineView, SessionProtocol
from realtime.gateway.signal import Signal
from realtime.gateway.text_feed import TextFeed, TextSource
from realtime.gateway.websocket import GatewaySocket
from realtime.messages import Failed, StartRequest
from realtime.telemetry.metrics import ServiceMetrics

_log = structlog.get_logger()


class Engine(EngineView, Protocol):
    """The engine as a session uses it: `realtime.gateway.supervisor.EngineSupervisor`, or a test's
    own.
    """

    @property
    def client(self) -> EngineClient | None:
        """The running engine; `None` while it starts."""
        ...


class SessionServices(msgspec.Struct, frozen=True, kw_only=True):
    """What all sessions share.

    Attributes:
        new_text_source: Makes a context's text front end, given the session's
            `first_segment_min_chars`.
        text_limiter: The front end's worker threads.
        max_unsent_bytes: Audio held for one context.
        slow_reader_timeout_s: How long the socket may refuse data.
        tick_s: How often timeouts are looked at.
    """

    clock: Clock
    engine: Engine
    metrics: ServiceMetrics
    new_text_source: Callable[[int | None], TextSource]
    text_limiter: anyio.CapacityLimiter
    max_unsent_bytes: int
    slow_reader_timeout_s: float
    tick_s: float


class Session:
    """One accepted connection.

    Args:
        websocket: The accepted socket.
        socket: The connection below it.
        protocol: Its state machine.
        services: What it shares with the others.
    """

    def __init__(
        self,
        websocket: WebSocket,
        socket: GatewaySocket,
        protocol: SessionProtocol,
        services: SessionServices,
        *,
        session_id: str,
    ) -> None:
        self._websocket = websocket
        self._socket = socket
        self._services = services
        self._clock = services.clock
        self._outgoing = OutgoingQueue()
        self._text = TextFeed(services.text_limiter, protocol.wants_text)
        self._requests: dict[int, EngineRequest] = {}
        self._inbox: deque[tuple[int, RequestEvent]] = deque()
        self._inbox_signal = Signal()
        self._progress = WriteProgress()
        self._given_bytes = 0
        self._opened_at = self._clock.now()
        self._num_contexts = 0
        self._close_code = 1006
        self._log = _log.bind(session=session_id)
        self.protocol = protocol

    async def run(self) -> None:
        """Serve the connection until it is closed; leaves no request in the engine."""
        self._services.metrics.sessions.inc()
        try:
            async with anyio.create_task_group() as tasks:
                for task in (self._write, self._pump_engine, self._prepare_text, self._tick):
                    tasks.start_soon(task)
                await self._read()
                tasks.cancel_scope.cancel()
        except* (WebSocketDisconnect, ClientDisconnected):
            pass  # vanished while something was being sent
        except* Exception:  # noqa: BLE001 - one session's fault must not end the others
            self._log.exception("session_failed")
            self._socket.fail(SpeechError("a fault of the service"))
        finally:
            self._execute(self.protocol.disconnected(self._clock.now()))
            self._socket.abort_later()
            self._services.metrics.sessions.dec()
            self._log.info(
                "connection_closed",
                close_code=self._close_code,
                duration_s=round(self._clock.now() - self._opened_at, 3),
                num_contexts=self._num_contexts,
                sent_bytes=self._given_bytes,
            )

    def drain(self) -> None:
        """Take no further contexts."""
        self.protocol.drain()

    def end(self, error: SpeechError) -> None:
        """Close the connection because of `error`."""
        self._execute(self.protocol.end(error, self._clock.now()))

    # --- tasks ---

    async def _read(self) -> None:
        while True:
            message: dict[str, Any] = dict(await self._websocket.receive())
            if message["type"] == "websocket.disconnect":
                self._close_code = int(message.get("code") or 1005)
                return
            at = self._clock.now()
            text = message.get("text")
            if text is not None:
                self._execute(self.protocol.receive_text(text, at))
            else:
                self._execute(self.protocol.receive_binary(at))
            await self._outgoing.has_room()

    async def _write(self) -> None:
        while True:
            item = await self._outgoing.get()
            if isinstance(item, Close):
                await self._websocket.close(item.code, item.reason)
                return
            message = item.message
            if isinstance(message, wire.AudioFrame):
                data = message.encode()
                self._given_bytes += len(data)
                await self._websocket.send({"type": "websocket.send", "bytes": data})
            else:
                text = wire.encode_message(message)
                self._given_bytes += len(text)
                await self._websocket.send({"type": "websocket.send", "text": text})
            if item.number is not None and item.num_samples:
                is_audio = isinstance(message, wire.AudioFrame)
                if is_audio:
                    self._services.metrics.audio_sent_s.inc(
                        item.num_samples / self.protocol.sample_rate_hz
                    )
                at = self._clock.now()
                self._execute(
                    self.protocol.sent(item.number, item.num_samples, at, is_audio=is_audio)
                )

    async def _pump_engine(self) -> None:
        while True:
            while self._inbox:
                number, event = self._inbox.popleft()
                self._execute(self.protocol.engine_event(number, event, self._clock.now()))
                if self._outgoing.pcm_bytes(number) > self._services.max_unsent_bytes:
                    self._fail_runaway(number)
            self._text.wake()
            await self._inbox_signal.wait()

    async def _prepare_text(self) -> None:
        await self._text.run(self._text_released, self._text_failed)

    async def _tick(self) -> None:
        while True:
            await anyio.sleep(self._services.tick_s)
            at = self._clock.now()
            self._execute(self.protocol.tick(at))
            stalled_s = self._progress.stalled_s(
                given_bytes=self._given_bytes, unsent_bytes=self._socket.unsent_bytes, at=at
            )
            if stalled_s >= self._services.slow_reader_timeout_s:
                self._fail_slow_reader()

    # --- events ---

    def _deliver(self, number: int, event: RequestEvent) -> None:
        self._inbox.append((number, event))
        self._inbox_signal.set()

    def _text_released(self, released: Released) -> None:
        self._execute(self.protocol.text_released(released, self._clock.now()))

    def _text_failed(self, number: int, error: SpeechError) -> None:
        self._execute(self.protocol.text_failed(number, error, self._clock.now()))

    def _fail_runaway(self, number: int) -> None:
        """The engine ran ahead of its lead bound: a fault of ours that may cost one request, never
        the memory.
        """
        self._log.error("engine_lead_exceeded", context=number)
        self._requests[number].cancel()
        failed = Failed(request_id=0, code=EngineError.code, message="the engine ran too far ahead")
        self._execute(self.protocol.engine_event(number, failed, self._clock.now()))

    def _fail_slow_reader(self) -> None:
        timeout_s = self._services.slow_reader_timeout_s
        error = SlowReaderError(f"no data was taken for {timeout_s:g} s")
        self._services.metrics.errors.labels(code=error.code).inc()
        self._log.warning("slow_reader", unsent_bytes=self._socket.unsent_bytes)
        self._execute(self.protocol.disconnected(self._clock.now()))
        self._socket.fail(error)

    # --- commands ---

    def _execute(self, commands: list[Command]) -> None:
        for command in commands:
            self._carry_out(command)

    def _carry_out(self, command: Command) -> None:
        match command:
            case Send() | Close():
                self._outgoing.put(command)
            case DropUnsent():
                self._outgoing.drop(command.number)
            case FeedText():
                self._text.put(command)
            case StopText():
                self._text.close(command.number)
            case OpenRequest():
                self._open_request(command)
            case CountError():
                self._services.metrics.errors.labels(code=command.code).inc()
            case ContextDone():
                self._finish_context(command)
            case AppendPhonemes() | EndRequestText() | AbortRequest() | ReportPlayback():
                request = self._requests.get(command.number)
                if request is not None:
                    _tell_engine(request, command)

    def _open_request(self, command: OpenRequest) -> None:
        self._num_contexts += 1
        self._services.metrics.contexts.inc()
        number = command.number
        client = self._services.engine.client
        if client is None:
            error = EngineNotReadyError("the engine is starting")
            failed = Failed(
                request_id=0,
                code=error.code,
                message=error.message,
                retry_after_s=error.retry_after_s,
            )
            self._deliver(number, failed)
            return
        self._text.open(number, self._services.new_text_source(command.first_segment_min_chars))
        start = StartRequest(
            request_id=0,
            speaker=command.speaker,
            speed=command.speed,
            sampling=command.sampling,
            key=command.key,
            is_batch=command.is_batch,
            wants_audio=command.wants_audio,
            wants_tokens=command.wants_tokens,
        )
        self._requests[number] = client.open(start, lambda event: self._deliver(number, event))

    def _finish_context(self, done: ContextDone) -> None:
        self._text.close(done.number)
        request = self._requests.pop(done.number, None)
        if request is not None:
            request.detach()
        metrics = self._services.metrics
        metrics.contexts.dec()
        rate_hz = self.protocol.sample_rate_hz
        figures = done.stages.figures(rate_hz)
        outcome = "abandoned" if done.was_abandoned else done.reason
        metrics.observe_request(figures, outcome=outcome)
        self._log.info(
            "request_done",
            context=done.number,
            request=request.request_id if request is not None else None,
            outcome=outcome,
            error=done.error_code,
            voice=done.voice,
            seed=done.seed,
            num_chars=done.num_chars,
            num_segments=done.num_segments,
            sent_samples=done.sent_samples,
            num_mended=done.stages.num_mended,
            **figures,
        )


def _tell_engine(
    request: EngineRequest, command: AppendPhonemes | EndRequestText | AbortRequest | ReportPlayback
) -> None:
    match command:
        case AppendPhonemes():
            request.append(command.index, command.phonemes)
        case EndRequestText():
            request.end_text()
        case AbortRequest():
            request.cancel()
        case ReportPlayback():
            request.report_playback(command.sent_samples, command.played_samples)
