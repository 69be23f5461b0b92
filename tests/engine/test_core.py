import msgspec
import pytest

from models.tokenizer import PhonemeTokenizer
from realtime.engine.codec_stage import CodecInline, CodecStage
from realtime.engine.core import EngineCore, EngineParts
from realtime.engine.voice import SpokenVoice, speech_layout
from realtime.messages import (
    AppendSegment,
    CancelRequest,
    CapacityReport,
    EndText,
    Failed,
    Finished,
    OutputChunk,
    SamplingParams,
    SegmentSpoken,
    Shutdown,
    StartRequest,
)
from tests.engine.helpers import LIMITS as SMALL_LIMITS
from tests.engine.helpers import make_scheduler
from tests.engine.voice import VOICE, codec_decoder
from tests.fakes.clock import FakeClock
from tests.fakes.runner import ScriptedRunner

LIMITS = msgspec.structs.replace(SMALL_LIMITS, num_blocks=256)


class ListLink:
    """Both directions as lists; waiting moves the clock."""

    def __init__(self, clock):
        self.clock = clock
        self.inbox = []
        self.sent = []

    def send(self, messages):
        self.sent.extend(messages)

    def receive(self, timeout_s):
        messages, self.inbox = self.inbox, []
        if not messages:
            self.clock.advance(timeout_s)
        return messages


class Rig:
    def __init__(self, runner=None):
        self.clock = FakeClock()
        self.link = ListLink(self.clock)
        layout = speech_layout(VOICE)
        stage = CodecStage(codec_decoder(), LIMITS.max_streams, self.clock)
        parts = EngineParts(
            link=self.link,
            scheduler=make_scheduler(LIMITS, layout, self.clock),
            runner=runner or ScriptedRunner(layout, LIMITS.block_size),
            sink=CodecInline(stage, self.link.send),
            voice=SpokenVoice(VOICE, PhonemeTokenizer(VOICE.symbols)),
            clock=self.clock,
            codec_s=lambda: stage.decode_s,
            resident_bytes=lambda: 123,
        )
        self.core = EngineCore(parts)

    def tell(self, *messages):
        self.link.inbox.extend(messages)

    def say(self, request_id, *texts, speaker=0, ends=True):
        self.tell(start(request_id, speaker))
        for index, text in enumerate(texts):
            self.tell(AppendSegment(request_id=request_id, index=index, phonemes=text))
        if ends:
            self.tell(EndText(request_id=request_id))

    def run(self, max_steps=5000):
        for _ in range(max_steps):
            if not self.core.step() and not self.link.inbox:
                return
        raise AssertionError("does not come to rest")

    def of(self, request_id):
        return [m for m in self.link.sent if getattr(m, "request_id", None) == request_id]


def start(request_id, speaker=0):
    return StartRequest(
        request_id=request_id, speaker=speaker, sampling=SamplingParams(seed=request_id)
    )


@pytest.fixture
def rig():
    return Rig()


def test_request_is_answered_by_gapless_chunks_marks_and_finished(rig):
    rig.say(1, "hɛlO", "wɜɹld.")
    rig.run()
    messages = rig.of(1)
    position = 0
    for message in messages:
        if isinstance(message, OutputChunk):
            assert message.first_frame == position
            assert len(message.pcm) == message.num_frames * VOICE.codec.samples_per_frame * 2
            position += message.num_frames
    marks = [m for m in messages if isinstance(m, SegmentSpoken)]
    assert [m.index for m in marks] == [0, 1]
    assert marks[-1].end_frame == position
    assert isinstance(messages[-1], Finished)
    assert messages[-1].num_frames == position


def test_unknown_symbol_fails_that_request_only(rig):
    rig.say(1, "hɛlO")
    rig.say(2, "ok", "Ω", "ok")
    rig.run()
    assert isinstance(rig.of(1)[-1], Finished)
    (failed,) = [m for m in rig.of(2) if isinstance(m, Failed)]
    assert failed.code == "unspeakable_text"
    assert "U+03A9" in failed.message
    assert rig.of(2)[-1] is failed


def test_unknown_voice_fails_that_request_once(rig):
    rig.say(1, "hɛlO", speaker=1)
    rig.say(2, "hɛlO")
    rig.run()
    (failed,) = rig.of(1)
    assert failed.code == "unknown_voice"
    assert isinstance(rig.of(2)[-1], Finished)


def test_empty_segment_fails_that_request(rig):
    rig.say(1, "")
    rig.run()
    assert rig.of(1)[-1].code == "unspeakable_text"


