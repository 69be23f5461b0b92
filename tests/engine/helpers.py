"""Small schedulers and the loop that drives them."""

from realtime.engine.capacity import Capacity, CapacityLimits
from realtime.engine.deadlines import DeadlinePolicy
from realtime.engine.plan import NewFrame, Output, RequestOptions, SamplingSettings, SpeechLayout
from realtime.engine.scheduler import Scheduler, SchedulerLimits
from realtime.engine.step_time import StepCosts, StepTime
from realtime.messages import Finished
from tests.fakes.clock import FakeClock
from tests.fakes.runner import ScriptedRunner

LAYOUT = SpeechLayout(
    tokens_per_frame=7,
    codebook_size=16,
    audio_base_id=50,
    end_of_speech_id=49,
    max_positions=256,
    sample_rate_hz=24000,
    samples_per_frame=2048,
    min_s_per_phoneme=0.03,
    max_s_per_phoneme=0.15,
    extra_s=0.2,
)
LIMITS = SchedulerLimits(
    max_streams=4,
    max_waiting=8,
    max_step_tokens=64,
    block_size=8,
    num_blocks=4 * 32,
    max_unheard_s=1000.0,
    max_request_s=1000.0,
    max_wait_s=1000.0,
)
# nobody is ever far enough ahead to be parked
UNPACED = DeadlinePolicy(high_water_s=1e9)


def capacity(
    layout: SpeechLayout = LAYOUT, costs: StepCosts | None = None, headroom_ratio: float = 0.0
) -> Capacity:
    """Of a machine on which steps take no time, unless `costs` says otherwise."""
    costs = costs or StepCosts(step_s=0.0, row_s=0.0, prefill_s=0.0)
    return Capacity(
        CapacityLimits(
            tokens_per_second=layout.tokens_per_second,
            tokens_per_frame=layout.tokens_per_frame,
            headroom_ratio=headroom_ratio,
        ),
        StepTime(costs),
    )


def make_scheduler(limits=LIMITS, layout=LAYOUT, clock=None, *, policy=UNPACED, costs=None):
    """A scheduler without a runner."""
    return Scheduler(
        limits,
        layout,
        clock or FakeClock(),
        policy=policy,
        capacity=capacity(layout, costs),
    )


def settings(seed: int = 0, **changes: float) -> SamplingSettings:
    values = {
        "temperature": 0.7,
        "top_k": 0,
        "top_p": 1.0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
    }
    return SamplingSettings(seed=seed, **{**values, **changes})


def prompt(num_phonemes: int, salt: int = 0) -> tuple[int, ...]:
    """[TEXT_START] phonemes [TEXT_END]."""
    return (47, *((salt + i) % 40 + 1 for i in range(num_phonemes)), 48)


class Driver:
    """A scheduler, a scripted runner and everything that came out, by request."""

    def __init__(
        self,
        limits=LIMITS,
        layout=LAYOUT,
        runner=None,
        clock=None,
        checks=True,
        policy=UNPACED,
        costs=None,
        step_s=0.01,
    ):
        self.step_s = step_s
        self.checks = checks
        self.clock = clock or FakeClock()
        self.scheduler = make_scheduler(limits, layout, self.clock, policy=policy, costs=costs)
        self.runner = runner or ScriptedRunner(layout, limits.block_size)
        self.outputs: list[Output] = []

    def start(self, request_id: int, *, seed: int | None = None, **options) -> None:
        sampling = settings(request_id if seed is None else seed)
        self.scheduler.start(request_id, RequestOptions(sampling=sampling, **options))

    def say(
        self, request_id: int, *lengths: int, seed: int | None = None, ends: bool = True, **options
    ) -> None:
        """Open a request with segments of these many phonemes."""
        self.start(request_id, seed=seed, **options)
        for index, length in enumerate(lengths):
            self.scheduler.append(request_id, index, prompt(length, salt=index), length)
        if ends:
            self.scheduler.end_text(request_id)

    def step(self) -> bool:
        """One step; whether there was anything to do."""
        plan = self.scheduler.schedule()
        if plan.slices:
            self.scheduler.commit(plan, self.runner.run(plan))
            self.clock.advance(self.step_s)
        self.outputs += self.scheduler.take_outputs()
        if self.checks:
            self.scheduler.check_invariants()
        return bool(plan.slices)

    def run(self, max_steps: int = 20_000) -> None:
        """Until nothing is left to do."""
        for _ in range(max_steps):
            if not self.step():
                return
        raise AssertionError("does not come to rest")

    def of(self, request_id: int) -> list[Output]:
        return [output for output in self.outputs if output.request_id == request_id]

    def codes(self, request_id: int) -> list[tuple[int, ...]]:
        return [output.codes for output in self.of(request_id) if isinstance(output, NewFrame)]

    def finished(self, request_id: int) -> Finished:
        (last,) = [output for output in self.of(request_id) if isinstance(output, Finished)]
        assert self.of(request_id)[-1] is last
        return last
