"""The socket below a session: uvicorn's WebSocket protocol, made fair and outspoken.

* What breaks the connection below the session (invalid UTF-8, a message over the limit, a broken
  frame) is answered by a typed `error` and a close whose reason is its code.
* Frames are decoded a few at a time, and no further than the session reads messages: a flood of
  tiny frames on one connection delays no other.
* Only the latest ping is answered while the peer does not read.
* A peer that does not read can be cut: `fail`.
"""

import asyncio
from http import HTTPStatus
from typing import Any, cast

from uvicorn._types import ASGIReceiveEvent, ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Close, Frame, Opcode

from realtime.errors import (
    BadRequestHeadError,
    MalformedMessageError,
    MessageTooBigError,
    ProtocolViolationError,
    SpeechError,
    TooManyFramesError,
)
from realtime.gateway.frame_meter import FrameMeter
from realtime.gateway.http import closing_response
from realtime.wire import encode_message, error_message

SCOPE_KEY = "realtime.socket"
WRITE_BUFFER_BYTES = 32 * 1024
# A frame costs about 40 us to decode; 1600 a second are more than any caller needs.
FRAMES_A_TURN = 16
TURN_PAUSE_S = 0.01
# So many full turns without a message are no caller's; a vanished one's flood ends here as well.
FLOOD_TURNS = 300
_CLOSE_GRACE_S = 2.0
_REASONS: dict[int, SpeechError] = {
    1002: ProtocolViolationError("not a WebSocket frame that is allowed here"),
    1007: MalformedMessageError("a text frame is not valid UTF-8"),
    1009: MessageTooBigError("the message is larger than the limit in `ready`"),
}


class GatewaySocket(WebSocketsSansIOProtocol):
    """uvicorn's protocol class; the session finds it in the connection's ASGI scope."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._abort_timer: asyncio.TimerHandle | None = None
        self._turn: asyncio.Handle | None = None
        self._meter = FrameMeter()
        self._undecoded = bytearray()
        self._has_request_head = False
        self._unanswered_ping = b""
        self._turns_without_message = 0

    async def run_asgi(self) -> None:
        """Run the application with this object in its scope."""
        cast(dict[str, Any], self.scope)[SCOPE_KEY] = self
        self.transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        await super().run_asgi()

    # --- receiving ---

    def data_received(self, data: bytes) -> None:
        """Bytes arrived: first the whole head of the upgrade request, then frames."""
        if not self._has_request_head:
            self._has_request_head = True
            super().data_received(data)
            if self.conn.handshake_exc is not None:
                self._refuse_request_head()
            return
        self._undecoded += data
        if self._turn is None:
            self._decode_frames()

    def _decode_frames(self) -> None:
        """Decode up to a turn's frames, or up to a message that the session has not taken yet."""
        self._turn = None
        budget = FRAMES_A_TURN
        while budget and self._undecoded and not (self.read_paused or self.transport.is_closing()):
            size = self._meter.take(self._undecoded)
            frame = bytes(self._undecoded[:size])
            del self._undecoded[:size]
            budget -= 1
            super().data_received(frame)
        if not self._undecoded or self.transport.is_closing():
            self._turns_without_message = 0
            return
        self.transport.pause_reading()
        if self.read_paused:
            self._turns_without_message = 0
            return
        self._turns_without_message += 1
        if self._turns_without_message >= FLOOD_TURNS:
            self._end_with(TooManyFramesError("a flood of frames that make no messages"))
            return
        self._turn = self.loop.call_later(TURN_PAUSE_S, self._go_on)

    def _go_on(self) -> None:
        self._decode_frames()
        if not (self._undecoded or self.read_paused or self.transport.is_closing()):
            self.transport.resume_reading()

    async def receive(self) -> ASGIReceiveEvent:
        """The next event for the session; lets the frames behind it be decoded."""
        event = await super().receive()
        self._decode_soon()
        return event

    async def send(self, message: ASGISendEvent) -> None:
        """Send an event of the session; behind a close the peer's answer is looked for."""
        await super().send(message)
        if self.close_sent:
            self._decode_soon()

    def _decode_soon(self) -> None:
        if self._undecoded and not self.read_paused and not self.transport.is_closing():
            self.transport.pause_reading()
            if self._turn is None:
                self._turn = self.loop.call_soon(self._go_on)

    def handle_cont(self, event: Frame) -> None:
        """Take a continuation; empty ones say nothing and are not kept."""
        if event.data or event.fin:
            super().handle_cont(event)

    def handle_ping(self) -> None:
        """Answer a ping, or the latest of several once the peer reads again."""
        pong = b"".join(self.conn.data_to_send())
        if self.writable.is_set():
            self.transport.write(pong)
        else:
            self._unanswered_ping = pong

    def resume_writing(self) -> None:
        """The peer reads again."""
        super().resume_writing()
        pong, self._unanswered_ping = self._unanswered_ping, b""
        if pong and not self.close_sent and not self.transport.is_closing():
            self.transport.write(pong)

    def send_receive_event_to_app(self) -> None:
        """Hand a complete message to the session."""
        if self.curr_msg_data_type == "text" and not self.close_sent:
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:
                self.frames = []
                self._end_with(_REASONS[1007])
                return
        super().send_receive_event_to_app()

    # --- ends ---

    def handle_parser_exception(self) -> None:
        """A frame was refused by the decoder, which has put a close of its own wording in line."""
        close = self.conn.close_sent
        code = 1011 if close is None else int(close.code)
        self.conn.data_to_send()
        self._end_with(_REASONS.get(code, SpeechError("a fault of the service")))

    def _end_with(self, error: SpeechError) -> None:
        if self.handshake_complete and not self.close_sent:
            text = Frame(Opcode.TEXT, encode_message(error_message(error)).encode())
            close = Frame(Opcode.CLOSE, Close(error.close_code, error.code).serialize())
            self.transport.write(text.serialize(mask=False) + close.serialize(mask=False))
        self.close_sent = True
        self.queue.put_nowait(
            {"type": "websocket.disconnect", "code": error.close_code, "reason": error.code}
        )
        self.transport.close()
        self.abort_later()

    def _refuse_request_head(self) -> None:
        """Answer an upgrade whose head the WebSocket library refuses, which uvicorn leaves open."""
        error = BadRequestHeadError("a header line is too long or there are too many headers")
        self.conn.data_to_send()
        status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        self.transport.write(closing_response(status, error))
        self.close_sent = self.handshake_complete = True
        self.transport.close()
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
        self.conn.send_text(encode_message(error_message(error)).encode())
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
        for pending in (self._abort_timer, self._turn):
            if pending is not None:
                pending.cancel()
        self._abort_timer = self._turn = None
        self._undecoded.clear()
        super().connection_lost(exc)
