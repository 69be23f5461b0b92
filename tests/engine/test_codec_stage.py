import threading

import msgspec
import numpy as np
import pytest
import torch

from realtime.engine.codec_stage import CodecInline, CodecStage, CodecThread
from realtime.engine.plan import NewFrame
from realtime.messages import EngineTimings, Failed, Finished, OutputChunk, SegmentSpoken
from tests.engine.voice import NUM_CODES, codec_decoder
from tests.fakes.clock import FakeClock


@pytest.fixture(scope="module")
def decoder():
    return codec_decoder()


def codes_of(request_id, count):
    generator = torch.Generator().manual_seed(request_id)
    return torch.randint(0, NUM_CODES, (count, 7), generator=generator)


def frame(request_id, index, *, slot=None, needed_at=0.0, audio=True, tokens=False, count=40):
    codes = tuple(codes_of(request_id, count)[index].tolist())
    return NewFrame(
        request_id, request_id if slot is None else slot, index, codes, needed_at, audio, tokens
    )


def finished(request_id, reason="end_of_speech", num_frames=0):
    return Finished(
        request_id=request_id,
        reason=reason,
        num_tokens=7 * num_frames,
        num_frames=num_frames,
        timings=EngineTimings(freed_at=0.0),
    )


def pcm_of(messages, request_id):
    chunks = [m for m in messages if isinstance(m, OutputChunk) and m.request_id == request_id]
    position = 0
    for chunk in chunks:
        assert chunk.first_frame == position
        assert len(chunk.pcm) == chunk.num_frames * 4096
        position += chunk.num_frames
    return np.frombuffer(b"".join(chunk.pcm for chunk in chunks), np.int16).astype(int)


def one_shot(decoder, request_id, count):
    with torch.inference_mode():
        samples = decoder.decode(codes_of(request_id, 40)[None, :count])[0]
    return (samples * 32767).round().to(torch.int16).numpy().astype(int)


def assert_close(left, right):
    """Within one step of int16: batched convolutions may sum in another order."""
    assert left.shape == right.shape
    assert np.abs(left - right).max() <= 1


def test_streams_through_slots_equal_one_shot_decoding(decoder):
    stage = CodecStage(decoder, 4, FakeClock())
    generator = torch.Generator().manual_seed(5)
    done = dict.fromkeys(range(4), 0)
    messages = []
    while min(done.values()) < 12:
        outputs = []
        for request_id, start in done.items():
            count = int(torch.randint(0, 4, (), generator=generator))
            outputs += [frame(request_id, start + i) for i in range(count)]
            done[request_id] += count
        messages += stage.decode(outputs)
    for request_id, count in done.items():
        audio = pcm_of(messages, request_id)
        assert np.abs(audio).max() > 50
        assert_close(audio, one_shot(decoder, request_id, count))


def test_reused_slot_does_not_speak_with_its_predecessors_voice(decoder):
    stage = CodecStage(decoder, 2, FakeClock())
    messages = stage.decode([frame(1, i, slot=0) for i in range(3)])
    messages += stage.decode([finished(1), *(frame(2, i, slot=0) for i in range(4))])
    assert_close(pcm_of(messages, 2), one_shot(decoder, 2, 4))


def test_slot_may_change_hands_within_one_batch(decoder):
    stage = CodecStage(decoder, 2, FakeClock())
    outputs = [frame(1, i, slot=0) for i in range(3)]
    outputs += [frame(9, 0, slot=1), finished(1)]
    outputs += [frame(2, i, slot=0) for i in range(2)]
    messages = stage.decode(outputs)
    for request_id, count in ((1, 3), (2, 2), (9, 1)):
        assert_close(pcm_of(messages, request_id), one_shot(decoder, request_id, count))


def test_frames_that_continue_an_unknown_stream_are_refused(decoder):
    stage = CodecStage(decoder, 2, FakeClock())
    with pytest.raises(AssertionError, match="codec state"):
        stage.decode([frame(1, 3, slot=0)])


def test_order_within_a_request_is_kept(decoder):
    stage = CodecStage(decoder, 2, FakeClock())
    spoken = SegmentSpoken(request_id=1, index=0, end_frame=2)
    outputs = [frame(1, 0), frame(0, 0), frame(1, 1), spoken, frame(1, 2), finished(1)]
    messages = [m for m in stage.decode(outputs) if m.request_id == 1]
    assert [type(m) for m in messages] == [OutputChunk, SegmentSpoken, OutputChunk, Finished]
    assert [m.num_frames for m in messages if isinstance(m, OutputChunk)] == [2, 1]
    assert messages[-1].num_frames == 3


