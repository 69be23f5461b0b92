"""One machine, one policy, one load, one seed."""

import math

import msgspec

from bench.simulator.figures import Figures, Window, summarise
from bench.simulator.machines import Machine
from bench.simulator.policies import Policy, true_capacity
from bench.simulator.traffic import Habits, Phase, callers, mean_context, mean_heard_s
from bench.simulator.world import Rules, World


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """What is run.

    Attributes:
        phases: The load over time; the first is for warming up and does not count.
        habits: What callers are like.
        seed: Of everything random.
    """

    machine: Machine
    policy: Policy
    phases: tuple[Phase, ...]
    habits: Habits = Habits()
    seed: int = 0


def admissible_streams(machine: Machine) -> int:
    """Listeners at which admission, by its own rule, is just full."""
    context = math.ceil(max(300.0, mean_context(machine)))
    return min(true_capacity(machine).most_streams(context), machine.max_streams)


def admissible_calls(machine: Machine, habits: Habits) -> float:
    """Calls a second at which it is."""
    return admissible_streams(machine) / mean_heard_s(machine, habits)


def run(scenario: Scenario) -> list[Figures]:
    """The figures of each phase but the first."""
    machine, habits = scenario.machine, scenario.habits
    streams = admissible_streams(machine)
    rules = Rules(
        streams=streams,
        max_attempts=habits.max_attempts,
        ends_at=sum(phase.seconds for phase in scenario.phases),
        seed=scenario.seed,
    )
    arrivals = callers(machine, scenario.phases, habits, streams, scenario.seed)
    world = World(machine, scenario.policy, arrivals, rules)
    calls = world.run()
    figures: list[Figures] = []
    at = scenario.phases[0].seconds
    for phase in scenario.phases[1:]:
        window = Window(
            at,
            at + phase.seconds,
            habits.max_attempts,
            streams * machine.layout.frames_per_second,
        )
        figures.append(summarise(calls, world.totals, window))
        at += phase.seconds
    return figures
