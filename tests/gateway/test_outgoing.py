import anyio
import pytest

from realtime import wire
from realtime.gateway.commands import Send
from realtime.gateway.outgoing import MAX_ANSWERS, OutgoingQueue

pytestmark = pytest.mark.anyio


async def test_nothing_more_is_read_while_many_answers_wait():
    outgoing = OutgoingQueue()
    for _ in range(MAX_ANSWERS):
        outgoing.put(Send(wire.Pong()))
    with anyio.move_on_after(0.02) as blocked:
        await outgoing.has_room()
    assert blocked.cancelled_caught
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(outgoing.has_room)
        await outgoing.get()
    assert len(outgoing) == MAX_ANSWERS - 1


async def test_waiting_audio_does_not_keep_a_cancel_from_being_read():
    outgoing = OutgoingQueue()
    for _ in range(2 * MAX_ANSWERS):
        outgoing.put(Send(wire.AudioFrame(1, 0, b"")))
    with anyio.fail_after(1):
        await outgoing.has_room()


async def test_reading_lets_other_tasks_run():
    turns = []

    async def other():
        turns.append("other")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        await OutgoingQueue().has_room()
        assert turns == ["other"]
