"""A Hypothesis state machine over scheduler, residency and block pool: any order of calls keeps
every invariant, and every request speaks as it would alone.
"""

import functools

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from realtime.engine.deadlines import DeadlinePolicy
from realtime.engine.guards import GuardLimits
from realtime.engine.plan import NewFrame, RequestOptions, StepPlan
from realtime.engine.scheduler import Scheduler
from realtime.engine.step_time import StepCosts
from realtime.messages import Finished, SegmentSpoken
from tests.engine.helpers import LAYOUT, LIMITS, Driver, make_scheduler, prompt
from tests.engine.helpers import settings as sampling
from tests.fakes.clock import FakeClock
from tests.fakes.runner import ScriptedRunner

SMALL_LAYOUT = msgspec.structs.replace(LAYOUT, max_positions=96)
MAX_REQUEST_S = 3.0
NUM_STEPS = 10_000
LENGTHS = (1, 4, 15, 22, 22, 40, 86)  # phonemes; the longest fill the model

GUARDS = GuardLimits(repetition_s=0.4)
LOOPING_SEED = 3

Text = tuple[int, ...]  # a salt, and the phonemes of each segment


def say(scheduler: Scheduler, request_id: int, text: Text) -> None:
    """Append the last segment of a text; texts with one salt begin alike."""
    salt, *lengths = text
    index = len(lengths) - 1
    words = prompt(lengths[index], salt=salt + index)
    scheduler.append(request_id, index, words, lengths[index])


class LoopingRunner(ScriptedRunner):
    """Repeats one frame for one seed, except while its codes are barred."""

    def _draw(self, piece, draw):
        if draw.settings.seed == LOOPING_SEED and not draw.barred_codes:
            return SMALL_LAYOUT.audio_base_id + draw.position_in_frame * SMALL_LAYOUT.codebook_size
        return super()._draw(piece, draw)


@functools.cache
def spoken_alone(seed: int, text: Text) -> list[tuple[int, ...]]:
    """Codes of a request in an engine of its own that shares nothing."""
    limits = msgspec.structs.replace(
        LIMITS, max_streams=1, max_request_s=MAX_REQUEST_S, prefix_cache=False, guards=GUARDS
    )
    runner = LoopingRunner(SMALL_LAYOUT, limits.block_size)
    driver = Driver(limits, SMALL_LAYOUT, runner, checks=False)
    driver.start(0, seed=seed)
    for count in range(2, len(text) + 1):
        say(driver.scheduler, 0, text[:count])
    driver.scheduler.end_text(0)
    driver.run()
    return driver.codes(0)


