"""The fake service in a thread of its own, for callers with their own event loop or process."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.client.fake_server import FakeServer, fake_server


@contextmanager
def threaded_fake_server(**options) -> Iterator[FakeServer]:
    running = threading.Event()
    box: list[FakeServer] = []
    stop: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        async with fake_server(**options) as server:
            box.append(server)
            ending = asyncio.Event()
            stop.append((asyncio.get_running_loop(), ending))
            running.set()
            await ending.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert running.wait(10)
    try:
        yield box[0]
    finally:
        loop, ending = stop[0]
        loop.call_soon_threadsafe(ending.set)
        thread.join(10)
