"""The service's front door: one port for HTTP and WebSocket, who is let in, and how it all ends."""

import asyncio
import secrets
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial

import anyio
import anyio.abc
import anyio.to_thread
import msgspec
import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from realtime import wire
from realtime.audio.level import first_audible_sample
from realtime.clock import Clock, MonotonicClock
from realtime.config import ServiceConfig, TextConfig
from realtime.errors import (
    EngineNotReadyError,
    ShuttingDownError,
    SpeechError,
    TooManySessionsError,
    UnknownVoiceError,
)
from realtime.gateway import access
from realtime.gateway.listener import bind, make_server, report_faults_calmly
from realtime.gateway.protocol import SessionProtocol, SessionSettings
from realtime.gateway.session import Engine, Session, SessionServices
from realtime.gateway.supervisor import EngineSupervisor, engine_command, engine_error_in
from realtime.gateway.text_feed import TextSource
from realtime.gateway.voices import VOICES_PATH, VoiceRegistry
from realtime.gateway.websocket import SCOPE_KEY, GatewaySocket
from realtime.telemetry import logs
from realtime.telemetry.metrics import ServiceMetrics
from realtime.text.phonemes import FrontEnd
from realtime.text.segment import SegmentPolicy, TextStream

MAX_SEED = 2**53 - 1
DRAIN_POLL_S = 0.05
CLOSE_GRACE_S = 2.0
SWITCH_INTERVAL_S = 0.001

_log = structlog.get_logger()

TextSourceFactory = Callable[[int | None], TextSource]


class Gateway:
    """Who is let in, and the sessions that were.

    Args:
        config: All knobs.
        engine: Where requests go.
        new_text_source: Makes a context's text front end.
    """

    def __init__(
        self,
        config: ServiceConfig,
        *,
        clock: Clock,
        engine: Engine,
        metrics: ServiceMetrics,
        new_text_source: TextSourceFactory,
    ) -> None:
        self._config = config.gateway
        self._voices = config.voices
        self._audible_dbfs = config.telemetry.audible_dbfs
        self._sessions: set[Session] = set()
        self._num_reserved = 0
        self._is_draining = False
        gateway = config.gateway
        shortest_s = min(
            gateway.slow_reader_timeout_s, gateway.hello_timeout_s, gateway.text_timeout_s
        )
        self._services = SessionServices(
            clock=clock,
            engine=engine,
            metrics=metrics,
            new_text_source=new_text_source,
            text_limiter=anyio.CapacityLimiter(config.text.workers),
            max_unsent_bytes=gateway.max_unsent_bytes,
            slow_reader_timeout_s=gateway.slow_reader_timeout_s,
            tick_s=min(1.0, shortest_s / 4),
        )
        self.app = Starlette(
            routes=[
                Route("/healthz", self._healthz),
                Route("/readyz", self._readyz),
                Route("/metrics", self._metrics),
                Route(VOICES_PATH, self._list_voices),
                Route(f"{VOICES_PATH}/{{id}}/sample", self._sample),
                WebSocketRoute(wire.STREAM_PATH, self._stream),
            ]
        )

    @property
    def num_sessions(self) -> int:
        """Open sessions."""
        return len(self._sessions)

    async def drain(self, timeout_s: float) -> None:
        """Take nothing new, let open contexts finish for up to `timeout_s` seconds, then close
        every session.
        """
        self._is_draining = True
        for session in self._sessions:
            session.drain()
        with anyio.move_on_after(timeout_s):
            # Contexts end in many ways and this happens once: asking now and then is simplest.
            while any(session.protocol.num_contexts for session in self._sessions):  # noqa: ASYNC110
                await anyio.sleep(DRAIN_POLL_S)
        for session in self._sessions:
            session.end(ShuttingDownError("the service is stopping"))
        with anyio.move_on_after(CLOSE_GRACE_S):
            while self._sessions:  # noqa: ASYNC110
                await anyio.sleep(DRAIN_POLL_S)

    # --- HTTP ---

    async def _healthz(self, request: Request) -> Response:
        return JSONResponse({"status": "alive"})

    async def _readyz(self, request: Request) -> Response:
        error = self._not_ready()
        if error is not None:
            return _as_response(error, 503)
        return JSONResponse({"status": "ready"})

    async def _metrics(self, request: Request) -> Response:
        body, content_type = self._services.metrics.render()
        return Response(body, headers={"content-type": content_type})

    async def _list_voices(self, request: Request) -> Response:
        ready = self._services.engine.ready
        if ready is None:
            return _as_response(EngineNotReadyError("the engine is starting"), 503)
        listed = VoiceRegistry(ready, self._voices).as_list()
        return Response(msgspec.json.encode(listed), media_type="application/json")

    async def _sample(self, request: Request) -> Response:
        ready = self._services.engine.ready
        if ready is None:
            return _as_response(EngineNotReadyError("the engine is starting"), 503)
        wanted = request.path_params["id"]
        sample = next((voice.sample for voice in ready.voices if voice.id == wanted), "")
        if not sample:
            return _as_response(UnknownVoiceError(f"no voice {wanted!r} with a sample"), 404)
        return FileResponse(sample)

    def _not_ready(self) -> SpeechError | None:
        if self._is_draining:
            return ShuttingDownError("the service is stopping")
        if self._services.engine.ready is None:
            return EngineNotReadyError("the engine is starting")
        return None

    # --- WebSocket ---

    def _refusal(self, websocket: WebSocket) -> tuple[int, SpeechError] | None:
        """HTTP status and error with which the upgrade is refused; `None` accepts it."""
        refused = access.refusal(websocket.headers, websocket.scope["subprotocols"], self._config)
        if refused is not None:
            return refused
        not_ready = self._not_ready()
        if not_ready is not None:
            return 503, not_ready
        if self._num_reserved >= self._config.max_sessions:
            message = f"{self._num_reserved} sessions are open"
            return 503, TooManySessionsError(message)
        return None

    async def _stream(self, websocket: WebSocket) -> None:
        refused = self._refusal(websocket)
        if refused is not None:
            status, error = refused
            self._services.metrics.sessions_refused.labels(reason=error.code).inc()
            await websocket.send_denial_response(_as_response(error, status))
            websocket.scope[SCOPE_KEY].refused()
            return
        self._num_reserved += 1
        try:
            await self._accept(websocket)
        finally:
            self._num_reserved -= 1

    async def _accept(self, websocket: WebSocket) -> None:
        socket_below: GatewaySocket = websocket.scope[SCOPE_KEY]
        await websocket.accept(subprotocol=wire.SUBPROTOCOL)
        client = websocket.client
        settings = self._session_settings(
            access.bearer(websocket.headers), "" if client is None else client.host
        )
        services = self._services
        protocol = SessionProtocol(
            settings,
            services.engine,
            new_seed=partial(secrets.randbelow, MAX_SEED + 1),
            at=services.clock.now(),
        )
        session = Session(
            websocket, socket_below, protocol, services, session_id=settings.session_id
        )
        self._sessions.add(session)
        try:
            await session.run()
        finally:
            self._sessions.discard(session)

    def _session_settings(self, credential: str | None, host: str) -> SessionSettings:
        config = self._config
        return SessionSettings(
            session_id=secrets.token_hex(8),
            limits=wire.Limits(
                max_contexts=config.max_contexts,
                max_message_bytes=config.max_message_bytes,
                max_text_chars=config.max_text_chars,
                hello_timeout_s=config.hello_timeout_s,
                text_timeout_s=config.text_timeout_s,
            ),
            find_audible=partial(first_audible_sample, dbfs=self._audible_dbfs),
            credentials=config.api_keys,
            voices=self._voices,
            is_authenticated=access.is_accepted(credential, config.api_keys),
            key=credential if config.api_keys and credential else host,
        )


