"""From an address to a socket that has been greeted."""

import ipaddress
from urllib.parse import urlsplit, urlunsplit

import anyio
import msgspec
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_websocket
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.typing import Subprotocol

from realtime import wire
from realtime.client.errors import (
    ServiceUnreachableError,
    error_from_wire,
    error_of_close,
    error_of_refusal,
)

DEFAULT_URL = "ws://127.0.0.1:8765"
_CLOSE_TIMEOUT_S = 2.0
_PING_TIMEOUT_S = 60.0  # pings queue behind audio while a slow consumer holds the reader back


def stream_url(address: str) -> str:
    """The WebSocket URL of the stream, for an address as people write it.

    Raises:
        ServiceUnreachableError: The address makes no sense.
    """
    wanted = f"`{address}` is no service address: want ws://host:port"
    try:
        parts = urlsplit(address if "://" in address else f"ws://{address}")
        _ = parts.port  # parsed only when it is asked for
    except ValueError as error:
        raise ServiceUnreachableError(f"{wanted} ({error})") from error
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    if scheme not in ("ws", "wss") or not parts.hostname:
        raise ServiceUnreachableError(wanted)
    path = parts.path if parts.path.strip("/") else wire.STREAM_PATH
    return urlunsplit((scheme, parts.netloc, path, parts.query, ""))


async def open_socket(url: str, timeout_s: float) -> ClientConnection:
    """Connect to a stream URL.

    Raises:
        ServiceUnreachableError: Nothing that speaks the protocol answers.
        SpeechError: The service refuses the connection.
    """
    try:
        return await open_websocket(
            url,
            subprotocols=[Subprotocol(wire.SUBPROTOCOL)],
            compression=None,
            max_size=None,
            open_timeout=timeout_s,
            close_timeout=_CLOSE_TIMEOUT_S,
            ping_timeout=_PING_TIMEOUT_S,
            proxy=None if _is_local(url) else True,
        )
    except InvalidStatus as refused:
        response = refused.response
        raise error_of_refusal(url, response.status_code, bytes(response.body or b"")) from refused
    except (OSError, TimeoutError, InvalidHandshake, InvalidURI, UnicodeError) as error:
        # UnicodeError: a host name that the resolver cannot encode
        reason = str(error) or type(error).__name__
        raise ServiceUnreachableError(f"no service answers at {url}: {reason}") from error


async def greet(socket: ClientConnection, hello: wire.Hello, timeout_s: float) -> wire.Ready:
    """Exchange `hello` and `ready`.

    Raises:
        ServiceUnreachableError: The other side does not speak the protocol.
        SpeechError: The service refuses the session.
    """
    try:
        with anyio.fail_after(timeout_s):
            await socket.send(wire.encode_message(hello))
            reply: wire.ServerMessage = wire.decode_server_message(await socket.recv())
    except ConnectionClosed as closed:
        raise error_of_close(closed) from closed
    except TimeoutError as error:
        raise ServiceUnreachableError(f"no greeting within {timeout_s} s") from error
    except (ValueError, msgspec.DecodeError) as error:
        raise ServiceUnreachableError(f"the greeting is unintelligible: {error}") from error
    if isinstance(reply, wire.Error):
        raise error_from_wire(reply)
    if not isinstance(reply, wire.Ready):
        raise ServiceUnreachableError(f"`{type(reply).__name__}` instead of a greeting")
    return reply


def _is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
