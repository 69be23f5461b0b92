"""Processes that die, callers that vanish: what the others notice, and what is left."""

import anyio
import psutil
import pytest

from loadtest.cycles import HELD, has_all_blocks, read_gauges, run_cycles, settled_gauges
from realtime.client import AudioChunk, ConnectionLostError, connect
from realtime.errors import EngineLostError, SpeechError
from tests.e2e.service import is_gone, until

pytestmark = [pytest.mark.anyio, pytest.mark.e2e, pytest.mark.slow]
LONG_TEXT = "This sentence goes on for a while, because nobody has told it to stop. " * 20
NUM_STREAMS = 8
MAX_GROWTH_BYTES = 24 * 2**20  # allocator slack; one leaked stream of this text is 5 MB of audio
NUM_CYCLES = 40


class _Streams:
    """Speaks a long text on several connections and keeps how each ended."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.errors: list[SpeechError] = []
        self.num_speaking = 0

    async def speak(self) -> None:
        try:
            async with connect(self.url) as session, session.utterance() as utterance:
                utterance.feed(LONG_TEXT)
                has_audio = False
                async for event in utterance:
                    if isinstance(event, AudioChunk) and not has_audio:
                        has_audio = True
                        self.num_speaking += 1
        except SpeechError as error:
            self.errors.append(error)


async def test_a_killed_engine_is_a_typed_error_and_everything_comes_back(service):
    before = await settled_gauges(service.url)
    engine = service.engine()
    resident_before = engine.memory_info().rss
    streams = _Streams(service.url)
    async with anyio.create_task_group() as tasks:
        for _ in range(NUM_STREAMS):
            tasks.start_soon(streams.speak)
        # a slow machine speaks to fewer at once; the others wait in the same engine
        await until(lambda: streams.num_speaking > 0, 60)
        with anyio.fail_after(60):
            while await _num_in_engine(service.url) < NUM_STREAMS:  # noqa: ASYNC110
                await anyio.sleep(0.05)
        engine.kill()
    assert [type(error) for error in streams.errors] == [EngineLostError] * NUM_STREAMS
    assert all(error.is_retryable for error in streams.errors)

    await service.wait_ready()
    assert service.engine().pid != engine.pid
    after = await settled_gauges(service.url)
    assert {name: after[name] for name in HELD} == {name: before[name] for name in HELD}
    assert has_all_blocks(after)
    async with connect(service.url) as session:
        assert [chunk async for chunk in session.speak("Back again.")]
    assert service.engine().memory_info().rss < resident_before + MAX_GROWTH_BYTES


async def _num_in_engine(url: str) -> float:
    gauges = await read_gauges(url)
    return gauges["engine_running_requests"] + gauges["engine_waiting_requests"]


async def test_a_killed_gateway_takes_its_engine_along(own_service):
    engine = own_service.engine()
    streams = _Streams(own_service.url)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(streams.speak)
        await until(lambda: streams.num_speaking == 1, 60)
        own_service.process.kill()
        own_service.process.wait()
        await until(lambda: is_gone(engine), 2.0)
    assert [type(error) for error in streams.errors] == [ConnectionLostError]


async def test_callers_that_come_and_go_in_every_way_leave_nothing(service):
    await run_cycles(service.url, 8)  # caches and allocators reach their size
    before = await settled_gauges(service.url)
    gateway, engine = service.gateway, service.engine()
    held = {process: _held(process) for process in (gateway, engine)}

    await run_cycles(service.url, NUM_CYCLES)

    after = await settled_gauges(service.url)
    assert {name: after[name] for name in HELD} == dict.fromkeys(HELD, 0.0)
    assert has_all_blocks(after)
    assert before["engine_blocks"] == after["engine_blocks"]
    for process, (resident_bytes, num_fds, num_threads) in held.items():
        assert process.memory_info().rss < resident_bytes + MAX_GROWTH_BYTES
        assert process.num_fds() <= num_fds
        assert process.num_threads() <= num_threads


def _held(process: psutil.Process) -> tuple[int, int, int]:
    """Resident bytes, file descriptors, threads."""
    return process.memory_info().rss, process.num_fds(), process.num_threads()


async def test_gauges_tell_of_what_is_held(service):
    await settled_gauges(service.url)
    async with connect(service.url) as session, session.utterance() as utterance:
        utterance.feed(LONG_TEXT)
        async for event in utterance:
            if isinstance(event, AudioChunk):
                break
        gauges = await read_gauges(service.url)
        assert gauges["sessions"] == gauges["contexts"] == 1
    after = await settled_gauges(service.url)
    assert after["contexts"] == 0