async def serve(
    config: ServiceConfig, *, command: Callable[[int, str], Sequence[str]] = engine_command
) -> None:
    """Run the service until SIGINT or SIGTERM, then drain; leaves no process behind.

    Args:
        config: All knobs.
        command: How the engine process is started, as in `EngineSupervisor`.

    Raises:
        ConfigError: The port cannot be bound.
        EngineError: The engine could not be started even once.
    """
    logs.configure(config.telemetry.level, config.telemetry.format)
    # The text front end's thread must not keep the event loop waiting for the interpreter lock.
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    clock = MonotonicClock()
    report_faults_calmly(asyncio.get_running_loop(), clock)
    metrics = ServiceMetrics()
    listener = bind(config.gateway)
    host, port = listener.getsockname()[:2]
    _log.info("listening", host=host, port=port)
    supervisor = EngineSupervisor(config, clock, metrics, command=command)
    try:
        async with anyio.create_task_group() as tasks:
            stopping = anyio.Event()
            await tasks.start(_watch_signals, stopping)
            tasks.start_soon(supervisor.run)
            new_text_source = await _load_text_front_end(config.text)
            gateway = Gateway(
                config,
                clock=clock,
                engine=supervisor,
                metrics=metrics,
                new_text_source=new_text_source,
            )
            server = make_server(gateway.app, config.gateway)
            tasks.start_soon(_announce, supervisor, host, port)
            async with anyio.create_task_group() as serving:
                serving.start_soon(partial(server.serve, sockets=[listener]))
                await stopping.wait()
                _log.info("draining", num_sessions=gateway.num_sessions)
                await gateway.drain(config.gateway.drain_timeout_s)
                server.should_exit = True
            tasks.cancel_scope.cancel()
    except ExceptionGroup as group:
        failure = engine_error_in(group)
        raise group if failure is None else failure from group
    finally:
        listener.close()
    _log.info("service_stopped")


async def _announce(supervisor: EngineSupervisor, host: str, port: int) -> None:
    await supervisor.wait_ready()
    _log.info("service_ready", host=host, port=port)


async def _watch_signals(
    stopping: anyio.Event, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for received in signals:
            _log.info("signal", signal=received.name)
            stopping.set()


async def _load_text_front_end(config: TextConfig) -> TextSourceFactory:
    front_end = await anyio.to_thread.run_sync(FrontEnd)

    def new_text_source(first_min_chars: int | None) -> TextSource:
        first = min(first_min_chars or config.first_min_chars, config.max_segment_chars)
        policy = SegmentPolicy(
            first_min_chars=first,
            first_max_chars=min(2 * first, config.max_segment_chars),
            max_chars=config.max_segment_chars,
        )
        return TextStream(front_end, policy)

    return new_text_source


def _as_response(error: SpeechError, status: int) -> Response:
    headers: dict[str, str] = {}
    if error.retry_after_s is not None:
        headers["retry-after"] = str(max(1, round(error.retry_after_s)))
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    body = wire.encode_message(wire.error_message(error))
    return Response(body, status, headers, media_type="application/json")
