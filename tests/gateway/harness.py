"""A real gateway on a real socket, over a fake engine and a fake text front end."""

import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import anyio
import msgspec
from websockets.asyncio.client import ClientConnection, connect

from realtime import wire
from realtime.clock import MonotonicClock
from realtime.config import ServiceConfig
from realtime.errors import EngineNotReadyError
from realtime.gateway.app import Gateway
from realtime.gateway.engine_client import EngineClient
from realtime.gateway.listener import bind, make_server
from realtime.link import AsyncLink, LinkClosedError
from realtime.telemetry.metrics import ServiceMetrics
from tests.fakes.engine import FakeEngine, start_fake_engine
from tests.fakes.text import FakeTextSource

TIMEOUT_S = 10.0


HELLO = wire.Hello()


def config_of(**gateway) -> ServiceConfig:
    config = ServiceConfig()
    return msgspec.structs.replace(
        config, gateway=msgspec.structs.replace(config.gateway, port=0, **gateway)
    )


class DirectEngine:
    """The `Engine` of a test: a client without a process to supervise."""

    def __init__(self, client: EngineClient | None) -> None:
        self.client = client

    @property
    def ready(self):
        return None if self.client is None else self.client.ready

    def refusal(self):
        if self.client is None:
            return EngineNotReadyError("the engine is starting")
        return None


@dataclass
class Running:
    port: int
    gateway: Gateway
    engine: DirectEngine
    fake: FakeEngine
    metrics: ServiceMetrics

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}{wire.STREAM_PATH}"


@asynccontextmanager
async def running_gateway(
    config: ServiceConfig | None = None, **engine_options
) -> AsyncIterator[Running]:
    config = config or config_of()
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    fake, thread = start_fake_engine(theirs, **engine_options)
    link = await AsyncLink.from_socket(ours)
    metrics = ServiceMetrics()
    client = EngineClient(
        link,
        await link.receive(),
        MonotonicClock(),
        on_late=metrics.engine_late.inc,
        on_cancelled=metrics.observe_cancel,
    )
    engine = DirectEngine(client)
    gateway = Gateway(
        config,
        clock=MonotonicClock(),
        engine=engine,
        metrics=metrics,
        new_text_source=FakeTextSource,
    )
    listener = bind(config.gateway)
    server = make_server(gateway.app, config.gateway)
    async with AsyncExitStack() as stack:
        stack.enter_context(listener)
        tasks = await stack.enter_async_context(anyio.create_task_group())
        tasks.start_soon(_run_client, client)
        tasks.start_soon(lambda: server.serve(sockets=[listener]))
        await until_true(lambda: server.started)
        try:
            yield Running(listener.getsockname()[1], gateway, engine, fake, metrics)
        finally:
            server.should_exit = True
            await link.aclose()
            await anyio.to_thread.run_sync(thread.join, 5.0)
            assert not thread.is_alive()


async def until_true(predicate, within_s: float = TIMEOUT_S) -> None:
    """Wait for something that announces itself in no other way."""
    with anyio.fail_after(within_s):
        while not predicate():  # noqa: ASYNC110
            await anyio.sleep(0.005)


async def _run_client(client: EngineClient) -> None:
    try:
        await client.run()
    except* LinkClosedError:
        pass


@dataclass
class Caller:
    """A plain client: sends structs or raw data, collects what comes."""

    socket: ClientConnection
    received: list = field(default_factory=list)

    async def send(self, *messages) -> None:
        for message in messages:
            is_raw = isinstance(message, str | bytes)
            await self.socket.send(message if is_raw else wire.encode_message(message))

    async def receive(self):
        with anyio.fail_after(TIMEOUT_S):
            data = await self.socket.recv()
        message = (
            wire.AudioFrame.decode(data)
            if isinstance(data, bytes)
            else wire.decode_server_message(data)
        )
        self.received.append(message)
        return message

    async def until(self, kind, **fields):
        """Receive up to the first message of this kind with these field values."""
        while True:
            message = await self.receive()
            if isinstance(message, kind) and all(
                getattr(message, k) == v for k, v in fields.items()
            ):
                return message

    async def close_code(self) -> int:
        """Read until the connection is closed."""
        with anyio.fail_after(TIMEOUT_S):
            await self.socket.wait_closed()
        return self.socket.close_code

    async def speak(self, context: str, text: str) -> wire.Done:
        await self.send(wire.Text(context=context, text=text), wire.End(context=context))
        return await self.until(wire.Done, context=context)


@asynccontextmanager
async def calling(
    running: Running, hello: wire.Hello | None = HELLO, **options
) -> AsyncIterator[Caller]:
    options = {"subprotocols": [wire.SUBPROTOCOL], "compression": None} | options
    async with connect(running.url, **options) as socket:
        caller = Caller(socket)
        if hello is not None:
            await caller.send(hello)
            await caller.until(wire.Ready)
        yield caller
