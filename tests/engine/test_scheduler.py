import msgspec
import pytest

from realtime.engine.plan import NewFrame, Phase, RequestOptions
from realtime.errors import UnknownVoiceError
from realtime.messages import Failed, Finished, SegmentSpoken
from tests.engine.helpers import LAYOUT, LIMITS, Driver, make_scheduler, prompt, settings
from tests.fakes.runner import ScriptedRunner

END = LAYOUT.end_of_speech_id


def with_limits(**changes):
    return msgspec.structs.replace(LIMITS, **changes)


def never_ending(layout=LAYOUT, block_size=LIMITS.block_size):
    return ScriptedRunner(layout, block_size, end_probability=0.0)


def scripted_frames(frames_of):
    """END once a segment has as many frames as `frames_of[request_id]` says for it, in order."""
    state = {}

    def script(request_id, draw):
        if draw.position_in_frame:
            return None
        segment, spoken = state.get(request_id, (0, 0))
        if spoken == frames_of[request_id][segment]:
            state[request_id] = (segment + 1, 0)
            return END
        state[request_id] = (segment, spoken + 1)
        return None

    return script


def test_one_request_speaks_and_finishes():
    driver = Driver()
    driver.say(1, 12)
    driver.run()
    frames = [o for o in driver.of(1) if isinstance(o, NewFrame)]
    assert [frame.frame for frame in frames] == list(range(len(frames)))
    spoken = next(o for o in driver.of(1) if isinstance(o, SegmentSpoken))
    assert (spoken.index, spoken.end_frame) == (0, len(frames))
    finished = driver.finished(1)
    assert finished.reason == "end_of_speech"
    assert finished.num_frames == len(frames) > 0
    assert finished.num_tokens == 7 * len(frames)
    assert driver.scheduler.num_open == 0
    assert driver.scheduler.num_free_blocks == LIMITS.num_blocks


def test_request_alone_equals_request_in_company():
    company = Driver()
    for request_id in range(4):
        company.say(request_id, 10 + request_id, 5)
    for _ in range(10):
        company.step()
    for request_id in range(4, 10):
        company.say(request_id, 9)
    company.scheduler.cancel(2)
    company.run()
    for request_id in (0, 1, 3, 5, 9):
        alone = Driver()
        alone.say(request_id, *((10 + request_id, 5) if request_id < 4 else (9,)))
        alone.run()
        assert alone.codes(request_id) == company.codes(request_id)


def test_decode_rows_come_before_prefill_and_share_the_step():
    driver = Driver(with_limits(max_step_tokens=16), runner=never_ending())
    driver.say(1, 8)
    driver.step()
    driver.say(2, 40)
    driver.step()
    plan = driver.runner.plans[-1]
    assert [(s.request_id, s.phase, len(s.token_ids)) for s in plan.slices] == [
        (1, Phase.DECODE, 1),
        (2, Phase.PREFILL, 15),
    ]
    assert plan.slices[1].draw is None


def test_chunked_prefill_equals_whole_prefill():
    chunked, whole = (
        Driver(with_limits(max_step_tokens=4)),
        Driver(with_limits(max_step_tokens=500)),
    )
    for driver in (chunked, whole):
        driver.say(1, 50)
        driver.run()
    assert len(chunked.runner.plans) > len(whole.runner.plans)
    assert chunked.codes(1) == whole.codes(1)


def test_preempted_stream_equals_uninterrupted_one():
    tight = with_limits(num_blocks=33)
    crowded = Driver(tight, runner=never_ending())
    for request_id in range(3):
        crowded.say(request_id, 60)
    crowded.run()
    assert crowded.scheduler.num_preempted_total > 0
    for request_id in range(3):
        alone = Driver(tight, runner=never_ending())
        alone.say(request_id, 60)
        alone.run()
        assert alone.scheduler.num_preempted_total == 0
        assert alone.codes(request_id) == crowded.codes(request_id)


