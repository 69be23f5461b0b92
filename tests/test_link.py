"""The link between gateway and engine, over a real socketpair."""

import socket
import struct
import threading

import anyio
import anyio.to_thread
import pytest

from realtime.link import MAX_FRAME_BYTES, AsyncLink, LinkClosedError, ThreadLink
from realtime.messages import (
    AppendSegment,
    CancelRequest,
    EndText,
    OutputChunk,
    SegmentSpoken,
    Shutdown,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def _pair(**options) -> tuple[AsyncLink, ThreadLink]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    return await AsyncLink.from_socket(ours), ThreadLink(theirs, **options)


async def _close(gateway: AsyncLink, engine: ThreadLink) -> None:
    await gateway.aclose()
    await anyio.to_thread.run_sync(engine.close)


async def test_messages_arrive_in_order_in_both_directions():
    gateway, engine = await _pair()
    to_engine = [
        AppendSegment(request_id=1, index=i, phonemes="phonemes" * 100) for i in range(200)
    ] + [EndText(request_id=1), CancelRequest(request_id=1), Shutdown()]
    received = []
    for message in to_engine:
        await gateway.send(message)
    while len(received) < len(to_engine):
        received += await anyio.to_thread.run_sync(engine.receive, 1.0)
    assert received == to_engine
    from_engine = [
        OutputChunk(request_id=1, first_frame=i, num_frames=1, pcm=bytes(4096)) for i in range(50)
    ]
    await anyio.to_thread.run_sync(engine.send, from_engine)
    assert [await gateway.receive() for _ in from_engine] == from_engine
    await _close(gateway, engine)


async def test_full_gateway_makes_the_engine_wait_and_nothing_is_lost():
    gateway, engine = await _pair(capacity=4)
    chunks = [
        OutputChunk(request_id=1, first_frame=i, num_frames=1, pcm=bytes(65536)) for i in range(100)
    ]
    sender = threading.Thread(target=engine.send, args=(chunks,))
    sender.start()
    received = [await gateway.receive() for _ in chunks]
    sender.join()
    assert [chunk.first_frame for chunk in received] == list(range(100))
    await _close(gateway, engine)


async def test_engine_hears_at_once_that_the_gateway_is_gone():
    is_closed = threading.Event()
    gateway, engine = await _pair(on_closed=is_closed.set)
    await gateway.send(EndText(request_id=1))
    await gateway.aclose()
    assert await anyio.to_thread.run_sync(is_closed.wait, 5.0)
    assert engine.receive(1.0) == [EndText(request_id=1)]
    for _ in range(2):
        with pytest.raises(LinkClosedError):
            engine.receive(1.0)
    with pytest.raises(LinkClosedError):
        engine.send([SegmentSpoken(request_id=1, index=0, end_frame=1)])
    engine.close()


async def test_gateway_gets_what_was_sent_before_the_engine_died():
    gateway, engine = await _pair()
    last = SegmentSpoken(request_id=1, index=0, end_frame=1)
    engine.send([last])
    await anyio.to_thread.run_sync(engine.close)
    assert await gateway.receive() == last
    with pytest.raises(LinkClosedError):
        await gateway.receive()
    with pytest.raises(LinkClosedError):
        await _send_many(gateway)
    await gateway.aclose()


@pytest.mark.parametrize(
    "data", [struct.pack("<I", MAX_FRAME_BYTES + 1), b"\x03\0\0\0\xff\xff\xff"]
)
async def test_garbage_on_the_link_counts_as_its_end(data):
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    gateway = await AsyncLink.from_socket(ours)
    theirs.sendall(data)
    with pytest.raises(LinkClosedError):
        await gateway.receive()
    theirs.close()
    await gateway.aclose()


async def test_message_over_the_limit_is_a_fault_of_the_sender():
    gateway, engine = await _pair()
    with pytest.raises(ValueError, match="the link takes"):
        await gateway.send(AppendSegment(request_id=1, index=0, phonemes="x" * MAX_FRAME_BYTES))
    await _close(gateway, engine)


async def _send_many(gateway: AsyncLink) -> None:
    for _ in range(100):  # the kernel may take the first ones
        await gateway.send(EndText(request_id=1))
