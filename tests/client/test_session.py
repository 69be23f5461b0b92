"""The client against a fake service over real sockets on this machine."""

import anyio
import numpy as np
import pytest

from realtime import wire
from realtime.client import (
    AudioChunk,
    Buffering,
    ConnectionLostError,
    ServiceUnreachableError,
    SlowConsumerError,
    connect,
    stream_url,
)
from realtime.errors import (
    CapacityError,
    EngineLostError,
    OutOfOrderError,
    RequestError,
    UnauthorizedError,
)
from tests.client.fake_server import FRAME_SAMPLES, fake_server, ramp

pytestmark = pytest.mark.anyio
ONE_FRAME = Buffering(max_buffered_bytes=2 * FRAME_SAMPLES, stall_timeout_s=0.2)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def _pieces(*pieces: str):
    for piece in pieces:
        yield piece


async def _pcm(utterance) -> bytes:
    return b"".join([e.pcm async for e in utterance if isinstance(e, AudioChunk)])


async def test_speak_yields_all_audio_in_order() -> None:
    async with fake_server() as server, connect(server.url) as session:
        chunks = [chunk async for chunk in session.speak("Hello")]
    assert b"".join(chunk.pcm for chunk in chunks) == ramp(0, 5 * FRAME_SAMPLES)
    offsets = [chunk.sample_offset for chunk in chunks]
    assert offsets == [n * FRAME_SAMPLES for n in range(6)]
    assert chunks[-1].is_last
    assert chunks[0].samples.dtype == np.int16
    assert chunks[0].duration_s == pytest.approx(FRAME_SAMPLES / 24_000)


async def test_pieces_reach_the_service_verbatim_and_in_order() -> None:
    async with fake_server() as server, connect(server.url) as session:
        async for _ in session.speak(_pieces("Hel", "lo, wo", "rld.")):
            pass
    assert server.texts() == ["Hel", "lo, wo", "rld."]
    assert isinstance(server.received[-1], wire.End)


async def test_audio_arrives_while_text_is_still_missing() -> None:
    async with (
        fake_server() as server,
        connect(server.url) as session,
        session.utterance() as utterance,
    ):
        await utterance.append("Hi")
        events = [await anext(utterance) for _ in range(3)]
        assert [type(e) for e in events] == [wire.Opened, AudioChunk, AudioChunk]
        await utterance.append("!")
        await utterance.end()
        rest = [event async for event in utterance]
    assert isinstance(rest[-1], wire.Done)
    assert utterance.done is rest[-1]
    assert utterance.done.samples == 3 * FRAME_SAMPLES


async def test_several_utterances_at_once_keep_apart() -> None:
    results: dict[int, bytes] = {}

    async def speak(session, length: int) -> None:
        async with session.utterance() as utterance:
            utterance.feed("x" * length)
            results[length] = await _pcm(utterance)

    async with (
        fake_server() as server,
        connect(server.url) as session,
        anyio.create_task_group() as tasks,
    ):
        for length in (1, 5, 9):
            tasks.start_soon(speak, session, length)
    assert results == {n: ramp(0, n * FRAME_SAMPLES) for n in (1, 5, 9)}


async def test_first_piece_carries_voice_and_sampling_and_only_the_first() -> None:
    sampling = wire.Sampling(seed=7, temperature=0.5)
    async with (
        fake_server() as server,
        connect(server.url, sampling=sampling) as session,
        session.utterance(voice="other", sampling=wire.Sampling(seed=8)) as utterance,
    ):
        await utterance.append("a")
        await utterance.append("b")
        await utterance.end()
        await _pcm(utterance)
    hello, first, second, _ = server.received
    assert isinstance(hello, wire.Hello)
    assert hello.sampling == sampling
    assert first == wire.Text(context="u1", text="a", voice="other", sampling=wire.Sampling(seed=8))
    assert second == wire.Text(context="u1", text="b")


async def test_a_text_larger_than_a_message_is_split() -> None:
    text = "\N{GRINNING FACE}" * 20_000 + "!error text_too_long"
    async with (
        fake_server() as server,
        connect(server.url) as session,
        session.utterance() as utterance,
    ):
        utterance.feed(text)
        with pytest.raises(RequestError, match="as asked"):
            await _pcm(utterance)
    assert "".join(server.texts()) == text
    assert max(len(wire.encode_message(m).encode()) for m in server.received) <= 65536


async def test_cancel_stops_audio_and_frees_the_context() -> None:
    async with fake_server() as server, connect(server.url) as session:
        async with session.utterance() as utterance:
            await utterance.append("!endless")
            assert isinstance(await anext(utterance), wire.Opened)
            assert isinstance(await anext(utterance), AudioChunk)
            acknowledged = await utterance.cancel()
            rest = [event async for event in utterance]
        assert acknowledged is not None
        assert [type(event) for event in rest] == [wire.Cancelled, wire.Done]
        assert rest[-1].reason == "cancelled"
        assert acknowledged.samples == rest[-1].samples
        with pytest.raises(OutOfOrderError):
            await utterance.append("more")
        assert server.num_open_contexts == 0


