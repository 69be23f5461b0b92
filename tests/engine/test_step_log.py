"""What was still computed for a request that somebody gave up."""

import itertools

import msgspec

from realtime.messages import Finished
from tests.engine.helpers import LAYOUT, LIMITS, Driver
from tests.fakes.runner import ScriptedRunner

STEP_S = 0.01


class Interruptible(Driver):
    """Steps follow one another without a pause; each takes `STEP_S`."""

    def step(self):
        plan = self.scheduler.schedule()
        result = self.runner.run(plan)
        self.clock.advance(STEP_S)
        self.scheduler.commit(plan, result)
        self.outputs += self.scheduler.take_outputs()
        self.scheduler.check_invariants()
        return bool(plan.slices)

    def cancelled_after(self, sent_after_s: float, *, num_steps: int) -> Finished:
        """Cancel request 1 that long after the beginning of step number `num_steps`.

        The cancel reaches the scheduler before the step after the one that runs at that moment.
        """
        started_at = self.clock.now()
        for _ in range(num_steps):
            self.step()
        sent_at = started_at + num_steps * STEP_S + sent_after_s
        while self.clock.now() < sent_at:
            self.step()
        self.scheduler.cancel(1, sent_at)
        self.step()
        return self.finished(1)


def interruptible(**limits) -> Interruptible:
    limits = msgspec.structs.replace(LIMITS, **limits)
    runner = ScriptedRunner(LAYOUT, limits.block_size, end_probability=0.0)
    driver = Interruptible(limits, runner=runner)
    driver.say(1, 30)
    driver.say(2, 30)
    return driver


def test_at_most_one_step_works_for_a_cancelled_request_whenever_the_cancel_comes():
    found = set()
    for num_steps, share in itertools.product(range(20), (0.0, 0.001, 0.5, 0.999)):
        finished = interruptible().cancelled_after(share * STEP_S, num_steps=num_steps)
        assert finished.reason == "cancelled"
        assert finished.num_orphaned_steps <= 1
        assert (finished.num_orphaned_tokens > 0) == (finished.num_orphaned_steps > 0)
        found.add(finished.num_orphaned_steps)
    assert found == {0, 1}


def test_prompt_computed_for_a_cancelled_request_is_counted_whole():
    finished = interruptible().cancelled_after(0.5 * STEP_S, num_steps=0)
    assert (finished.num_orphaned_steps, finished.num_orphaned_tokens) == (1, 32)


def test_step_that_runs_while_the_cancel_is_applied_is_counted():
    driver = interruptible()
    for _ in range(5):
        driver.step()
    plan = driver.scheduler.schedule()
    driver.scheduler.cancel(1, driver.clock.now())
    driver.scheduler.commit(plan, driver.runner.run(plan))
    driver.step()
    assert driver.finished(1).num_orphaned_steps == 1


def test_cancel_that_comes_late_tells_how_late():
    driver = interruptible()
    for _ in range(3):
        driver.step()
    sent_at = driver.clock.now()
    for _ in range(3):
        driver.step()
    driver.scheduler.cancel(1, sent_at)
    driver.step()
    assert driver.finished(1).num_orphaned_steps == 3


def test_request_that_never_ran_leaves_no_work():
    driver = interruptible(max_streams=1)
    driver.step()
    driver.scheduler.cancel(2, driver.clock.now() - 1.0)
    driver.step()
    assert driver.finished(2).num_orphaned_steps == 0