def test_cancelled_request_is_silent_after_its_finished():
    rig = Rig()
    rig.say(1, "hɛlO wɜɹld " * 5)
    for _ in range(30):
        rig.core.step()
    rig.tell(CancelRequest(request_id=1))
    rig.core.step()
    assert rig.core.scheduler.num_running == 0
    assert isinstance(rig.of(1)[-1], Finished)
    assert rig.of(1)[-1].reason == "cancelled"
    sent = len(rig.of(1))
    rig.run()
    assert len(rig.of(1)) == sent


def test_capacity_is_reported_twice_a_second_also_when_idle(rig):
    for _ in range(8):
        rig.core.step(is_idle=True)
    reports = [m for m in rig.link.sent if isinstance(m, CapacityReport)]
    assert [report.at - 1000.0 for report in reports] == [0.5 * i for i in range(8)]
    assert reports[0].resident_bytes == 123
    assert reports[0].num_running == reports[0].step_s == 0


def test_report_counts_running_waiting_and_tokens(rig):
    for request_id in range(LIMITS.max_streams + 2):
        rig.say(request_id, "hɛlO wɜɹld " * 3)
    for _ in range(8):
        rig.core.step()
    rig.clock.advance(0.6)
    rig.core.step()
    report = [m for m in rig.link.sent if isinstance(m, CapacityReport)][-1]
    assert (report.num_running, report.num_waiting) == (4, 2)
    assert report.num_steps_total == 8
    assert report.num_tokens_total > 4 * 5
    assert report.free_blocks < report.num_blocks


def test_failing_step_is_not_swallowed():
    class Broken:
        def run(self, plan):
            raise RuntimeError("device lost")

    rig = Rig(Broken())
    rig.say(1, "hɛlO")
    with pytest.raises(RuntimeError, match="device lost"):
        rig.core.step()


def test_running_pass_is_visible_to_the_watchdog():
    class Watched(ScriptedRunner):
        def run(self, plan):
            seen.append(rig.core.busy_since)
            return super().run(plan)

    seen = []
    rig = Rig(Watched(speech_layout(VOICE), LIMITS.block_size))
    rig.say(1, "hɛlO")
    rig.core.step()
    assert seen == [1000.0]
    assert rig.core.busy_since is None


def test_draining_refuses_new_requests_and_finishes_old_ones(rig):
    rig.say(1, "hɛlO")
    rig.core.step()
    rig.core.drain()
    assert not rig.core.is_drained
    rig.say(2, "hɛlO")
    rig.run()
    assert rig.of(2)[0].code == "shutting_down"
    assert isinstance(rig.of(1)[-1], Finished)
    assert rig.core.is_drained


def test_shutdown_stops(rig):
    rig.tell(Shutdown())
    rig.core.step()
    assert rig.core.is_stopping


class Timed(ScriptedRunner):
    """A forward pass takes 10 ms; whatever is in `during` arrives in the middle of the next one."""

    def __init__(self, rig_of):
        super().__init__(speech_layout(VOICE), LIMITS.block_size)
        self.rig_of = rig_of
        self.during = []

    def run(self, plan):
        rig = self.rig_of()
        rig.clock.advance(0.005)
        for make in self.during:
            rig.tell(make(rig.clock.now()))
        self.during = []
        rig.clock.advance(0.005)
        return super().run(plan)


@pytest.mark.parametrize("is_during_a_step", [True, False])
def test_cancel_leaves_at_most_the_step_that_runs_when_it_is_sent(is_during_a_step):
    runner = Timed(lambda: rig)
    rig = Rig(runner)
    rig.say(1, "hɛlO wɜɹld " * 3)
    for _ in range(10):
        rig.core.step()
    if is_during_a_step:
        runner.during = [lambda now: CancelRequest(request_id=1, sent_at=now)]
        rig.core.step()
    else:
        rig.tell(CancelRequest(request_id=1, sent_at=rig.clock.now()))
    rig.core.step()
    finished = rig.of(1)[-1]
    assert finished.reason == "cancelled"
    assert finished.num_orphaned_steps == finished.num_orphaned_tokens == int(is_during_a_step)
    assert rig.core.scheduler.num_free_blocks == LIMITS.num_blocks


def test_report_tells_the_time_of_each_kind_of_pass():
    rig = Rig(Timed(lambda: rig))
    rig.say(1, "hɛlO")
    for _ in range(4):
        rig.core.step()
    rig.say(2, "hɛlO")
    rig.core.step()
    rig.clock.advance(0.6)
    rig.core.step()
    report = [m for m in rig.link.sent if isinstance(m, CapacityReport)][-1]
    assert report.phase_s_total == pytest.approx(
        {"prefill": 0.01, "decode": 0.03, "mixed": 0.01, "host": 0.0}
    )
    assert set(report.num_mended_total) == {"repetition", "silence", "overlong"}
    assert set(report.num_refused_total) == {"queue_full", "no_place", "waited_in_vain"}
