"""Speaking over a real socket."""

import httpx
import msgspec
import pytest

from realtime import wire
from tests.fakes.engine import SAMPLES_PER_FRAME
from tests.gateway.harness import calling, running_gateway, until_true

pytestmark = [pytest.mark.anyio, pytest.mark.e2e]


async def test_text_comes_back_as_audio_sentences_and_metrics():
    async with running_gateway() as running, calling(running) as caller:
        done = await caller.speak("a", "One. Two.")
        audio = [m for m in caller.received if isinstance(m, wire.AudioFrame)]
        sentences = [m for m in caller.received if isinstance(m, wire.Sentence)]
        assert done.reason == "end_of_speech"
        assert done.samples == 8 * SAMPLES_PER_FRAME
        assert done.char == len("One. Two.")
        assert [frame.sample_offset for frame in audio] == [i * SAMPLES_PER_FRAME for i in range(9)]
        assert [frame.is_last for frame in audio] == [False] * 8 + [True]
        assert [(s.start_char, s.end_char, s.start_sample, s.end_sample) for s in sentences] == [
            (0, 4, 0, 4 * SAMPLES_PER_FRAME),
            (4, 9, 4 * SAMPLES_PER_FRAME, 8 * SAMPLES_PER_FRAME),
        ]
        metrics = done.metrics
        assert metrics.tokens == 56
        assert metrics.audio_s == pytest.approx(8 * SAMPLES_PER_FRAME / 24_000, abs=1e-6)
        for value in (metrics.text_wait_s, metrics.queue_s, metrics.ttft_s, metrics.ttfb_s):
            assert value is not None
            assert value >= 0
        assert metrics.ttfb_s <= metrics.first_sentence_s <= metrics.total_s
        assert metrics.audible_s >= metrics.ttfb_s
        assert metrics.slot_free_s is None
    assert running.gateway.num_sessions == 0


async def test_contexts_of_one_session_speak_at_once():
    async with running_gateway(frame_s=0.01) as running, calling(running) as caller:
        for name in "abc":
            await caller.send(wire.Text(context=name, text="One."), wire.End(context=name))
        for _ in range(3):
            await caller.until(wire.Done)
        opened = {m.number: m.context for m in caller.received if isinstance(m, wire.Opened)}
        assert opened == {1: "a", 2: "b", 3: "c"}
        numbers = [m.number for m in caller.received if isinstance(m, wire.AudioFrame)]
        assert sorted(numbers) == [1] * 5 + [2] * 5 + [3] * 5
        assert numbers[:3] != [1, 1, 1]


async def test_cancel_is_acknowledged_and_no_audio_follows():
    options = {"frames_per_segment": 10_000, "frame_s": 0.005}
    async with running_gateway(**options) as running, calling(running) as caller:
        await caller.send(wire.Text(context="a", text="Long."))
        for _ in range(4):
            await caller.until(wire.AudioFrame)
        await caller.send(wire.Cancel(context="a"))
        cancelled = await caller.until(wire.Cancelled)
        num_before = len(caller.received)
        done = await caller.until(wire.Done)
        after = caller.received[num_before:]
        assert not any(isinstance(m, wire.AudioFrame | wire.Tokens | wire.Sentence) for m in after)
        sent = sum(len(m.pcm) // 2 for m in caller.received if isinstance(m, wire.AudioFrame))
        assert cancelled.samples == done.samples == sent
        assert 0 < done.char <= len("Long.")
        assert done.reason == "cancelled"
        assert done.metrics.slot_free_s is not None
        assert running.fake.num_running == 0
        running.fake.frames_per_segment = 4
        assert (await caller.speak("a", "Again.")).context == "a"


async def test_client_may_have_tokens_instead_of_audio():
    hello = wire.Hello(outputs=("tokens",))
    async with running_gateway() as running, calling(running, hello) as caller:
        done = await caller.speak("a", "One.")
        tokens = [m for m in caller.received if isinstance(m, wire.Tokens)]
        assert [m.first_frame for m in tokens] == [0, 1, 2, 3]
        assert all(m.codes == tuple(range(7)) for m in tokens)
        assert not any(isinstance(m, wire.AudioFrame) for m in caller.received)
        assert done.samples == 4 * SAMPLES_PER_FRAME


async def test_vanished_client_leaves_no_request_behind():
    async with running_gateway(frames_per_segment=10_000, frame_s=0.005) as running:
        for _ in range(20):
            async with calling(running) as caller:
                await caller.send(wire.Text(context="a", text="Long."))
                await caller.until(wire.AudioFrame)
                caller.socket.transport.abort()
        await until_true(lambda: running.gateway.num_sessions == 0)
        await until_true(lambda: running.engine.client.num_requests == 0)
        assert running.fake.num_started == running.fake.num_cancelled == 20
        assert not running.fake.requests
        exposition, _ = running.metrics.render()
        assert b"speech_engine_cancel_seconds_count 20.0" in exposition
        assert b"speech_engine_orphaned_steps_count 20.0" in exposition


async def test_voices_are_listed_and_a_missing_sample_is_not_found():
    async with running_gateway() as running, httpx.AsyncClient() as http:
        base = f"http://127.0.0.1:{running.port}"
        listed = (await http.get(f"{base}/v1/voices")).json()
        assert [voice["id"] for voice in listed["voices"]] == ["default", "other"]
        assert listed["voices"][0]["licence"] == "Apache-2.0"
        missing = await http.get(f"{base}/v1/voices/default/sample")
        assert (missing.status_code, missing.json()["code"]) == (404, "unknown_voice")
        running.engine.client = None
        starting = await http.get(f"{base}/v1/voices")
        assert (starting.status_code, starting.json()["code"]) == (503, "engine_not_ready")


async def test_a_sample_is_sent_as_it_lies_there(tmp_path):
    sample = tmp_path / "ada.wav"
    sample.write_bytes(b"RIFF0000")
    async with running_gateway() as running, httpx.AsyncClient() as http:
        ready = running.engine.client.ready
        voice = msgspec.structs.replace(ready.voices[0], sample=str(sample))
        running.engine.client.ready = msgspec.structs.replace(ready, voices=(voice,))
        url = f"http://127.0.0.1:{running.port}/v1/voices/default/sample"
        assert (await http.get(url)).content == b"RIFF0000"
