"""Loops and endless pauses: found from the codes alone, mended once, then ended."""

import msgspec
import pytest

from realtime.engine.guards import MENDED_FRAMES, Fault, GuardLimits, SegmentGuard
from realtime.engine.plan import NewFrame, RequestOptions
from realtime.messages import SegmentSpoken
from tests.engine.helpers import LAYOUT as PLAIN_LAYOUT
from tests.engine.helpers import LIMITS as SMALL_LIMITS
from tests.engine.helpers import Driver, prompt, settings
from tests.fakes.runner import ScriptedRunner

LAYOUT = msgspec.structs.replace(PLAIN_LAYOUT, max_positions=1024, quiet_codes=frozenset({14, 15}))
LIMITS = msgspec.structs.replace(SMALL_LIMITS, num_blocks=4 * 128)
PAUSES = [(14, 9, 0, 3, 9, 2, 1), (15, 9, 1, 3, 9, 2, 1), (14, 8, 0, 2, 9, 3, 1)]
STARTS = 5  # frames before the fault
ENDS = 60  # frames of a request


def loop(period: int) -> list[tuple[int, ...]]:
    """Different frames of which none is a pause."""
    return [tuple((i + position) % 12 for position in range(7)) for i in range(period)]


def sounding(number: int) -> tuple[int, ...]:
    """A frame unlike those before it."""
    return (number % 14, number // 14 % 16, number // 224, *(number % 12 for _ in range(4)))


class FaultyVoice:
    """Speaks the given frames over and over from frame `STARTS` of a request on, until it is drawn
    with care; `returns` makes it go on with them after that.
    """

    def __init__(self, frames, *, returns=False):
        self.frames = frames
        self.returns = returns
        self.num_frames = {}
        self.mended = {}
        self.draws = []

    def __call__(self, request_id, draw):
        self.draws.append(draw)
        frame = self.num_frames.get(request_id, -1) + (not draw.position_in_frame)
        self.num_frames[request_id] = frame
        if draw.may_end and frame >= ENDS and not self.returns:
            return LAYOUT.end_of_speech_id
        is_careful = draw.settings.temperature > 0
        if is_careful:
            self.mended.setdefault(request_id, frame)
        is_over = request_id in self.mended and not self.returns
        if frame < STARTS or is_careful or is_over:
            return None
        code = self.frames[frame % len(self.frames)][draw.position_in_frame]
        return LAYOUT.audio_base_id + draw.position_in_frame * LAYOUT.codebook_size + code


def faulty(frames, *, returns=False, limits=LIMITS) -> Driver:
    voice = FaultyVoice(frames, returns=returns)
    driver = Driver(limits, LAYOUT, ScriptedRunner(LAYOUT, limits.block_size, script=voice))
    driver.voice = voice
    return driver


def say(driver, request_id, *, segments=1, ends=True):
    sampling = settings(request_id, temperature=0.0)
    driver.scheduler.start(request_id, RequestOptions(sampling=sampling))
    for index in range(segments):
        driver.scheduler.append(request_id, index, prompt(60, salt=index), 60)
    if ends:
        driver.scheduler.end_text(request_id)


FAULTS = [
    pytest.param(loop(1), Fault.REPETITION, id="same frame"),
    pytest.param(loop(3), Fault.REPETITION, id="period 3"),
    pytest.param(loop(8), Fault.REPETITION, id="period 8"),
    pytest.param(PAUSES, Fault.SILENCE, id="pause of varying frames"),
    pytest.param(PAUSES[:1], Fault.SILENCE, id="pause of one frame"),
]


@pytest.mark.parametrize(("frames", "fault"), FAULTS)
def test_fault_is_found_where_it_began(frames, fault):
    guard = SegmentGuard(GuardLimits(), LAYOUT)
    for number in range(STARTS):
        assert guard.add(sounding(number)) is None
    for number in range(100):
        finding = guard.add(frames[number % len(frames)])
        if finding is not None:
            break
    assert finding is not None
    first = 0 if fault is Fault.SILENCE else len(frames)  # one period is good speech
    assert (finding.fault, finding.num_frames) == (fault, number + 1 - first)
    periods = (number + 1) / len(frames)
    assert fault is Fault.SILENCE or (periods >= 3 and number + 1 >= 14)
    for position, codes in enumerate(finding.barred_codes):
        if fault is Fault.REPETITION:
            assert set(codes) == {frame[position] for frame in frames}
        else:
            assert set(codes) == (set() if position else LAYOUT.quiet_codes)


def test_what_differs_now_and_then_is_no_fault():
    guard = SegmentGuard(GuardLimits(), LAYOUT)
    for number in range(2000):
        loops = loop(3) * 4 + [sounding(number)]
        pauses = PAUSES * 5 + [sounding(number)]
        for frame in (*loops, *pauses):
            assert guard.add(frame) is None


def test_voice_without_known_quiet_codes_has_no_silence():
    guard = SegmentGuard(GuardLimits(), PLAIN_LAYOUT)
    findings = [guard.add(PAUSES[0]) for _ in range(200)]
    assert {found.fault for found in findings if found is not None} == {Fault.REPETITION}


@pytest.mark.parametrize(("frames", "fault"), FAULTS)
def test_mended_stream_goes_on_from_the_last_good_frame(frames, fault):
    driver = faulty(frames)
    say(driver, 1)
    driver.run()
    assert driver.finished(1).reason == "end_of_speech"
    codes = driver.codes(1)
    assert len(codes) == ENDS
    assert driver.scheduler.num_mended[fault] == 1
    assert not any(driver.scheduler.num_given_up.values())
    first = driver.voice.mended[1]  # frame
    plan = next(p for p in driver.runner.plans if p.slices[0].draw.settings.temperature > 0)
    num_kept = STARTS + (0 if fault is Fault.SILENCE else len(frames))
    assert plan.slices[0].end_position == len(prompt(60)) + 7 * num_kept
    last_code = LAYOUT.audio_base_id + 6 * LAYOUT.codebook_size + codes[num_kept - 1][6]
    assert plan.slices[0].token_ids[-1] == last_code
    if fault is Fault.REPETITION:
        drawn_anew = codes[first : first + MENDED_FRAMES]
        for position in range(7):
            assert not {f[position] for f in drawn_anew} & {f[position] for f in frames}
    else:
        assert not {frame[0] for frame in codes[first : first + 2]} & LAYOUT.quiet_codes


@pytest.mark.parametrize(("frames", "fault"), FAULTS)
def test_second_fault_of_a_segment_ends_it(frames, fault):
    driver = faulty(frames, returns=True)
    say(driver, 1, segments=2)
    driver.run()
    assert driver.finished(1).reason == "guard"
    assert [o.index for o in driver.of(1) if isinstance(o, SegmentSpoken)] == [0, 1]
    assert driver.scheduler.num_given_up == {**dict.fromkeys(Fault, 0), fault: 2}
    assert driver.scheduler.num_mended == {**dict.fromkeys(Fault, 0), fault: 2}
    frame_numbers = [o.frame for o in driver.of(1) if isinstance(o, NewFrame)]
    assert frame_numbers == list(range(len(frame_numbers)))
    assert driver.finished(1).num_frames == len(frame_numbers)
    assert driver.scheduler.num_free_blocks == LIMITS.num_blocks


def test_mended_stream_alone_equals_the_same_in_company_and_after_preemption():
    def spoken(*others, num_blocks=LIMITS.num_blocks, prefix_cache=True):
        limits = msgspec.structs.replace(LIMITS, num_blocks=num_blocks, prefix_cache=prefix_cache)
        driver = faulty(loop(3), limits=limits)
        for request_id in (*others, 7):
            say(driver, request_id)
        driver.run()
        return driver

    alone = spoken()
    company = spoken(1, 2, 3)
    preempted = spoken(1, 2, 3, num_blocks=128)
    assert preempted.scheduler.num_preempted_total > 0
    assert company.scheduler.num_mended[Fault.REPETITION] == 4
    for driver in (company, preempted, spoken(prefix_cache=False)):
        assert driver.codes(7) == alone.codes(7)


def test_mending_uses_other_random_numbers():
    driver = faulty(loop(1))
    say(driver, 1)
    driver.run()
    indices = [draw.index for draw in driver.voice.draws]
    assert indices == list(range(len(indices)))
