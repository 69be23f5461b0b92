"""How many listeners, and when there is room."""

import pytest

from realtime.engine.capacity import Capacity, CapacityLimits, most_context
from realtime.engine.step_time import StepCosts, StepSample, StepTime, fit

LIMITS = CapacityLimits(tokens_per_second=82.03125, tokens_per_frame=7, headroom_ratio=0.1)
TOKEN_S = 1 / 82.03125


def capacity(costs, codec=None, *, is_codec_apart=True, limits=LIMITS):
    codec_time = None if codec is None else StepTime(codec)
    return Capacity(limits, StepTime(costs), codec_time, is_codec_apart=is_codec_apart)


@pytest.mark.parametrize("context", [0, 300, 2000])
def test_most_streams_is_the_largest_number_whose_step_fits(context):
    costs = StepCosts(step_s=0.0015, row_s=7e-6, prefill_s=7e-6, context_s=16e-6 / 600)
    most = capacity(costs).most_streams(context)
    assert costs.predict(most, 0, most * context) <= 0.9 * TOKEN_S
    assert costs.predict(most + 1, 0, (most + 1) * context) > 0.9 * TOKEN_S


def test_one_stream_is_always_tried():
    assert capacity(StepCosts(step_s=1.0, row_s=1.0, prefill_s=0.0)).most_streams(300) == 1


def test_slower_steps_mean_fewer_streams():
    machine = capacity(StepCosts(step_s=0.001, row_s=0.0005, prefill_s=0.0))
    before = machine.most_streams(300)
    for _ in range(600):
        machine.step_time.observe(StepSample(10, 0, 0, 2 * 0.006))
    assert machine.most_streams(300) < 0.6 * before


def test_codec_bounds_the_streams_too():
    fast = StepCosts(step_s=0.0, row_s=1e-5, prefill_s=0.0)
    frame_s = 7 * TOKEN_S
    codec = StepCosts(step_s=0.0, row_s=frame_s / 10.01, prefill_s=0.0)
    assert capacity(fast, codec).most_streams(0) == 9


def test_shared_processor_adds_up():
    costs = StepCosts(step_s=0.0, row_s=TOKEN_S / 20.01, prefill_s=0.0)
    codec = StepCosts(step_s=0.0, row_s=7 * TOKEN_S / 20.01, prefill_s=0.0)
    assert capacity(costs, codec).most_streams(0) == 18
    assert capacity(costs, codec, is_codec_apart=False).most_streams(0) == 9


def test_wait_is_until_enough_streams_have_ended():
    machine = capacity(StepCosts(step_s=0.0, row_s=0.0, prefill_s=0.0))
    remaining = [3.0, 1.0, 2.0]
    assert [machine.wait_s(ahead, remaining) for ahead in range(3)] == [1.0, 2.0, 3.0]
    assert machine.wait_s(3, remaining) > 3.0
    assert machine.wait_s(5, []) == 0.0


def test_refused_callers_are_told_different_times():
    machine = capacity(StepCosts(step_s=0.0, row_s=0.0, prefill_s=0.0))
    remaining = [0.5 * i for i in range(1, 9)]
    times = [machine.promise(0, remaining, 0.0, "key") for _ in range(6)]
    assert times == sorted(set(times))
    assert machine.promise(0, remaining, 100.0, "key") == times[0]


def test_turns_are_stretched_while_refusals_are_frequent_and_drawn_together_by_starts():
    machine = capacity(StepCosts(step_s=0.0, row_s=0.0, prefill_s=0.0))
    remaining = [0.1] * 8

    def apart_s(now: float) -> float:
        first, second = (
            machine.promise(0, remaining, now, "key"),
            machine.promise(0, remaining, now, "key"),
        )
        return second - first

    at_first = apart_s(0.0)
    for number in range(100):
        machine.promise(0, remaining, 1000.0 * number, "key")
    assert apart_s(1e6) > 4 * at_first
    for _ in range(1000):
        machine.note_start("key", 2e6)
    assert apart_s(2e6) < 1.2 * at_first


def test_no_promise_is_longer_than_anyone_would_wait():
    machine = capacity(StepCosts(step_s=0.0, row_s=0.0, prefill_s=0.0))
    assert max(machine.promise(0, [10.0], 0.0, "key") for _ in range(1000)) <= 120.0