def test_repeated_text_is_prefilled_once_and_speaks_the_same():
    driver, plain = Driver(), Driver(with_limits(prefix_cache=False))
    for request_id in range(3):
        for each in (driver, plain):
            each.say(request_id, 46, seed=request_id // 2)  # the third only begins alike
            each.run()
    for request_id in range(3):
        assert driver.codes(request_id) == plain.codes(request_id)
    firsts = [plan.slices[0] for plan in driver.runner.plans if len(plan.slices[0].token_ids) > 1]
    assert [(s.request_id, s.first_position) for s in firsts] == [(0, 0), (1, 40), (2, 40)]
    assert driver.scheduler.num_prefilled_total == 3 * 48 - 2 * 40
    assert driver.scheduler.num_prefix_hits_total == 2 * 40
    assert driver.scheduler.num_free_blocks == LIMITS.num_blocks


def test_equal_prompts_that_come_together_are_computed_once():
    driver = Driver(with_limits(max_step_tokens=64))
    for request_id in range(4):
        driver.say(request_id, 60)
    driver.run()
    computed = sum(
        len(piece.token_ids)
        for plan in driver.runner.plans
        for piece in plan.slices
        if piece.phase is Phase.PREFILL
    )
    assert computed < 62 + 3 * 8 + 8
    assert len({str(driver.codes(request_id)) for request_id in range(4)}) == 4


def test_restarted_chain_is_found_where_it_was_spoken_before():
    tokens = {}
    for request_ids in ([1], [1, 2]):
        driver = Driver(with_limits(num_blocks=500, num_kept_blocks=500))
        for request_id in request_ids:
            driver.say(request_id, *[12] * 8, seed=5)
            driver.run()
        tokens[len(request_ids)] = driver.codes(request_ids[-1])
    assert tokens[1] == tokens[2]
    starts = {
        request_id: [
            piece.first_position
            for plan in driver.runner.plans
            for piece in plan.slices
            if piece.request_id == request_id and piece.first_position < 8
        ]
        for request_id in (1, 2)
    }
    assert len([start for start in starts[1] if not start]) > 1, "no restart"
    assert starts[2] == []
    assert driver.scheduler.num_free_blocks == 500


def test_preempted_stream_computes_only_what_it_lost():
    computed = {}
    for has_cache in (True, False):
        driver = Driver(with_limits(num_blocks=33, prefix_cache=has_cache), runner=never_ending())
        for request_id in range(3):
            driver.say(request_id, 60 + request_id)
        driver.run()
        assert driver.scheduler.num_preempted_total > 0
        computed[has_cache] = sum(plan.num_tokens for plan in driver.runner.plans)
    assert computed[True] < 0.9 * computed[False]


def test_streams_that_share_all_they_hold_do_not_keep_others_from_starting():
    driver = Driver(with_limits(num_blocks=32), runner=never_ending())
    for request_id in (1, 2):
        driver.say(request_id, 150, seed=0, ends=False)
        driver.run()
    assert driver.scheduler.num_free_blocks < 20
    driver.say(3, 239)
    driver.run()
    assert driver.finished(3).reason == "guard"


def test_youngest_is_preempted_and_oldest_never():
    crowded = Driver(with_limits(num_blocks=33), runner=never_ending())
    for request_id in range(3):
        crowded.say(request_id, 60)
    crowded.run()
    ends = [o.request_id for o in crowded.outputs if isinstance(o, Finished)]
    assert ends == [0, 1, 2]
    computed = {}
    for plan in crowded.runner.plans:
        for piece in plan.slices:
            computed.setdefault(piece.request_id, []).append(piece.first_position)
    assert computed[0] == sorted(computed[0])
    assert computed[2] != sorted(computed[2])


def test_later_segment_is_appended_and_earlier_kv_is_reused():
    driver = Driver(runner=ScriptedRunner(LAYOUT, 8, script=scripted_frames({1: [3, 2]})))
    driver.say(1, 10, 8)
    driver.run()
    pieces = [piece for plan in driver.runner.plans for piece in plan.slices]
    ends = [piece.end_position for piece in pieces]
    assert [piece.first_position for piece in pieces[1:]] == ends[:-1]
    second = next(piece for piece in pieces[1:] if len(piece.token_ids) > 1)
    assert second.first_position == 12 + 3 * 7
    assert second.token_ids == (END, *prompt(8, salt=1))
    assert len({piece.slot for piece in pieces}) == 1


def test_segment_that_comes_late_continues_the_same_sequence():
    early = Driver()
    early.say(1, 10, 8)
    early.run()
    late = Driver()
    late.say(1, 10, ends=False)
    late.run()
    assert not any(isinstance(o, Finished) for o in late.outputs)
    assert late.scheduler.num_running == 1
    late.clock.advance(2.5)
    late.scheduler.append(1, 1, prompt(8, salt=1), 8)
    late.scheduler.end_text(1)
    late.run()
    assert late.codes(1) == early.codes(1)
    assert late.finished(1).timings.starved_s == pytest.approx(2.5, abs=0.05)
    assert early.finished(1).timings.starved_s == 0.0


def test_end_text_finishes_a_request_that_waits_for_text():
    driver = Driver()
    driver.say(1, 10, ends=False)
    driver.run()
    driver.scheduler.end_text(1)
    driver.run()
    assert driver.finished(1).reason == "end_of_speech"


def test_end_text_without_any_segment_finishes_at_once():
    driver = Driver()
    driver.say(1)
    assert not driver.step()
    finished = driver.finished(1)
    assert (finished.num_frames, finished.reason) == (0, "end_of_speech")
    assert finished.timings.scheduled_at is None


def test_chain_restarts_from_its_last_segment_when_it_would_outgrow_the_model():
    frames = [8, 8, 8, 8, 8, 8]
    runner = ScriptedRunner(LAYOUT, 8, script=scripted_frames({1: frames}))
    driver = Driver(with_limits(max_step_tokens=256), runner=runner)
    driver.say(1, *[6] * 6)
    driver.run()
    assert len(driver.codes(1)) == sum(frames)
    assert [o.index for o in driver.of(1) if isinstance(o, SegmentSpoken)] == list(range(6))
    restarts = [
        piece
        for plan in driver.runner.plans[1:]
        for piece in plan.slices
        if piece.first_position == 0
    ]
    assert restarts
    for piece in restarts:
        prompts = [i for i, token_id in enumerate(piece.token_ids) if token_id == 47]
        assert len(prompts) == 2
        assert prompts[0] == 0
    assert driver.scheduler.num_free_blocks == LIMITS.num_blocks


def test_chain_restarts_from_the_new_prompt_alone_when_even_that_is_too_long():
    layout = msgspec.structs.replace(LAYOUT, max_positions=128, extra_s=1.0)
    runner = ScriptedRunner(layout, 8, script=scripted_frames({1: [10, 10]}))
    driver = Driver(layout=layout, runner=runner)
    driver.say(1, 30, 30)
    driver.run()
    restarts = [
        piece.token_ids
        for plan in runner.plans[1:]
        for piece in plan.slices
        if not piece.first_position
    ]
    assert restarts == [prompt(30, salt=1)]
    assert len(driver.codes(1)) == 20


def test_segment_longer_than_likely_drops_old_segments_while_speaking():
    layout = msgspec.structs.replace(LAYOUT, extra_s=2.0)
    runner = ScriptedRunner(layout, 8, script=scripted_frames({1: [14, 14, 3]}))
    driver = Driver(layout=layout, runner=runner)
    driver.say(1, 12, 12, 3)
    driver.run()
    assert len(driver.codes(1)) == 31
    assert driver.finished(1).reason == "end_of_speech"


def test_end_is_masked_below_the_plausible_length():
    seen = []

    def script(request_id, draw):
        seen.append((draw.index, draw.position_in_frame, draw.may_end))
        return END if draw.may_end else None

    driver = Driver(runner=ScriptedRunner(LAYOUT, 8, script=script))
    driver.say(1, 40)  # 40 * 0.03 s = 1.2 s = 14.06 frames
    driver.run()
    assert len(driver.codes(1)) == 14
    assert [index for index, _, _ in seen] == list(range(14 * 7 + 1))
    assert all(position == 0 for _, position, may_end in seen if may_end)


def test_segment_without_end_is_ended_by_the_guard():
    driver = Driver(runner=never_ending())
    driver.say(1, 10)  # 10 * 0.15 s + 0.2 s = 1.7 s = 19.9 frames
    driver.run()
    assert len(driver.codes(1)) == 20
    assert driver.finished(1).reason == "guard"


def test_guarded_segment_goes_on_with_the_next_one():
    driver = Driver(runner=never_ending())
    driver.say(1, 10, 3)
    driver.run()
    assert [o.index for o in driver.of(1) if isinstance(o, SegmentSpoken)] == [0, 1]
    assert driver.finished(1).reason == "guard"


def test_guard_leaves_room_for_the_longest_prompt():
    driver = Driver(runner=never_ending())
    driver.say(1, 240)
    driver.run()
    assert len(driver.codes(1)) == (256 - 242 - 1) // 7
    assert driver.finished(1).reason == "guard"


def test_prompt_longer_than_the_model_fails_that_request_only():
    driver = Driver()
    driver.say(1, 10)
    driver.say(2, 250)
    driver.run()
    (failed,) = [o for o in driver.of(2) if isinstance(o, Failed)]
    assert failed.code == "text_too_long"
    assert driver.finished(1).reason == "end_of_speech"


def test_request_longer_than_allowed_finishes_with_length():
    driver = Driver(with_limits(max_request_s=0.5), runner=never_ending())
    driver.say(1, 30)
    driver.run()
    assert driver.finished(1).reason == "length"
    assert len(driver.codes(1)) == 5


def test_cancel_frees_blocks_before_next_step():
    driver = Driver(runner=never_ending())
    driver.say(1, 30)
    driver.say(2, 30)
    for _ in range(5):
        driver.step()
    driver.scheduler.cancel(1)
    held_by_two = LIMITS.num_blocks - driver.scheduler.num_free_blocks
    assert held_by_two == -(-(32 + 4) // 8)
    assert driver.scheduler.num_running == 1
    driver.outputs += driver.scheduler.take_outputs()
    assert driver.finished(1).reason == "cancelled"
    driver.run()
    assert isinstance(driver.of(1)[-1], Finished)


def test_cancel_between_schedule_and_commit_drops_the_row():
    driver = Driver(runner=never_ending())
    driver.say(1, 10)
    driver.say(2, 10)
    plan = driver.scheduler.schedule()
    driver.scheduler.cancel(1)
    driver.scheduler.commit(plan, driver.runner.run(plan))
    driver.scheduler.check_invariants()
    driver.run()
    assert [type(o) for o in driver.of(1)] == [Finished]
    assert driver.finished(2).num_frames == 20


def test_cancel_while_waiting_leaves_the_queue():
    driver = Driver(with_limits(max_streams=1), runner=never_ending())
    driver.say(1, 10)
    driver.step()
    driver.say(2, 10)
    driver.say(3, 10)
    driver.scheduler.cancel(2)
    driver.run()
    assert driver.finished(2).reason == "cancelled"
    assert driver.codes(2) == []
    assert len(driver.codes(3)) == 20


def test_messages_for_a_finished_request_are_ignored():
    driver = Driver()
    driver.say(1, 5)
    driver.run()
    before = len(driver.outputs)
    driver.scheduler.append(1, 1, prompt(4), 4)
    driver.scheduler.end_text(1)
    driver.scheduler.cancel(1)
    driver.scheduler.report_playback(1, 10)
    driver.run()
    assert len(driver.outputs) == before


def test_slots_are_given_first_come_first_served():
    driver = Driver(with_limits(max_streams=1))
    driver.start(7)  # opened first, but without text
    driver.say(8, 5)
    driver.say(9, 5)
    driver.scheduler.append(7, 0, prompt(5), 5)
    driver.scheduler.end_text(7)
    driver.run()
    assert [o.request_id for o in driver.outputs if isinstance(o, Finished)] == [8, 9, 7]


def test_request_beyond_the_waiting_bound_is_refused_with_retry_after():
    driver = Driver(with_limits(max_streams=1, max_waiting=2))
    for request_id in range(5):
        driver.say(request_id, 5)
        driver.step()
    refused = [o for o in driver.outputs if isinstance(o, Failed)]
    assert [o.request_id for o in refused] == [3, 4]
    assert refused[0].code == "at_capacity"
    assert refused[0].retry_after_s is not None
    assert refused[0].retry_after_s > 0
    driver.run()
    assert sum(isinstance(o, Finished) for o in driver.outputs) == 3


def test_failure_of_one_request_leaves_the_others():
    driver = Driver()
    driver.say(1, 10)
    driver.say(2, 10)
    driver.step()
    driver.scheduler.fail(1, UnknownVoiceError("no voice `x`"))
    driver.run()
    assert isinstance(driver.of(1)[-1], Failed)
    assert driver.finished(2).reason == "end_of_speech"


def test_stream_far_ahead_of_its_listener_is_parked_until_half_the_lead():
    driver = Driver(with_limits(max_unheard_s=1.0), runner=never_ending())
    driver.say(1, 30)
    driver.run()
    frames = len(driver.codes(1))
    assert frames == 12  # the first whole number of frames over one second
    assert driver.scheduler.num_running == 1
    driver.clock.advance(3.0)
    driver.scheduler.report_playback(1, frames * 2048 - 12_001)
    assert not driver.step()
    driver.scheduler.report_playback(1, frames * 2048 - 11_999)
    assert driver.step()
    for _ in range(100):
        driver.run()
        driver.scheduler.report_playback(1, len(driver.codes(1)) * 2048)
    assert driver.finished(1).timings.parked_s == pytest.approx(3.0, abs=0.05)


def test_parked_stream_equals_unparked_one():
    free, held = Driver(), Driver(with_limits(max_unheard_s=0.3))
    for driver in (free, held):
        driver.say(1, 30, 20)
    free.run()
    for _ in range(200):
        held.run()
        held.scheduler.report_playback(1, len(held.codes(1)) * 2048)
    assert held.codes(1) == free.codes(1)
    assert held.finished(1).timings.parked_s >= 0.0


def test_idle_stream_gives_its_blocks_to_working_ones_and_comes_back():
    tight = with_limits(num_blocks=33)
    driver = Driver(tight, runner=never_ending())
    driver.say(1, 30, ends=False)
    driver.run()  # waits for text and holds blocks
    driver.say(2, 240)
    driver.run()
    assert driver.scheduler.num_preempted_total == 1
    assert driver.finished(2).reason == "guard"
    driver.scheduler.append(1, 1, prompt(9, salt=1), 9)
    driver.scheduler.end_text(1)
    driver.run()
    plain = Driver(runner=never_ending())
    plain.say(1, 30, 9)
    plain.run()
    assert driver.codes(1) == plain.codes(1)


def test_waiting_request_may_take_an_idle_streams_blocks():
    driver = Driver(with_limits(num_blocks=32), runner=never_ending())
    driver.say(1, 100, ends=False)
    driver.run()
    assert driver.scheduler.num_free_blocks < 31
    driver.say(2, 240)
    driver.run()
    assert driver.finished(2).reason == "guard"


def test_repetition_penalty_sees_recent_codes_of_the_same_frame_position():
    draws = []

    def script(request_id, draw):
        draws.append(draw)
        return LAYOUT.audio_base_id + draw.position_in_frame * 16 + draw.index % 16

    driver = Driver(runner=ScriptedRunner(LAYOUT, 8, script=script))
    driver.scheduler.start(1, RequestOptions(sampling=settings(repetition_penalty=1.1)))
    driver.scheduler.append(1, 0, prompt(10), 10)
    driver.scheduler.end_text(1)
    driver.run()
    assert draws[7 * 3 + 2].recent_codes == (2, 9, 0)
    assert len(draws[-1].recent_codes) == 12


def test_limits_that_cannot_work_are_refused():
    with pytest.raises(ValueError, match="max_step_tokens"):
        with_limits(max_step_tokens=3)
    with pytest.raises(ValueError, match="KV blocks"):
        make_scheduler(with_limits(num_blocks=31))


def test_frames_carry_when_an_unpaused_listener_needs_them():
    script = scripted_frames({1: [4, 2]})
    driver = Driver(runner=ScriptedRunner(LAYOUT, 8, script=script), step_s=0.005)
    driver.say(1, 9, ends=False)
    driver.run()
    driver.clock.advance(5.0)  # the listener has run dry
    driver.scheduler.append(1, 1, prompt(9, salt=1), 9)
    driver.run()
    frames = [o for o in driver.of(1) if isinstance(o, NewFrame)]
    frame_s = 2048 / 24000
    first = frames[0].needed_at
    assert first == pytest.approx(1000.03)
    assert [f.needed_at - first for f in frames[:4]] == pytest.approx(
        [i * frame_s for i in range(4)]
    )
    assert frames[4].needed_at > first + 5.0
    assert frames[5].needed_at == pytest.approx(frames[4].needed_at + frame_s)


@pytest.mark.parametrize(
    ("step_s", "starts_with"),
    [(0.002, [0]), (0.01, [0, 1]), (0.017, [0, 1, 2]), (0.1, [0, 1, 2, 3])],
)
def test_start_collects_the_frames_that_bridge_a_slow_machine(step_s, starts_with):
    driver = Driver(runner=never_ending(), step_s=step_s)
    driver.say(0, 20)
    while not driver.codes(0):
        driver.step()
    frames = [output.frame for output in driver.of(0) if isinstance(output, NewFrame)]
    assert frames == starts_with


def test_held_first_frame_is_not_lost_where_speech_is_one_frame_long():
    script = scripted_frames({request_id: [1] for request_id in range(4)})
    driver = Driver(runner=ScriptedRunner(LAYOUT, LIMITS.block_size, script=script))
    for request_id in range(4):
        driver.say(request_id, 1)
    driver.run()
    assert [len(driver.codes(request_id)) for request_id in range(4)] == [1] * 4


def test_frame_behind_a_wait_for_text_says_when_the_text_came():
    driver = Driver()
    driver.say(1, 10, ends=False)
    driver.run()
    assert all(o.text_at is None for o in driver.of(1) if isinstance(o, NewFrame))
    num_frames = len(driver.codes(1))
    driver.clock.advance(2.0)
    text_at = driver.clock.now()
    driver.scheduler.append(1, 1, prompt(10, salt=1), 10)
    driver.scheduler.append(1, 2, prompt(10, salt=2), 10)
    driver.scheduler.end_text(1)
    driver.run()
    waits = [o.text_at for o in driver.of(1) if isinstance(o, NewFrame)][num_frames:]
    assert waits[0] == text_at
    assert set(waits[1:]) == {None}
