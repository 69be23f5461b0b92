"""The socket below a session: uvicorn's WebSocket protocol with typed errors where it would close
without a word.

uvicorn itself closes on invalid UTF-8 (1007) and on messages over the limit (1009); here an `error`
goes ahead of that close. It also offers no way to end a connection whose peer does not read; `fail`
does.
"""

import asyncio
from typing import Any, cast

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame, Opcode

from realtime.errors import MalformedMessageError, MessageTooBigError, SpeechError
from realtime.wire import Error, encode_message

SCOPE_KEY = "realtime.socket"
WRITE_BUFFER_BYTES = 32 * 1024
_CLOSE_GRACE_S = 2.0
_SILENT_CLOSES: dict[int, SpeechError] = {
    1007: MalformedMessageError("a text frame is not valid UTF-8"),
    1009: MessageTooBigError("the message is larger than the limit in `ready`"),
}


class GatewaySocket(WebSocketsSansIOProtocol):
    """uvicorn's protocol class; the session finds it in the connection's ASGI scope."""

    _abort_timer: asyncio.TimerHandle | None = None

    async def run_asgi(self) -> None:
        """Run the application with this object in its scope."""
        cast(dict[str, Any], self.scope)[SCOPE_KEY] = self
        self.transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        await super().run_asgi()

    def handle_parser_exception(self) -> None:
        """Say why before uvicorn's close frame goes out."""
        close = self.conn.close_sent
        error = _SILENT_CLOSES.get(close.code) if close is not None else None
        if error is not None and self.handshake_complete and not self.close_sent:
            frame = Frame(Opcode.TEXT, encode_message(_as_message(error)).encode())
            self.transport.write(frame.serialize(mask=False))
        super().handle_parser_exception()
        self.abort_later()

    def refused(self) -> None:
        """The upgrade was answered with another response, which uvicorn would report as a fault."""
        self.handshake_complete = True

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the kernel has not taken."""
        return self.transport.get_write_buffer_size()

    def fail(self, error: SpeechError) -> None:
        """Close although the peer does not read: say why if it starts to read again soon, then cut
        the connection.
        """
        if self.close_sent or self.transport.is_closing():
            self.transport.abort()
            return
        self.conn.send_text(encode_message(_as_message(error)).encode())
        self.conn.send_close(error.close_code, error.code)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.queue.put_nowait(
            {"type": "websocket.disconnect", "code": error.close_code, "reason": error.code}
        )
        self.abort_later()

    def abort_later(self) -> None:
        """Cut the connection soon, whether or not the peer takes what is left and answers the
        close.
        """
        if self._abort_timer is None and not self.disconnected:
            self._abort_timer = self.loop.call_later(_CLOSE_GRACE_S, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        if self._abort_timer is not None:
            self._abort_timer.cancel()
            self._abort_timer = None
        super().connection_lost(exc)


def _as_message(error: SpeechError) -> Error:
    return Error(code=error.code, message=error.message, retryable=error.is_retryable)