class SchedulerMachine(RuleBasedStateMachine):
    """Requests come, are fed, cancelled and stepped in any order; many have equal texts and seeds,
    or texts that begin alike.
    """

    num_steps = 0  # rules run in all examples
    num_hits = 0
    num_preempted = 0
    num_reused = 0
    num_mended = 0

    @initialize(
        max_streams=st.integers(1, 6),
        spare_blocks=st.sampled_from([0, 0, 3, 10, 30]),
        budget=st.integers(6, 40),
        lead_s=st.sampled_from([0.2, 1.0, 100.0]),
        high_water_s=st.sampled_from([1.1, 2.0, 100.0]),
        row_s=st.sampled_from([0.0, 0.003]),
        num_kept=st.sampled_from([0, 5, 100]),
    )
    def build(self, max_streams, spare_blocks, budget, lead_s, high_water_s, row_s, num_kept):
        limits = msgspec.structs.replace(
            LIMITS,
            max_streams=max_streams,
            max_waiting=3,
            max_step_tokens=budget,
            num_blocks=12 + spare_blocks,
            max_unheard_s=lead_s,
            max_request_s=MAX_REQUEST_S,
            num_kept_blocks=num_kept,
            guards=GUARDS,
        )
        self.clock = FakeClock()
        self.scheduler = make_scheduler(
            limits,
            SMALL_LAYOUT,
            self.clock,
            policy=DeadlinePolicy(high_water_s=high_water_s),
            costs=StepCosts(step_s=0.002, row_s=row_s, prefill_s=0.001),
        )
        self.runner = LoopingRunner(SMALL_LAYOUT, limits.block_size)
        self.limits = limits
        self.plan: StepPlan | None = None
        self.next_id = 0
        self.seeds: dict[int, int] = {}
        self.segments: dict[int, int] = {}
        self.texts: dict[int, Text] = {}
        self.codes: dict[int, list[tuple[int, ...]]] = {}
        self.spoken: dict[int, int] = {}
        self.ended: set[int] = set()
        self.over: set[int] = set()

    def requests(self):
        return st.sampled_from(sorted(self.segments))

    @rule(
        seed=st.integers(0, LOOPING_SEED),
        salt=st.sampled_from([0, 20]),
        lengths=st.lists(st.sampled_from(LENGTHS), max_size=2),
        key=st.sampled_from("ab"),
        is_batch=st.booleans(),
    )
    def start(self, seed, salt, lengths, key, is_batch):
        options = RequestOptions(sampling=sampling(seed), key=key, is_batch=is_batch)
        self.scheduler.start(self.next_id, options)
        self.seeds[self.next_id] = seed
        self.segments[self.next_id] = 0
        self.texts[self.next_id] = (salt,)
        self.codes[self.next_id] = []
        self.spoken[self.next_id] = 0
        self.next_id += 1
        for num_phonemes in lengths:
            self.say(self.next_id - 1, num_phonemes)
        self.collect()

    @precondition(lambda self: self.segments)
    @rule(data=st.data(), num_phonemes=st.sampled_from(LENGTHS))
    def append(self, data, num_phonemes):
        request_id = data.draw(self.requests())
        if request_id in self.ended:
            return
        self.say(request_id, num_phonemes)
        self.collect()

    def say(self, request_id, num_phonemes):
        self.segments[request_id] += 1
        self.texts[request_id] += (num_phonemes,)
        say(self.scheduler, request_id, self.texts[request_id])

    @precondition(lambda self: self.segments)
    @rule(data=st.data())
    def end_text(self, data):
        request_id = data.draw(self.requests())
        self.ended.add(request_id)
        self.scheduler.end_text(request_id)
        self.collect()

    @precondition(lambda self: self.segments)
    @rule(data=st.data())
    def cancel(self, data):
        self.scheduler.cancel(data.draw(self.requests()))
        self.collect()

    @precondition(lambda self: self.segments)
    @rule(data=st.data(), share=st.floats(0, 1))
    def listen(self, data, share):
        request_id = data.draw(self.requests())
        samples = int(len(self.codes[request_id]) * SMALL_LAYOUT.samples_per_frame * share)
        self.scheduler.report_playback(request_id, samples)

    @precondition(lambda self: self.plan is None)
    @rule()
    def schedule(self):
        self.plan = self.scheduler.schedule()
        assert self.plan.num_tokens <= self.limits.max_step_tokens
        slots = [piece.slot for piece in self.plan.slices]
        assert len(set(slots)) == len(slots)

    @precondition(lambda self: self.plan is not None)
    @rule()
    def commit(self):
        self.scheduler.commit(self.plan, self.runner.run(self.plan))
        self.plan = None
        self.clock.advance(0.01)
        self.collect()

    @rule(steps=st.integers(1, 30))
    def run_steps(self, steps):
        for _ in range(steps):
            if self.plan is None:
                self.schedule()
            self.commit()
            self.scheduler.check_invariants()

    def collect(self):
        for output in self.scheduler.take_outputs():
            request_id = output.request_id
            assert request_id not in self.over, "output after the request's last message"
            if isinstance(output, NewFrame):
                assert output.frame == len(self.codes[request_id])
                self.codes[request_id].append(output.codes)
            elif isinstance(output, SegmentSpoken):
                assert output.index == self.spoken[request_id]
                assert output.end_frame == len(self.codes[request_id])
                self.spoken[request_id] += 1
            else:
                self.over.add(request_id)
            if isinstance(output, Finished):
                if output.reason != "cancelled":
                    assert output.num_frames == len(self.codes[request_id])
                    assert self.codes[request_id] == self.alone(request_id)
                if output.reason in {"end_of_speech", "guard"}:
                    assert self.spoken[request_id] == self.segments[request_id]

    def alone(self, request_id):
        return spoken_alone(self.seeds[request_id], self.texts[request_id])

    @invariant()
    def consistent(self):
        if hasattr(self, "scheduler"):
            SchedulerMachine.num_steps += 1
            self.check()

    def check(self):
        self.scheduler.check_invariants()
        pool = self.scheduler._residency._pool
        for (_, tokens), block in pool._published.items():
            assert self.runner.contents(block) == tokens, "a published block holds other tokens"

    def teardown(self):
        """Whatever happened: once everyone is served or cancelled, nothing is held."""
        if not hasattr(self, "scheduler"):
            return
        if self.plan is not None:
            self.commit()
        for request_id in self.segments:
            self.scheduler.end_text(request_id)
        self.collect()
        for _ in range(3_000):
            plan = self.scheduler.schedule()
            self.clock.advance(0.05)
            for request_id, codes in self.codes.items():
                samples = len(codes) * SMALL_LAYOUT.samples_per_frame
                self.scheduler.report_playback(request_id, samples)
            self.collect()
            if not plan.slices and not self.scheduler.num_open:
                break
            self.scheduler.commit(plan, self.runner.run(plan))
            self.collect()
        self.check()
        assert self.over == set(self.segments)
        for request_id, codes in self.codes.items():  # also of those that were cancelled
            assert codes == self.alone(request_id)[: len(codes)]
        assert self.scheduler.num_free_blocks == self.limits.num_blocks
        assert self.scheduler.num_running == self.scheduler.num_waiting == 0
        SchedulerMachine.num_hits += self.scheduler.num_prefix_hits_total
        SchedulerMachine.num_mended += sum(self.scheduler.num_mended.values())
        SchedulerMachine.num_preempted += self.scheduler.num_preempted_total
        SchedulerMachine.num_reused += self.scheduler._residency.num_reused_total


@pytest.mark.slow
def test_any_order_of_calls_keeps_every_invariant():
    machine_settings = settings(
        max_examples=350,
        stateful_step_count=40,
        deadline=None,
        phases=[
            Phase.explicit,
            Phase.reuse,
            Phase.generate,
        ],  # shrinking takes minutes: add it to debug
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        derandomize=True,
    )
    run_state_machine_as_test(SchedulerMachine, settings=machine_settings)
    assert SchedulerMachine.num_steps >= NUM_STEPS
    assert SchedulerMachine.num_hits > 10_000, "hardly anything was shared"
    assert SchedulerMachine.num_preempted > 200
    assert SchedulerMachine.num_reused > 5_000
    assert SchedulerMachine.num_mended > 100