def test_room_is_what_a_step_of_everyone_leaves():
    machine = capacity(StepCosts(step_s=0.0, row_s=TOKEN_S / 20.01, prefill_s=0.0))
    assert machine.room([]) == 18
    assert machine.room([(500, 3.0)] * 15) == 3
    assert machine.room([(500, 3.0)] * 20) == -2


def test_room_counts_what_all_of_them_will_hold():
    costs = StepCosts(step_s=0.0, row_s=0.0, prefill_s=0.0, context_s=0.9 * TOKEN_S / 6565)
    machine = capacity(costs)
    assert machine.room([]) == 10  # of the usual 8 s each, 656 tokens at their end
    assert machine.room([(50, 0.5)] * 8) == 2
    assert machine.room([(50, 12.0)] * 8) == 6 - 8  # 1,034 tokens each before they end


def test_most_context_is_the_peak_of_growth_and_endings():
    assert most_context([], 80.0) == 0
    assert most_context([(100, 1.0)], 80.0) == 180
    # when the first ends both have grown by a second's tokens, then the other one alone
    assert most_context([(500, 1.0), (10, 3.0)], 80.0) == 670
    assert most_context([(100, 0.0), (10, 3.0)], 80.0) == 250
    assert most_context([(900, 0.0), (10, 3.0)], 80.0) == 910


def test_fit_finds_the_costs_of_steps_that_follow_them():
    true = StepCosts(step_s=0.002, row_s=0.0005, prefill_s=0.0003, context_s=2e-7)
    work = [(1, 0, 40), (4, 0, 200), (16, 0, 900), (16, 48, 400), (1, 63, 0), (4, 0, 1800)]
    found = fit(StepSample(*item, true.predict(*item)) for item in work)
    for name in ("step_s", "row_s", "prefill_s", "context_s"):
        assert getattr(found, name) == pytest.approx(getattr(true, name), rel=1e-3)


def test_fit_has_no_negative_costs():
    found = fit([StepSample(1, 0, 0, 0.002), StepSample(8, 0, 900, 0.0019)])
    assert min(found.step_s, found.row_s, found.prefill_s, found.context_s) >= 0
    assert found.predict(4) > 0


def test_correction_follows_what_steps_take_and_forgets_a_pause():
    time = StepTime(StepCosts(step_s=0.01, row_s=0.0, prefill_s=0.0))
    time.observe(StepSample(1, 0, 0, 5.0))
    assert time.correction < 2.0
    for _ in range(1000):
        time.observe(StepSample(1, 0, 0, 0.015))
    assert time.predict(1) == pytest.approx(0.015, rel=0.01)


def test_slow_rows_and_slow_steps_are_told_apart():
    fitted = StepCosts(step_s=0.002, row_s=0.0002, prefill_s=0.0)
    time = StepTime(fitted)
    actual = StepCosts(step_s=0.002, row_s=0.0005, prefill_s=0.0)
    for index in range(3000):
        num_rows = 1 + index % 8
        time.observe(StepSample(num_rows, 0, 0, actual.predict(num_rows)))
    assert time.predict(32) == pytest.approx(actual.predict(32), rel=0.1)
    assert time.predict(1) == pytest.approx(actual.predict(1), rel=0.1)


def test_steps_that_are_all_alike_move_both_costs_together():
    time = StepTime(StepCosts(step_s=0.002, row_s=0.0002, prefill_s=0.0))
    for _ in range(1000):
        time.observe(StepSample(4, 0, 0, 2 * 0.0028))
    assert time.predict(20) == pytest.approx(2 * 0.006, rel=0.02)


def test_admission_remembers_what_steps_took_under_load():
    machine = capacity(StepCosts(step_s=0.0, row_s=TOKEN_S / 20.01, prefill_s=0.0))
    for _ in range(1000):
        machine.step_time.observe(StepSample(10, 0, 0, 2 * 10 * TOKEN_S / 20.01))
    loaded = machine.room([])
    for _ in range(300):  # a few quiet seconds
        machine.step_time.observe(StepSample(1, 0, 0, TOKEN_S / 20.01))
    assert loaded == 9
    assert machine.room([]) < 1.3 * loaded
    assert machine.step_time.predict(1) < 1.1 * TOKEN_S / 20.01
    for _ in range(20_000):
        machine.step_time.observe(StepSample(1, 0, 0, TOKEN_S / 20.01))
    assert machine.room([]) == 18