async def test_leaving_early_cancels() -> None:
    async with fake_server() as server, connect(server.url) as session:
        async with session.utterance() as utterance:
            utterance.feed("!endless")
            async for event in utterance:
                if isinstance(event, AudioChunk):
                    break
        assert server.num_open_contexts == 0
        assert isinstance(server.received[-1], wire.Cancel)


async def test_an_utterance_without_text_never_reaches_the_service() -> None:
    async with fake_server() as server, connect(server.url) as session:
        async with session.utterance() as utterance:
            await utterance.flush()
            assert await utterance.cancel() is None
            assert await _pcm(utterance) == b""
        await session.ping()
    assert [type(m) for m in server.received] == [wire.Hello, wire.Ping]


async def test_a_context_error_is_typed_and_spares_the_others() -> None:
    async with (
        fake_server() as server,
        connect(server.url) as session,
        session.utterance() as good,
        session.utterance() as bad,
    ):
        bad.feed("!error at_capacity")
        with pytest.raises(CapacityError, match="as asked") as raised:
            await _pcm(bad)
        assert raised.value.retry_after_s == 1.5
        good.feed("fine")
        assert len(await _pcm(good)) == 2 * 4 * FRAME_SAMPLES


async def test_an_unknown_error_code_keeps_its_name() -> None:
    async with fake_server() as server, connect(server.url) as session:
        with pytest.raises(Exception, match="out_of_cheese: as asked"):
            await anext(session.speak("!error out_of_cheese"))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("!drop", ConnectionLostError),
        ("!refuse", EngineLostError),
        ("!garbage", ServiceUnreachableError),
    ],
)
async def test_a_lost_connection_fails_every_open_utterance(text: str, kind: type) -> None:
    async with fake_server() as server, connect(server.url) as session:
        async with session.utterance() as other, session.utterance() as culprit:
            await other.append("a")
            await anext(other)
            culprit.feed(text)
            for utterance in (culprit, other):
                with pytest.raises(kind):
                    await _pcm(utterance)
            with pytest.raises(kind):
                await other.append("more")
        with pytest.raises(kind):
            await session.ping()
        with pytest.raises(kind):
            await anext(session.speak("again"))


async def test_a_refused_hello_is_typed() -> None:
    refusal = wire.Error(code="unauthorized", message="who?", retryable=False)
    async with fake_server(refuse_hello=refusal) as server:
        with pytest.raises(UnauthorizedError, match=r"who\?"):
            async with connect(server.url):
                pytest.fail("connected")


async def test_no_service_is_a_typed_error() -> None:
    async with fake_server() as server:
        url = server.url
    with pytest.raises(ServiceUnreachableError, match="no service answers"):
        async with connect(url):
            pytest.fail("connected")


async def test_exceptions_of_the_block_arrive_unwrapped() -> None:
    async with fake_server() as server:
        with pytest.raises(ZeroDivisionError):
            async with connect(server.url):
                raise ZeroDivisionError


async def test_exceptions_of_the_callers_text_arrive_unwrapped_and_cancel() -> None:
    async def broken():
        yield "abc"
        raise ZeroDivisionError

    async with fake_server() as server, connect(server.url) as session:
        with pytest.raises(ZeroDivisionError):
            async for _ in session.speak(broken()):
                pass
        await session.ping()
        assert server.num_open_contexts == 0
        assert isinstance(server.received[-2], wire.Cancel)


async def test_a_full_buffer_holds_the_service_back_until_something_is_taken() -> None:
    patient = Buffering(max_buffered_bytes=2 * FRAME_SAMPLES, stall_timeout_s=60)
    async with (
        fake_server() as server,
        connect(server.url, buffering=patient) as session,
        session.utterance() as utterance,
    ):
        utterance.feed("x" * 50)
        await anyio.wait_all_tasks_blocked()
        assert await _pcm(utterance) == ramp(0, 50 * FRAME_SAMPLES)


async def test_a_stuck_consumer_loses_its_utterance_alone() -> None:
    async with (
        fake_server() as server,
        connect(server.url, buffering=ONE_FRAME) as session,
        session.utterance() as stuck,
        session.utterance() as good,
    ):
        stuck.feed("!endless")
        good.feed("good")
        assert await _pcm(good) == ramp(0, 4 * FRAME_SAMPLES)
        with pytest.raises(SlowConsumerError):
            await _pcm(stuck)


async def test_names_of_open_utterances_are_unique() -> None:
    async with fake_server() as server, connect(server.url) as session:
        async with session.utterance(name="a"):
            with pytest.raises(OutOfOrderError):
                session.utterance(name="a")
        async with session.utterance(name="a") as again:
            again.feed("x")
            assert len(await _pcm(again)) == 2 * FRAME_SAMPLES


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("localhost:8765", "ws://localhost:8765/v1/stream"),
        ("http://127.0.0.1:1/", "ws://127.0.0.1:1/v1/stream"),
        ("https://host", "wss://host/v1/stream"),
        ("ws://host/other", "ws://host/other"),
    ],
)
def test_addresses_are_taken_as_people_write_them(address: str, url: str) -> None:
    assert stream_url(address) == url


@pytest.mark.parametrize(
    "address", ["ftp://host", "ws://", "", "ws://[", "ws://host:99999", "host:port"]
)
def test_senseless_addresses_are_refused(address: str) -> None:
    with pytest.raises(ServiceUnreachableError):
        stream_url(address)
