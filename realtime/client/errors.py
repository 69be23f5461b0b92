"""Errors that only a client can meet, and the exceptions that the service's answers stand for."""

from contextlib import suppress

import msgspec
from websockets.exceptions import ConnectionClosed

from realtime import wire
from realtime.errors import (
    CapacityError,
    EngineError,
    RequestError,
    ShuttingDownError,
    SpeechError,
    UnauthorizedError,
    all_error_types,
)

_ABNORMAL_CLOSE = 1006  # RFC 6455, 7.4.1: the connection ended without a close frame


class ConnectionLostError(SpeechError):
    """The connection ended without the service saying why."""

    code = "connection_lost"
    is_retryable = True


class ServiceUnreachableError(SpeechError):
    """Nothing that speaks this protocol answers at the address."""

    code = "service_unreachable"
    is_retryable = True


class SlowConsumerError(SpeechError):
    """The caller took nothing from an utterance whose buffer was full, so it was cancelled."""

    code = "slow_consumer"


def error_from_wire(message: wire.Error) -> SpeechError:
    """The exception that an `error` message stands for.

    A code that this client does not know becomes an `EngineError` where it is retryable, else a
    `RequestError`, with the code in its text.
    """
    kind = all_error_types().get(message.code)
    text = message.message
    if kind is None:
        kind = EngineError if message.retryable else RequestError
        text = f"{message.code}: {text}"
    return kind(text, retry_after_s=message.retry_after_s)


def error_of_close(closed: ConnectionClosed) -> SpeechError:
    """The exception for a connection that ended without an `error` message."""
    code, reason = _ABNORMAL_CLOSE, ""
    if closed.rcvd is not None:
        code, reason = closed.rcvd.code, closed.rcvd.reason
    if code == ShuttingDownError.close_code:
        return ShuttingDownError(reason or "the service is going away")
    if code == CapacityError.close_code:
        return CapacityError(reason or "the service has no room now")
    return ConnectionLostError(
        f"the connection ended (code {code}{': ' + reason if reason else ''})"
    )


def error_of_refusal(url: str, status: int, body: bytes) -> SpeechError:
    """The exception for an HTTP response that refused the WebSocket; its body may say why."""
    with suppress(msgspec.DecodeError):
        message: wire.ServerMessage = wire.decode_server_message(body)
        if isinstance(message, wire.Error):
            return error_from_wire(message)
    if status in (401, 403):
        return UnauthorizedError(f"{url} refuses this caller (HTTP {status})")
    if status in (429, 503):
        return CapacityError(f"{url} has no room now (HTTP {status})")
    return ServiceUnreachableError(f"no speech service at {url} (HTTP {status})")