def test_audio_and_tokens_are_sent_as_wished(decoder):
    stage = CodecStage(decoder, 3, FakeClock())
    outputs = [
        frame(0, 0, audio=True, tokens=False),
        frame(1, 0, audio=False, tokens=True),
        frame(2, 0, audio=True, tokens=True),
    ]
    audio, tokens, both = stage.decode(outputs)
    assert (len(audio.pcm), audio.codes) == (4096, ())
    assert (tokens.pcm, tokens.codes) == (b"", outputs[1].codes)
    assert (len(both.pcm), both.codes) == (4096, outputs[2].codes)


@pytest.mark.parametrize(
    "last", [finished(1, "cancelled", num_frames=2), Failed(request_id=1, code="x", message="")]
)
def test_frames_of_an_abandoned_request_are_dropped(decoder, last):
    stage = CodecStage(decoder, 2, FakeClock())
    first = stage.decode([frame(1, 0)])
    assert len(first) == 1
    messages = stage.decode([frame(1, 1), frame(0, 0), last])
    assert [m.request_id for m in messages] == [0, 1]
    if isinstance(last, Finished):
        assert messages[-1] == msgspec.structs.replace(last, num_frames=1)


def test_thread_emits_what_inline_emits(decoder):
    outputs = [[frame(r, i) for r in range(3)] for i in range(6)] + [
        [finished(r) for r in range(3)]
    ]
    threaded, inline = [], []
    errors = []
    thread = CodecThread(
        CodecStage(decoder, 3, FakeClock()),
        threaded.extend,
        clock=FakeClock(),
        on_error=errors.append,
    )
    sink = CodecInline(CodecStage(decoder, 3, FakeClock()), inline.extend)
    for part in outputs:
        thread.submit(part)
        sink.submit(part)
    thread.close()
    sink.close()
    assert not errors
    for request_id in range(3):
        assert_close(pcm_of(threaded, request_id), pcm_of(inline, request_id))
        assert isinstance([m for m in threaded if m.request_id == request_id][-1], Finished)


def test_thread_batches_what_piled_up_and_reports_its_error(decoder):
    entered, release, batches, errors = threading.Event(), threading.Event(), [], []

    def emit(messages):
        entered.set()
        release.wait(10)
        batches.append(messages)
        if len(batches) == 2:
            raise RuntimeError("emit failed")

    thread = CodecThread(
        CodecStage(decoder, 3, FakeClock()), emit, clock=FakeClock(), on_error=errors.append
    )
    thread.submit([frame(0, 0)])
    assert entered.wait(10)
    for i in range(1, 5):
        thread.submit([frame(0, i)])
    release.set()
    thread.close()
    assert sum(m.num_frames for batch in batches for m in batch) == 5
    assert len(batches) == 2
    assert [str(error) for error in errors] == ["emit failed"]


class SpyStage:
    """Takes any outputs; tells when it was given some."""

    def __init__(self):
        self.calls = []
        self.called = threading.Event()

    def decode(self, outputs):
        self.calls.append(len(outputs))
        self.called.set()
        return []


@pytest.fixture
def spy():
    stage = SpyStage()
    thread = CodecThread(stage, lambda _: None, clock=FakeClock(), on_error=pytest.fail)
    yield stage, thread
    thread.close()


def test_frames_that_nobody_needs_yet_wait_for_company(spy):
    stage, thread = spy
    for i in range(3):
        thread.submit([frame(0, i, needed_at=1000.0 + 60.0)])
    assert not stage.called.wait(0.2)
    thread.submit([frame(1, 0, needed_at=1000.0)])
    assert stage.called.wait(10)
    assert stage.calls == [4]


def test_waiting_frames_go_with_a_mark_and_with_a_full_batch(spy):
    stage, thread = spy
    thread.submit([frame(0, 0, needed_at=1060.0)])
    thread.submit([SegmentSpoken(request_id=0, index=0, end_frame=1)])
    assert stage.called.wait(10)
    assert stage.calls == [2]
    stage.called.clear()
    thread.submit([frame(0, i, needed_at=1060.0) for i in range(1, 17)])
    assert stage.called.wait(10)
    assert stage.calls == [2, 16]


def test_waiting_frames_are_emitted_at_the_end(decoder):
    messages = []
    thread = CodecThread(
        CodecStage(decoder, 1, FakeClock()),
        messages.extend,
        clock=FakeClock(),
        on_error=pytest.fail,
    )
    thread.submit([frame(0, 0, needed_at=1060.0)])
    thread.close()
    assert [m.num_frames for m in messages] == [1]
