"""HTTP connections before they are sessions: how many there may be, and how long one may take to
say what it wants. Knows no application.
"""

import asyncio
import resource
from http import HTTPStatus
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from realtime import wire
from realtime.errors import RequestTimeoutError, SpeechError, TooManySessionsError

REQUEST_TIMEOUT_S = 10.0
MAX_REQUEST_HEAD_BYTES = 16 * 1024
# For callers that ask for health and metrics, or are told that there is no room for a session.
SPARE_CONNECTIONS = 64
# Descriptors that are no connection: log, listener, engine, event loop, the text front end's files.
_OTHER_DESCRIPTORS = 64


def closing_response(status: HTTPStatus, error: SpeechError) -> bytes:
    """An HTTP response, as bytes, for connections that no application answers; the last one."""
    body = wire.encode_message(wire.error_message(error)).encode()
    headers = [f"HTTP/1.1 {status.value} {status.phrase}", "Content-Type: application/json"]
    if error.retry_after_s is not None:
        headers.append(f"Retry-After: {round(error.retry_after_s)}")
    headers += [f"Content-Length: {len(body)}", "Connection: close", "", ""]
    return "\r\n".join(headers).encode() + body


def connection_limit(max_sessions: int) -> int:
    """How many connections may be open, so that accepting one never runs out of descriptors.

    Raises this process's soft limit of open files as far as the hard one allows.
    """
    wanted = max_sessions + SPARE_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    # Every connection needs one, and one more while it is refused.
    needed = 2 * SPARE_CONNECTIONS + wanted + _OTHER_DESCRIPTORS
    if soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(wanted, soft - _OTHER_DESCRIPTORS - SPARE_CONNECTIONS))


def http_protocol(max_connections: int) -> type[H11Protocol]:
    """The protocol class of a server that holds at most so many connections, sessions included."""

    class LimitedHttp(GatewayHttp):
        _max_connections = max_connections

    return LimitedHttp


class GatewayHttp(H11Protocol):
    """uvicorn's HTTP protocol, with an end for connections that never become a request."""

    _max_connections: int

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._request_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Somebody has connected."""
        super().connection_made(transport)
        if len(self.connections) > self._max_connections:
            error = TooManySessionsError(f"{self._max_connections} connections are open")
            transport.write(closing_response(HTTPStatus.SERVICE_UNAVAILABLE, error))
            transport.close()
        else:
            self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes arrived."""
        if self.transport.is_closing():
            return
        if not self._is_answering and self._request_timer is None:
            self._await_request()
        super().data_received(data)

    def handle_events(self) -> None:
        """Act on what is complete."""
        super().handle_events()
        if self._is_answering:
            self._stop_waiting()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """The connection becomes a session, which has timeouts of its own."""
        self._stop_waiting()
        super().handle_websocket_upgrade(event)

    @property
    def _is_answering(self) -> bool:
        cycle = cast(RequestResponseCycle | None, self.cycle)
        return cycle is not None and not cycle.response_complete

    def _await_request(self) -> None:
        self._request_timer = self.loop.call_later(REQUEST_TIMEOUT_S, self._time_out)

    def _stop_waiting(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None

    def _time_out(self) -> None:
        self._request_timer = None
        error = RequestTimeoutError(f"no complete request within {REQUEST_TIMEOUT_S:g} s")
        self.transport.write(closing_response(HTTPStatus.REQUEST_TIMEOUT, error))
        self.transport.close()
