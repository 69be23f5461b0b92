"""Ways to run the same scheduler: the engine's own, and what others do, by configuration alone."""

import msgspec

from bench.simulator.machines import Machine
from realtime.clock import Clock
from realtime.config import EngineConfig
from realtime.engine.capacity import Capacity, CapacityLimits, unlimited
from realtime.engine.deadlines import DeadlinePolicy
from realtime.engine.scheduler import Scheduler, SchedulerLimits
from realtime.engine.step_time import StepTime

_DEFAULTS = EngineConfig()
_NEVER = 1e9
_ANYWAY = DeadlinePolicy(
    urgent_s=0.0,
    comfort_s=0.0,
    low_water_s=0.0,
    high_water_s=_NEVER,
    max_stretch_ratio=_NEVER,
    max_start_frames=1,
)


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What is compared.

    Attributes:
        deadlines: Marks of the deadline scheduling.
        knows_capacity: Admission asks what the machine bears; else it lets in whom slots allow.
        cap_ratio: Slots as a share of what the machine bears; `None` takes the machine's.
        max_waiting: Places in the queue.
        max_wait_s: Longest foreseen wait.
    """

    name: str
    title: str
    deadlines: DeadlinePolicy = _ANYWAY
    knows_capacity: bool = False
    cap_ratio: float | None = None
    max_waiting: int = 1_000_000
    max_wait_s: float = _NEVER


POLICIES = {
    policy.name: policy
    for policy in (
        Policy(
            name="ours",
            title="deadlines and admission",
            deadlines=DeadlinePolicy(
                urgent_s=_DEFAULTS.urgent_s,
                comfort_s=_DEFAULTS.comfort_s,
                low_water_s=_DEFAULTS.low_water_s,
                high_water_s=_DEFAULTS.high_water_s,
            ),
            knows_capacity=True,
            max_waiting=_DEFAULTS.max_waiting,
            max_wait_s=_DEFAULTS.max_wait_s,
        ),
        Policy(name="fifo", title="FIFO, everyone admitted"),
        Policy(name="static_cap", title="static cap, set right", cap_ratio=1.0),
        Policy(name="static_cap_high", title="static cap, 25 % too high", cap_ratio=1.25),
        Policy(
            name="bounded_window",
            title="bounded window of 1 s",
            deadlines=msgspec.structs.replace(_ANYWAY, low_water_s=0.9, high_water_s=1.0),
        ),
    )
}


def true_capacity(machine: Machine) -> Capacity:
    """What admission reckons with on this machine."""
    layout = machine.layout
    return Capacity(
        CapacityLimits(
            tokens_per_second=layout.tokens_per_second,
            tokens_per_frame=layout.tokens_per_frame,
            headroom_ratio=_DEFAULTS.headroom_ratio,
        ),
        StepTime(machine.step),
        StepTime(machine.codec),
        is_codec_apart=machine.is_codec_apart,
    )


def make_scheduler(
    policy: Policy, machine: Machine, clock: Clock, admissible_streams: int
) -> Scheduler:
    """The engine's scheduler under a policy.

    Args:
        policy: See there.
        machine: Whose costs admission knows, if it asks.
        clock: Of every decision.
        admissible_streams: What `cap_ratio` refers to.
    """
    layout = machine.layout
    max_streams = machine.max_streams
    if policy.cap_ratio is not None:
        max_streams = max(1, int(policy.cap_ratio * admissible_streams))
    elif not policy.knows_capacity:
        max_streams *= 4
    limits = SchedulerLimits(
        max_streams=max_streams,
        max_waiting=policy.max_waiting,
        max_step_tokens=max(machine.max_step_tokens, max_streams),
        block_size=machine.block_size,
        num_blocks=machine.num_blocks,
        max_unheard_s=_DEFAULTS.max_unheard_s if policy.knows_capacity else _NEVER,
        max_request_s=_DEFAULTS.max_request_s,
        max_wait_s=policy.max_wait_s,
    )
    capacity = (
        true_capacity(machine)
        if policy.knows_capacity
        else unlimited(layout.tokens_per_second, layout.tokens_per_frame)
    )
    return Scheduler(limits, layout, clock, policy=policy.deadlines, capacity=capacity)
