"""The listening socket and the HTTP and WebSocket server on it."""

import asyncio
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import structlog
import uvicorn
from starlette.applications import Starlette

from realtime.clock import Clock
from realtime.config import GatewayConfig
from realtime.errors import ConfigError
from realtime.gateway.http import MAX_REQUEST_HEAD_BYTES, connection_limit, http_protocol
from realtime.gateway.websocket import GatewaySocket

SEND_BUFFER_BYTES = 256 * 1024
KERNEL_BACKLOG = 1024
# Accepted before the first of them can be refused, so less than what the limit keeps free.
ACCEPTS_A_TURN = 32
FAULT_PAUSE_S = 10.0

_log = structlog.get_logger()


def report_faults_calmly(loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
    """Log what the event loop could do nothing about, each kind once in `FAULT_PAUSE_S`.

    Without descriptors asyncio reports every try to accept, thousands a second.
    """
    reported: dict[str, float] = {}

    def report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        message = str(context.get("message"))
        now = clock.now()
        if now - reported.get(message, now - FAULT_PAUSE_S) >= FAULT_PAUSE_S:
            reported[message] = now
            _log.error("event_loop_fault", reason=message, exc_info=context.get("exception"))

    loop.set_exception_handler(report)


class _Server(uvicorn.Server):
    """uvicorn's server, told when to stop by us instead of by signals of its own."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave the signals alone."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; `backlog` is asyncio's only, the kernel's queue stays as long as it was."""
        await super().startup(sockets)
        for listener in sockets or []:
            listener.listen(KERNEL_BACKLOG)


def bind(config: GatewayConfig) -> socket.socket:
    """Open the listening socket.

    Raises:
        ConfigError: The address or port cannot be bound.
    """
    try:
        info = socket.getaddrinfo(
            config.host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, number, _, address = info[0]
        listener = socket.socket(family, kind, number)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted sockets inherit these. A small kernel buffer keeps what is "sent" close to what
        # is heard;
        # the timeout frees connections whose host has vanished.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            patience_s = max(3 * config.ping_interval_s, 2 * config.slow_reader_timeout_s)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(patience_s * 1000))
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind(address)
        listener.listen(KERNEL_BACKLOG)
    except OSError as error:
        raise ConfigError(
            f"gateway.host {config.host}, gateway.port {config.port}: {error}"
        ) from error
    return listener


def make_server(app: Starlette, config: GatewayConfig) -> uvicorn.Server:
    """The HTTP and WebSocket server of an application."""
    max_connections = connection_limit(config.max_sessions)
    if max_connections < config.max_sessions:
        _log.warning(
            "open_files_limit_is_low",
            max_connections=max_connections,
            max_sessions=config.max_sessions,
        )
    return _Server(
        uvicorn.Config(
            app,
            http=http_protocol(max_connections),
            h11_max_incomplete_event_size=MAX_REQUEST_HEAD_BYTES,
            backlog=ACCEPTS_A_TURN,
            ws=GatewaySocket,
            ws_max_size=config.max_message_bytes,
            ws_ping_interval=config.ping_interval_s,
            # No pong deadline: a caller that plays as it reads may answer late. Vanished hosts meet
            # TCP_USER_TIMEOUT.
            ws_ping_timeout=None,
            ws_per_message_deflate=False,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=3,
        )
    )
