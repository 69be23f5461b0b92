"""The shared socket of a session: sends messages, and hands every received one to its utterance."""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Protocol, assert_never

import anyio
import msgspec
from anyio.abc import TaskGroup
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from realtime import wire
from realtime.client.errors import (
    ConnectionLostError,
    ServiceUnreachableError,
    SlowConsumerError,
    error_from_wire,
    error_of_close,
)
from realtime.client.inbox import AudioChunk, Buffering, Event
from realtime.errors import OutOfOrderError, SpeechError

_REASON_TIMEOUT_S = 2.0
_OTHER_FIELDS_BYTES = 2048
_MAX_BYTES_PER_CHAR = 12  # a code point as a pair of escaped surrogates in JSON


class Receiver(Protocol):
    """What the channel needs of an utterance."""

    name: str

    async def deliver(self, event: Event, stall_timeout_s: float) -> None:
        """Take an event; raises `SlowConsumerError` when there is no room for that long."""
        ...

    def fail(self, error: Exception) -> bool:
        """End with an error; whether the service has to be told."""
        ...


class Channel:
    """One connection. Its reader is the only task that receives; any task may send.

    Attributes:
        max_piece_chars: Longest text that surely fits into one message.
    """

    def __init__(
        self,
        socket: ClientConnection,
        ready: wire.Ready,
        tasks: TaskGroup,
        buffering: Buffering,
    ) -> None:
        room_bytes = ready.limits.max_message_bytes - _OTHER_FIELDS_BYTES
        self.max_piece_chars = max(1, room_bytes // _MAX_BYTES_PER_CHAR)
        self._socket = socket
        self._sample_rate_hz = ready.sample_rate_hz
        self._tasks = tasks
        self._buffering = buffering
        self._failure: SpeechError | None = None
        self._is_over = anyio.Event()
        self._receivers: dict[str, Receiver] = {}
        self._by_number: dict[int, Receiver] = {}
        self._pongs: dict[str, anyio.Event] = {}
        tasks.start_soon(self._read)

    def start_soon(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a task that ends with the session at the latest."""
        self._tasks.start_soon(work)

    def register(self, receiver: Receiver) -> None:
        """Deliver what comes for `receiver.name` to it; on a lost connection it fails at once.

        Raises:
            OutOfOrderError: An open utterance has this name.
        """
        if receiver.name in self._receivers:
            raise OutOfOrderError(f"utterance `{receiver.name}` is open")
        self._receivers[receiver.name] = receiver
        if self._failure is not None:
            receiver.fail(self._failure)

    def forget(self, receiver: Receiver) -> None:
        """Drop whatever still comes for it."""
        if self._receivers.get(receiver.name) is receiver:
            del self._receivers[receiver.name]
        self._by_number = {n: r for n, r in self._by_number.items() if r is not receiver}

    async def abandon(self, receiver: Receiver, error: Exception) -> None:
        """Fail an utterance from this side and tell the service."""
        self.forget(receiver)
        if receiver.fail(error):
            with suppress(SpeechError):
                await self.send(wire.Cancel(context=receiver.name))

    async def send(self, message: wire.ClientMessage) -> None:
        """Send a message; waits while the socket is full.

        Raises:
            SpeechError: Why the connection ended.
        """
        if self._failure is not None:
            raise self._failure
        try:
            await self._socket.send(wire.encode_message(message))
        except ConnectionClosed as closed:
            # The service's own explanation may still wait to be read.
            with anyio.move_on_after(_REASON_TIMEOUT_S):
                await self._is_over.wait()
            raise self._failure or error_of_close(closed) from closed

    async def ping(self, nonce: str) -> None:
        """Return when the service has answered.

        Raises:
            SpeechError: Why the connection ended.
        """
        pong = self._pongs[nonce] = anyio.Event()
        await self.send(wire.Ping(nonce=nonce))
        await pong.wait()
        if self._failure is not None:
            raise self._failure

    async def close(self) -> None:
        """End the connection. The reader goes on until then: unread audio would delay it."""
        for receiver in [*self._receivers.values()]:
            self.forget(receiver)
            receiver.fail(ConnectionLostError("the session was closed"))
        await self._socket.close()

    async def _read(self) -> None:
        reason: SpeechError | None = None
        try:
            while True:
                data = await self._socket.recv()
                if isinstance(data, bytes):
                    await self._receive_audio(data)
                else:
                    reason = await self._receive_message(data) or reason
        except ConnectionClosed as closed:
            self._end(reason or error_of_close(closed))
        except (ValueError, msgspec.DecodeError) as error:
            self._end(
                ServiceUnreachableError(f"the service sent something unintelligible: {error}")
            )

    async def _receive_audio(self, data: bytes) -> None:
        frame = wire.AudioFrame.decode(data)
        chunk = AudioChunk(frame.sample_offset, frame.pcm, self._sample_rate_hz, frame.is_last)
        await self._deliver(self._by_number.get(frame.number), chunk)

    async def _receive_message(self, data: str) -> SpeechError | None:
        """Deliver a message; returns the reason where it announces the end of the connection."""
        message: wire.ServerMessage = wire.decode_server_message(data)
        match message:
            case wire.Opened():
                if receiver := self._receivers.get(message.context):
                    self._by_number[message.number] = receiver
                await self._deliver(receiver, message)
            case wire.Tokens() | wire.Sentence() | wire.Cancelled() | wire.Done():
                await self._deliver(self._receivers.get(message.context), message)
            case wire.Error(context=None):
                return error_from_wire(message)
            case wire.Error(context=name):
                # The answering cancel sets the context's name free for a new utterance.
                if receiver := self._receivers.get(name or ""):
                    await self.abandon(receiver, error_from_wire(message))
            case wire.Pong():
                if pong := self._pongs.pop(message.nonce, None):
                    pong.set()
            case wire.Ready():
                raise ValueError("a second `ready`")
            case _:
                assert_never(message)
        return None

    async def _deliver(self, receiver: Receiver | None, event: Event) -> None:
        if receiver is None:
            return  # its caller has left; what was under way is of no use to anyone
        try:
            await receiver.deliver(event, self._buffering.stall_timeout_s)
        except SlowConsumerError as error:
            await self.abandon(receiver, error)
        if isinstance(event, wire.Done):
            self.forget(receiver)

    def _end(self, failure: SpeechError) -> None:
        self._failure = failure
        self._is_over.set()
        for receiver in self._receivers.values():
            receiver.fail(failure)
        self._receivers.clear()
        self._by_number.clear()
        for pong in self._pongs.values():
            pong.set()
