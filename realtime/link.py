"""Bounded duplex of messages between gateway and engine, over one connected Unix stream socket.

A frame is a little-endian u32 length and a msgpack body. Both ends bound what they hold: a full
side makes the other wait, down to the kernel's socket buffer; nothing is dropped. `AsyncLink`
serves the gateway's event loop, `ThreadLink` the engine's loop thread; a socketpair joins them
across processes and inside one (tests), with the same code.
"""

import contextlib
import queue
import socket
import struct
import threading
from collections.abc import Callable, Iterable
from typing import Any

import anyio
import msgspec
from anyio.abc import ByteStream

from realtime.messages import FromEngine, ToEngine

MAX_FRAME_BYTES = 16 * 1024 * 1024
_LENGTH = struct.Struct("<I")
_ENCODER = msgspec.msgpack.Encoder()


class LinkClosedError(ConnectionError):
    """The other end is gone; nothing further can be sent or received."""


def _frame(message: ToEngine | FromEngine) -> bytes:
    body = _ENCODER.encode(message)
    if len(body) > MAX_FRAME_BYTES:
        raise ValueError(
            f"{type(message).__name__} of {len(body)} bytes: the link takes {MAX_FRAME_BYTES}"
        )
    return _LENGTH.pack(len(body)) + body


class _FrameReader:
    """Cuts a byte stream into decoded messages; holds at most one unfinished frame."""

    def __init__(self, union: Any) -> None:
        self._decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(union)
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Any]:
        """Messages completed by `data`. A frame over the limit or a body of another kind raises
        `LinkClosedError`.
        """
        self._buffer += data
        messages: list[Any] = []
        start = 0
        while len(self._buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer, start)
            if length > MAX_FRAME_BYTES:
                raise LinkClosedError(f"frame of {length} bytes on the link")
            end = start + _LENGTH.size + length
            if len(self._buffer) < end:
                break
            try:
                messages.append(
                    self._decoder.decode(memoryview(self._buffer)[start + _LENGTH.size : end])
                )
            except msgspec.DecodeError as error:
                raise LinkClosedError(f"undecodable frame on the link: {error}") from error
            start = end
        del self._buffer[:start]
        return messages


class AsyncLink:
    """The gateway's end: `send` and `receive` as coroutines."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._reader = _FrameReader(FromEngine)
        self._ready: list[FromEngine] = []
        self._send_lock = anyio.Lock()

    @classmethod
    async def from_socket(cls, sock: socket.socket) -> "AsyncLink":
        """Take over a connected Unix stream socket."""
        return cls(await anyio.abc.UNIXSocketStream.from_socket(sock))

    async def send(self, message: ToEngine) -> None:
        """Send one message, waiting while the engine's inbox and the socket are full.

        Raises:
            LinkClosedError: The engine is gone.
        """
        data = _frame(message)
        async with self._send_lock:
            try:
                await self._stream.send(data)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
                raise LinkClosedError("the engine closed the link") from error

    async def receive(self) -> FromEngine:
        """The next message, in order.

        Raises:
            LinkClosedError: The engine is gone and everything it sent has been received.
        """
        while not self._ready:
            try:
                data = await self._stream.receive()
            except (
                anyio.EndOfStream,
                anyio.BrokenResourceError,
                anyio.ClosedResourceError,
            ) as error:
                raise LinkClosedError("the engine closed the link") from error
            self._ready = self._reader.feed(data)
            self._ready.reverse()
        return self._ready.pop()

    async def aclose(self) -> None:
        """Close the socket; the engine sees the end of the stream."""
        await self._stream.aclose()


class ThreadLink:
    """The engine's end: `send` and `receive` for one loop thread; two helper threads do the socket
    work.

    Args:
        sock: A connected Unix stream socket; owned from here on.
        capacity: Messages held in each direction before the sender waits.
        on_closed: Called once from the reader thread when the other end is gone, even while the
            loop thread is busy.
    """

    def __init__(
        self,
        sock: socket.socket,
        *,
        capacity: int = 4096,
        on_closed: Callable[[], None] | None = None,
    ) -> None:
        self._sock = sock
        self._inbox: queue.Queue[ToEngine | None] = queue.Queue(capacity)
        self._outbox: queue.Queue[bytes | None] = queue.Queue(capacity)
        self._closed = threading.Event()
        self._on_closed = on_closed
        self._threads = [
            threading.Thread(target=self._read, name="link-read", daemon=True),
            threading.Thread(target=self._write, name="link-write", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def send(self, messages: Iterable[FromEngine]) -> None:
        """Queue messages in order, waiting while the gateway is slow to take them.

        Raises:
            LinkClosedError: The gateway is gone.
        """
        for message in messages:
            data = _frame(message)
            while True:
                if self._closed.is_set():
                    raise LinkClosedError("the gateway closed the link")
                try:
                    self._outbox.put(data, timeout=0.1)
                    break
                except queue.Full:
                    continue

    def receive(self, timeout_s: float) -> list[ToEngine]:
        """Every message that has arrived; waits up to `timeout_s` seconds for the first one (0 does
        not wait).

        Raises:
            LinkClosedError: The gateway is gone and everything it sent has been received.
        """
        messages: list[ToEngine] = []
        try:
            message = self._inbox.get(
                block=timeout_s > 0, timeout=timeout_s if timeout_s > 0 else None
            )
            while message is not None:
                messages.append(message)
                message = self._inbox.get_nowait()
        except queue.Empty:
            return messages
        if not messages:
            self._inbox.put(None)  # stays closed for every later call
            raise LinkClosedError("the gateway closed the link")
        self._inbox.put(None)
        return messages

    def close(self) -> None:
        """Send what is queued, then close. Idempotent."""
        if not self._closed.is_set():
            self._outbox.put(None)
            self._threads[1].join(timeout=5.0)
        self._closed.set()
        with contextlib.suppress(OSError):  # already disconnected by the other end
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def _read(self) -> None:
        reader = _FrameReader(ToEngine)
        try:
            while data := self._sock.recv(1 << 16):
                for message in reader.feed(data):
                    self._inbox.put(message)
        except (OSError, LinkClosedError):
            pass  # the same end as an orderly close: the owner hears of it below
        self._closed.set()
        if self._on_closed is not None:
            self._on_closed()
        self._inbox.put(None)

    def _write(self) -> None:
        try:
            while (data := self._outbox.get()) is not None:
                self._sock.sendall(data)
        except OSError:
            self._closed.set()
