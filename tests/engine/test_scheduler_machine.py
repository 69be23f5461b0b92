"""A Hypothesis state machine over scheduler and block pool: any order of calls keeps every
invariant.
"""

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from realtime.engine.deadlines import DeadlinePolicy
from realtime.engine.plan import NewFrame, RequestOptions, StepPlan
from realtime.engine.step_time import StepCosts
from realtime.messages import Finished, SegmentSpoken
from tests.engine.helpers import LAYOUT, LIMITS, make_scheduler, prompt
from tests.engine.helpers import settings as sampling
from tests.fakes.clock import FakeClock
from tests.fakes.runner import ScriptedRunner

SMALL_LAYOUT = msgspec.structs.replace(LAYOUT, max_positions=96)


class SchedulerMachine(RuleBasedStateMachine):
    """Requests come, are fed, cancelled and stepped in any order; a few properties are checked
    beside the invariants.
    """

    @initialize(
        max_streams=st.integers(1, 5),
        spare_blocks=st.integers(0, 30),
        budget=st.integers(5, 40),
        lead_s=st.sampled_from([0.2, 1.0, 100.0]),
        high_water_s=st.sampled_from([1.1, 2.0, 100.0]),
        row_s=st.sampled_from([0.0, 0.003]),
    )
    def build(self, max_streams, spare_blocks, budget, lead_s, high_water_s, row_s):
        limits = msgspec.structs.replace(
            LIMITS,
            max_streams=max_streams,
            max_waiting=3,
            max_step_tokens=budget,
            num_blocks=12 + spare_blocks,
            max_unheard_s=lead_s,
            max_request_s=6.0,
        )
        self.clock = FakeClock()
        self.scheduler = make_scheduler(
            limits,
            SMALL_LAYOUT,
            self.clock,
            policy=DeadlinePolicy(high_water_s=high_water_s),
            costs=StepCosts(step_s=0.002, row_s=row_s, prefill_s=0.001),
        )
        self.runner = ScriptedRunner(SMALL_LAYOUT, limits.block_size)
        self.limits = limits
        self.plan: StepPlan | None = None
        self.next_id = 0
        self.segments: dict[int, int] = {}
        self.frames: dict[int, int] = {}
        self.spoken: dict[int, int] = {}
        self.ended: set[int] = set()
        self.over: set[int] = set()

    def requests(self):
        return st.sampled_from(sorted(self.segments))

    @rule(seed=st.integers(0, 100), key=st.sampled_from("ab"), is_batch=st.booleans())
    def start(self, seed, key, is_batch):
        options = RequestOptions(sampling=sampling(seed), key=key, is_batch=is_batch)
        self.scheduler.start(self.next_id, options)
        self.segments[self.next_id] = 0
        self.frames[self.next_id] = 0
        self.spoken[self.next_id] = 0
        self.next_id += 1

    @precondition(lambda self: self.segments)
    @rule(data=st.data(), num_phonemes=st.integers(1, 90))
    def append(self, data, num_phonemes):
        request_id = data.draw(self.requests())
        if request_id in self.ended:
            return
        index = self.segments[request_id]
        self.segments[request_id] += 1
        self.scheduler.append(request_id, index, prompt(num_phonemes, salt=index), num_phonemes)
        self.collect()

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
        samples = int(self.frames[request_id] * SMALL_LAYOUT.samples_per_frame * share)
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
                assert output.frame == self.frames[request_id]
                self.frames[request_id] += 1
            elif isinstance(output, SegmentSpoken):
                assert output.index == self.spoken[request_id]
                assert output.end_frame == self.frames[request_id]
                self.spoken[request_id] += 1
            else:
                self.over.add(request_id)
            if isinstance(output, Finished):
                assert output.num_frames == self.frames[request_id]
                if output.reason in {"end_of_speech", "guard"}:
                    assert self.spoken[request_id] == self.segments[request_id]

    @invariant()
    def consistent(self):
        if hasattr(self, "scheduler"):
            self.scheduler.check_invariants()

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
            for request_id, frames in self.frames.items():
                self.scheduler.report_playback(request_id, frames * SMALL_LAYOUT.samples_per_frame)
            if not plan.slices and not self.scheduler.num_open:
                break
            self.scheduler.commit(plan, self.runner.run(plan))
            self.collect()
        assert self.over == set(self.segments)
        assert self.scheduler.num_free_blocks == self.limits.num_blocks
        assert self.scheduler.num_running == self.scheduler.num_waiting == 0


SchedulerMachine.TestCase.settings = settings(
    max_examples=60,
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
TestSchedulerMachine = pytest.mark.slow(SchedulerMachine.TestCase)
