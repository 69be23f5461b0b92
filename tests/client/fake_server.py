"""A `speech.v1` service in a few lines: a ramp instead of a voice, misbehaviour on demand.

Words in the text steer it: `!error CODE` fails the context, `!refuse` ends the session with an
error message, `!drop` cuts the connection, `!endless` speaks until cancelled, `!garbage` sends
something unintelligible.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import numpy as np
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from realtime import wire

RATE_HZ = 24_000
FRAME_SAMPLES = 2048
LIMITS = wire.Limits(
    max_contexts=4,
    max_message_bytes=65536,
    max_text_chars=100_000,
    hello_timeout_s=5.0,
    text_timeout_s=60.0,
)


def ramp(start: int, count: int) -> bytes:
    """The fake voice: sample n is n modulo 20000, so that a lost or repeated sample shows."""
    return (np.arange(start, start + count) % 20_000).astype("<i2").tobytes()


@dataclass
class Context:
    name: str
    number: int
    text: str = ""
    num_samples: int = 0
    is_ended: bool = False
    is_cancelled: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class FakeServer:
    """One frame of audio per character of text; `received` holds every client message."""

    url: str = ""
    frame_pause_s: float = 0.0
    refuse_hello: wire.Error | None = None
    received: list[wire.ClientMessage] = field(default_factory=list)
    num_open_contexts: int = 0
    num_connections: int = 0

    def texts(self) -> list[str]:
        return [m.text for m in self.received if isinstance(m, wire.Text)]

    async def handle(self, socket: ServerConnection) -> None:
        self.num_connections += 1
        try:
            async with asyncio.TaskGroup() as tasks:
                await _Talk(self, socket, tasks).run()
        except* ConnectionClosed:
            pass
        finally:
            self.num_connections -= 1


class _Talk:
    def __init__(
        self, server: FakeServer, socket: ServerConnection, tasks: asyncio.TaskGroup
    ) -> None:
        self._server = server
        self._socket = socket
        self._tasks = tasks
        self._contexts: dict[str, Context] = {}
        self._next_number = 1

    async def run(self) -> None:
        try:
            async for data in self._socket:
                message = wire.decode_client_message(data)
                self._server.received.append(message)
                await self._answer(message)
        finally:
            for context in self._contexts.values():
                context.is_cancelled = True
                context.changed.set()

    async def _send(self, message: wire.ServerMessage) -> None:
        await self._socket.send(wire.encode_message(message))

    async def _answer(self, message: wire.ClientMessage) -> None:
        match message:
            case wire.Hello():
                await self._send(self._server.refuse_hello or self._ready(message))
            case wire.Text():
                await self._text(message)
            case wire.End(context=name) | wire.Flush(context=name) if name in self._contexts:
                self._contexts[name].is_ended |= isinstance(message, wire.End)
                self._contexts[name].changed.set()
            case wire.Cancel(context=name) if name in self._contexts:
                self._contexts[name].is_cancelled = True
                self._contexts[name].changed.set()
            case wire.Ping(nonce=nonce):
                await self._send(wire.Pong(nonce=nonce))
            case _:
                pass

    def _ready(self, hello: wire.Hello) -> wire.Ready:
        return wire.Ready(
            session="fake",
            protocol=wire.PROTOCOL_VERSION,
            voice=hello.voice or "default",
            voices=("default",),
            sample_rate_hz=RATE_HZ,
            encoding="pcm_s16le",
            tokens_per_second=82.03,
            limits=LIMITS,
        )

    async def _text(self, message: wire.Text) -> None:
        context = self._contexts.get(message.context)
        if context is None:
            context = Context(message.context, self._next_number)
            self._next_number += 1
            self._contexts[message.context] = context
            seed = message.sampling.seed if message.sampling else None
            await self._send(
                wire.Opened(
                    context=context.name, number=context.number, voice="default", seed=seed or 1
                )
            )
            self._tasks.create_task(self._speak(context))
        context.text += message.text
        context.changed.set()

    async def _speak(self, context: Context) -> None:
        self._server.num_open_contexts += 1
        try:
            await self._speak_to_the_end(context)
        finally:
            self._server.num_open_contexts -= 1
            self._contexts.pop(context.name, None)

    async def _speak_to_the_end(self, context: Context) -> None:
        spoken = 0
        while not context.is_cancelled:
            if await self._misbehave(context):
                return
            if spoken < len(context.text) or "!endless" in context.text:
                spoken += 1
                await self._frame(context)
            elif context.is_ended:
                break
            else:
                context.changed.clear()
                await context.changed.wait()
        if context.is_cancelled:
            await self._send(
                wire.Cancelled(context=context.name, samples=context.num_samples, char=spoken)
            )
        else:
            await self._finish_sentence(context)
        await self._done(context, "cancelled" if context.is_cancelled else "end_of_speech", spoken)

    async def _frame(self, context: Context) -> None:
        pcm = ramp(context.num_samples, FRAME_SAMPLES)
        frame = wire.AudioFrame(context.number, context.num_samples, pcm)
        context.num_samples += FRAME_SAMPLES
        await self._socket.send(frame.encode())
        await asyncio.sleep(self._server.frame_pause_s)

    async def _finish_sentence(self, context: Context) -> None:
        last = wire.AudioFrame(context.number, context.num_samples, b"", is_last=True)
        await self._socket.send(last.encode())
        await self._send(
            wire.Sentence(
                context=context.name,
                index=0,
                start_char=0,
                end_char=len(context.text),
                start_sample=0,
                end_sample=context.num_samples,
            )
        )

    async def _done(self, context: Context, reason: wire.DoneReason, chars: int) -> None:
        audio_s = context.num_samples / RATE_HZ
        metrics = wire.Metrics(
            ttfb_s=0.1,
            total_s=1.0,
            tokens=7 * context.num_samples // FRAME_SAMPLES,
            audio_s=audio_s,
        )
        await self._send(
            wire.Done(
                context=context.name,
                reason=reason,
                samples=context.num_samples,
                char=chars,
                metrics=metrics,
            )
        )

    async def _misbehave(self, context: Context) -> bool:
        if "!error" in context.text:
            code = context.text.split("!error ", 1)[1].split()[0]
            await self._send(
                wire.Error(
                    code=code,
                    message="as asked",
                    retryable=True,
                    retry_after_s=1.5,
                    context=context.name,
                )
            )
        elif "!refuse" in context.text:
            await self._send(wire.Error(code="engine_lost", message="gone", retryable=True))
            await self._socket.close(1011)
        elif "!drop" in context.text:
            self._socket.transport.abort()
        elif "!garbage" in context.text:
            await self._socket.send('{"type": "surprise"}')
        else:
            return False
        return True


@asynccontextmanager
async def fake_server(**options) -> AsyncIterator[FakeServer]:
    server = FakeServer(**options)
    async with serve(
        server.handle,
        "127.0.0.1",
        0,
        subprotocols=[Subprotocol(wire.SUBPROTOCOL)],
        compression=None,
    ) as listener:
        port = listener.sockets[0].getsockname()[1]
        server.url = f"ws://127.0.0.1:{port}"
        yield server
