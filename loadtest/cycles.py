"""`python -m loadtest.cycles`: callers that come and go in every way; what do they leave behind?

Each cycle connects, begins to speak and then ends in one of six ways: to the end, by cancel, by
closing the session, by vanishing without a word, after its text stood still in the middle, or after
it did not read for a while. Someone who is told to come back later does. Afterwards the service's
own gauges say whether slots, contexts and blocks are as before.
"""

from collections import Counter
from collections.abc import AsyncIterator
from typing import Annotated

import anyio
import typer
from rich.console import Console

from realtime.client import DEFAULT_URL, AudioChunk, connect
from realtime.client.errors import error_from_wire
from realtime.client.gauges import read_gauges
from realtime.client.opening import greet, open_socket, stream_url
from realtime.errors import CapacityError
from realtime.wire import Error, Hello, Sampling, Text, decode_server_message, encode_message

TEXT = "This sentence is long enough to be interrupted somewhere in its middle, surely."
WAYS = ("finish", "cancel", "close", "vanish", "stall", "crawl")
HELD = ("sessions", "contexts", "engine_running_requests", "engine_waiting_requests")
_SETTLE_S = 15.0
_POLL_S = 0.1
_PAUSE_S = 1.0  # how long text or reader stand still
_MAX_RETURNS = 20


async def run_cycles(url: str, num_cycles: int, *, at_once: int = 4) -> Counter[str]:
    """Run the cycles, some at the same time; the ways take turns.

    Returns:
        How many went each way, and how often one was told to come back (`refused`).

    Raises:
        SpeechError: The service failed, or a caller was sent away too often.
    """
    waiting = iter(range(num_cycles))
    seen: Counter[str] = Counter()

    async def worker() -> None:
        for index in waiting:
            way = WAYS[index % len(WAYS)]
            for returns in range(_MAX_RETURNS + 1):
                try:
                    await run_cycle(url, way, seed=index)
                    break
                except CapacityError as error:
                    if returns == _MAX_RETURNS:
                        raise
                    seen["refused"] += 1
                    await anyio.sleep(error.retry_after_s or _PAUSE_S)
            seen[way] += 1

    async with anyio.create_task_group() as tasks:
        for _ in range(at_once):
            tasks.start_soon(worker)
    return seen


async def run_cycle(url: str, way: str, *, seed: int) -> None:
    """Connect, speak, and leave in the given way.

    Raises:
        SpeechError: The service failed, or has no room.
    """
    if way == "vanish":
        await _vanish(url)
        return
    async with (
        connect(url, sampling=Sampling(seed=seed)) as session,
        session.utterance() as utterance,
    ):
        utterance.feed(_standing_still() if way == "stall" else TEXT)
        has_paused = False
        async for event in utterance:
            if isinstance(event, AudioChunk) and way == "close":
                return
            if isinstance(event, AudioChunk) and way == "cancel":
                await utterance.cancel()
            if way == "crawl" and not has_paused:
                has_paused = True
                await anyio.sleep(_PAUSE_S)


async def _standing_still() -> AsyncIterator[str]:
    """The text in two pieces, a while apart."""
    middle = len(TEXT) // 2
    yield TEXT[:middle]
    await anyio.sleep(_PAUSE_S)
    yield TEXT[middle:]


async def _vanish(url: str) -> None:
    """Drop the connection in the middle of the speech, without any close frame."""
    socket = await open_socket(stream_url(url), 10.0)
    await greet(socket, Hello(), 10.0)
    await socket.send(encode_message(Text(context="gone", text=TEXT + " And more.")))
    try:
        while not isinstance(data := await socket.recv(), bytes):
            message = decode_server_message(data)
            if isinstance(message, Error):
                raise error_from_wire(message)
    finally:
        socket.transport.abort()
        await socket.wait_closed()


async def settled_gauges(url: str) -> dict[str, float]:
    """The gauges once nothing is held any more, or after some seconds whatever they are then."""
    gauges = await read_gauges(url)
    with anyio.move_on_after(_SETTLE_S):
        while any(gauges[name] for name in HELD) or not has_all_blocks(gauges):
            await anyio.sleep(_POLL_S)
            gauges = await read_gauges(url)
    return gauges


def has_all_blocks(gauges: dict[str, float]) -> bool:
    """Whether every key-value block is free."""
    return gauges["engine_free_blocks"] == gauges["engine_blocks"]


def main(
    *,
    url: Annotated[str, typer.Option(help="Service address.")] = DEFAULT_URL,
    cycles: Annotated[int, typer.Option(min=1, help="How many.")] = 500,
    at_once: Annotated[int, typer.Option(min=1, help="Callers at the same time.")] = 4,
) -> None:
    """Let callers come and go, and show what they left. Exit code 1: anything."""
    console = Console()
    before = anyio.run(settled_gauges, url)
    with console.status(f"{cycles} cycles"):
        seen = anyio.run(_run, url, cycles, at_once)
    after = anyio.run(settled_gauges, url)
    console.print(", ".join(f"{way} {count}" for way, count in sorted(seen.items())))
    for name in (*HELD, "engine_free_blocks", "engine_resident_bytes"):
        console.print(f"{name}: {before[name]:.0f} before, {after[name]:.0f} after")
    if any(after[name] for name in HELD) or not has_all_blocks(after):
        raise typer.Exit(1)


async def _run(url: str, num_cycles: int, at_once: int) -> Counter[str]:
    return await run_cycles(url, num_cycles, at_once=at_once)


if __name__ == "__main__":
    typer.run(main)
