"""Parking, starts and refusals: the scheduler against time."""

import math

import msgspec
import pytest

from realtime.engine.deadlines import DeadlinePolicy
from realtime.engine.plan import NewFrame
from realtime.engine.step_time import StepCosts
from realtime.messages import Failed
from tests.engine import helpers
from tests.engine.helpers import Driver
from tests.fakes.runner import ScriptedRunner

PACED = DeadlinePolicy()
LAYOUT = msgspec.structs.replace(helpers.LAYOUT, max_positions=1024)
FRAME_S = 1 / LAYOUT.frames_per_second
# four listeners keep their rate: 4 * 0.003 s fit into a token's 12.2 ms, 5 do not
FOUR = StepCosts(step_s=0.0, row_s=0.003, prefill_s=0.0)
LIMITS = msgspec.structs.replace(helpers.LIMITS, max_streams=8, num_blocks=8 * 128, max_wait_s=2.0)


def never_ending():
    return ScriptedRunner(LAYOUT, LIMITS.block_size, end_probability=0.0, reads_cache=False)


def paced_driver(**options):
    options = {
        "policy": PACED,
        "runner": never_ending(),
        "step_s": 0.002,
        "checks": False,
    } | options
    return Driver(LIMITS, LAYOUT, **options)


def lead_s(driver, request_id):
    frames = [o for o in driver.of(request_id) if isinstance(o, NewFrame)]
    return frames[-1].needed_at + FRAME_S - driver.clock.now()


def run_for(driver, seconds):
    """Step, or wait where there is nothing to do, as the engine's loop does."""
    until = driver.clock.now() + seconds
    while driver.clock.now() < until:
        if not driver.step():
            wake_at = min(driver.scheduler.wake_at(), until)
            driver.clock.advance(max(0.001, wake_at - driver.clock.now()))


def test_stream_is_parked_at_high_water_and_goes_on_at_low_water():
    driver = paced_driver()
    driver.say(1, 90)
    driver.run()
    assert driver.scheduler.num_parked == 1
    assert 2.0 < lead_s(driver, 1) < 2.0 + 2 * FRAME_S
    wake_s = driver.scheduler.wake_at() - driver.clock.now()
    assert wake_s == pytest.approx(lead_s(driver, 1) - 1.0, abs=1e-6)
    driver.clock.advance(wake_s - 0.01)
    assert not driver.step()
    driver.clock.advance(0.011)
    assert driver.step()
    assert driver.scheduler.num_parked == 0
    assert lead_s(driver, 1) == pytest.approx(1.0, abs=0.02)


def test_paced_stream_never_runs_dry_and_speaks_as_an_unpaced_one():
    driver = paced_driver()
    driver.say(1, 60, 40)
    run_for(driver, 30.0)
    assert driver.scheduler.num_late_total == 0
    assert driver.finished(1).timings.parked_s > 3.0
    unpaced = Driver(LIMITS, LAYOUT, runner=never_ending())
    unpaced.say(1, 60, 40)
    unpaced.run()
    assert driver.codes(1) == unpaced.codes(1)


def test_batch_request_is_not_paced():
    driver = paced_driver()
    driver.say(1, 90, is_batch=True)
    driver.run()
    assert driver.finished(1).timings.parked_s == 0.0


def test_pause_reported_by_the_listener_parks_its_stream_for_longer():
    driver = paced_driver()
    driver.say(1, 90)
    driver.run()
    woken_at = driver.scheduler.wake_at()
    driver.clock.advance(0.5)
    driver.scheduler.report_playback(1, 10**9, played_samples=0)  # nothing was heard yet
    first = next(o for o in driver.of(1) if isinstance(o, NewFrame))
    silent_s = driver.clock.now() - first.needed_at
    assert silent_s > 0.5
    # a report is taken to be 0.2 s old
    assert driver.scheduler.wake_at() == pytest.approx(woken_at + silent_s - 0.2, abs=1e-6)


def test_report_never_says_that_a_listener_is_further_than_time_allows():
    driver = paced_driver()
    driver.say(1, 90)
    driver.run()
    woken_at = driver.scheduler.wake_at()
    driver.scheduler.report_playback(1, 10**9, played_samples=10**9)
    assert driver.scheduler.wake_at() == woken_at


def test_streams_beyond_capacity_wait_and_then_start():
    driver = paced_driver(costs=FOUR)
    for request_id in range(4):
        driver.say(request_id, 3)
    driver.step()
    assert driver.scheduler.num_running == 4
    driver.say(9, 20)
    driver.step()
    assert (driver.scheduler.num_running, driver.scheduler.num_waiting) == (4, 1)
    run_for(driver, 3.0)
    assert driver.codes(9)
    assert sum(driver.scheduler.num_refused.values()) == 0


def test_stream_whose_place_is_far_away_is_refused_at_once_with_the_time_to_return():
    driver = paced_driver(costs=FOUR)
    for request_id in range(4):
        driver.say(request_id, 90)
    driver.step()
    driver.say(9, 20)
    driver.say(10, 20)
    driver.outputs += driver.scheduler.take_outputs()
    refused = [o for o in driver.outputs if isinstance(o, Failed)]
    assert [o.code for o in refused] == ["at_capacity", "at_capacity"]
    assert 2.0 < refused[0].retry_after_s < 20.0
    assert driver.scheduler.num_waiting == 0
    assert sum(driver.scheduler.num_refused.values()) == 2


def test_refused_batch_work_puts_off_no_listener():
    def retry_after_s(num_batch: int) -> float:
        driver = paced_driver(costs=FOUR)
        for request_id in range(4):
            driver.say(request_id, 90)
        driver.step()
        for request_id in range(100, 100 + num_batch):
            driver.say(request_id, 20, is_batch=True)
        driver.say(9, 20)
        driver.step()
        assert num_batch == 0 or driver.scheduler.num_refused["queue_full"] > 0
        (refused,) = driver.of(9)
        return refused.retry_after_s

    assert retry_after_s(60) == retry_after_s(0)


def test_one_that_comes_back_as_told_is_taken():
    driver = paced_driver(costs=FOUR)
    for request_id in range(4):
        driver.say(request_id, 30, seed=request_id)
    driver.step()
    driver.say(9, 20)
    driver.step()
    (refused,) = driver.of(9)
    run_for(driver, refused.retry_after_s)
    driver.say(10, 20)
    run_for(driver, 2.5)
    assert driver.codes(10)


def test_broken_promise_of_a_place_ends_in_a_refusal():
    driver = paced_driver(costs=FOUR)
    for request_id in range(4):
        driver.say(request_id, 3, ends=False)  # they wait for text and keep their places
    driver.step()
    driver.say(9, 20)
    run_for(driver, 6.5)
    (refused,) = driver.of(9)
    assert (refused.code, driver.scheduler.num_waiting) == ("at_capacity", 0)
    assert driver.scheduler.wake_at() == math.inf


def test_nobody_starts_while_a_listener_waits_in_silence():
    driver = paced_driver()
    driver.say(1, 90)
    while not driver.codes(1):
        driver.step()
    driver.clock.advance(1.0)  # a pause of the machine: the listener runs dry
    driver.say(2, 20)
    driver.step()
    assert driver.scheduler.num_late_total > 0
    driver.say(3, 20)
    driver.step()
    assert driver.scheduler.num_waiting >= 1
    run_for(driver, 1.5)
    assert driver.scheduler.num_waiting == 0
    assert driver.codes(3)


def test_burst_of_one_caller_does_not_delay_another():
    driver = paced_driver(costs=FOUR)
    for request_id in range(7):
        driver.say(request_id, 3, key="burst")
    driver.say(100, 3, key="calm")
    started = []
    for _ in range(3_000):
        driver.step()
        for request_id in (*range(7), 100):
            if driver.codes(request_id) and request_id not in started:
                started.append(request_id)
        driver.clock.advance(0.001)
    assert started.index(100) <= 5
    assert len(started) == 8


def test_batch_requests_leave_half_of_the_slots_and_yield_to_listeners():
    driver = paced_driver(costs=FOUR)
    for request_id in range(8):
        driver.say(request_id, 90, is_batch=True)
    driver.step()
    assert driver.scheduler.num_running == 4
    for request_id in range(100, 104):
        driver.say(request_id, 40)
    run_for(driver, 6.0)
    assert driver.scheduler.num_late_total == 0
    assert all(len(driver.codes(request_id)) > 50 for request_id in range(100, 104))


def test_cancelled_waiting_request_leaves_the_queue():
    driver = paced_driver(costs=FOUR)
    for request_id in range(4):
        driver.say(request_id, 3)
    driver.step()
    driver.say(9, 20)
    driver.scheduler.cancel(9)
    driver.step()
    assert driver.scheduler.num_waiting == 0
    assert driver.finished(9).reason == "cancelled"


def test_listener_starts_where_batch_work_holds_and_lacks_blocks():
    limits = msgspec.structs.replace(LIMITS, num_blocks=140)
    driver = Driver(limits, LAYOUT, runner=never_ending(), policy=PACED, step_s=0.002)
    for request_id in range(4):
        driver.say(request_id, 90, 90, 90, is_batch=True)
    run_for(driver, 2.0)
    assert driver.scheduler.num_preempted_total > 0
    driver.say(9, 60)
    run_for(driver, 0.1)
    assert driver.codes(9)


def test_listener_who_stands_still_does_not_hold_its_place_for_ever():
    driver = paced_driver()
    driver.say(1, 90)
    for _ in range(500):  # "nothing was heard" ten times a second
        run_for(driver, 0.1)
        driver.scheduler.report_playback(1, 10**9, played_samples=0)
        if not driver.scheduler.num_open:
            break
    assert driver.finished(1).num_frames > 50


def test_stream_whose_text_is_still_coming_is_taken_to_go_on():
    driver = paced_driver(costs=FOUR)
    for request_id in range(4):
        driver.say(request_id, 3, ends=False)
    driver.step()
    driver.say(9, 20)  # with all their text known, they would make room within half a second
    driver.outputs += driver.scheduler.take_outputs()
    (refused,) = driver.of(9)
    assert refused.retry_after_s > 2.0
