"""Named sets of runs, each with the question that it answers."""

from collections.abc import Iterator

import msgspec

from bench.simulator.figures import Figures
from bench.simulator.machines import MACHINES
from bench.simulator.policies import POLICIES
from bench.simulator.scenario import Scenario, run
from bench.simulator.traffic import Habits, Phase


class Study(msgspec.Struct, frozen=True, kw_only=True):
    """A set of runs.

    Attributes:
        question: What it is for.
        machine: Name of the machine.
        loads: Steady loads, each a run of its own.
        then: A load that follows in the same run.
        before: Load while the run warms up; `None` is the same as what follows.
        policies: Names of policies.
        num_seeds: Runs of each.
        warm_s: Time before calls count.
        seconds: Time during which they count, at each load.
        habits: What callers are like.
    """

    question: str
    machine: str
    loads: tuple[float, ...]
    then: float | None = None
    before: float | None = None
    policies: tuple[str, ...] = tuple(POLICIES)
    num_seeds: int = 1
    warm_s: float = 40.0
    seconds: float = 40.0
    habits: Habits = Habits()


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a study."""

    study: str
    policy: str
    load: float
    seed: int


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of one stretch of a run.

    Attributes:
        load: Offered in this stretch.
        after: Load of the stretch before it, where that was another one.
    """

    policy: str
    load: float
    after: float | None
    seed: int
    figures: Figures


_RIVALS = ("ours", "fifo", "static_cap", "bounded_window")

STUDIES = {
    "h200": Study(
        question="one H200, Orpheus-3B, Poisson arrivals: below and above what is admissible",
        machine="h200",
        loads=(0.9, 1.5),
        policies=("ours", "fifo", "static_cap"),
        warm_s=30.0,
        seconds=20.0,
    ),
    "h200-retry": Study(
        question="the load falls to 80 % after an overload: do those who come back get in?",
        machine="h200",
        loads=(1.5,),
        then=0.8,
        policies=("ours",),
        warm_s=30.0,
        seconds=30.0,
    ),
    "h200-snac": Study(
        question="the same with SNAC decoded exactly, three frames of look-ahead",
        machine="h200-snac",
        loads=(0.9, 1.5),
        policies=("ours",),
        seconds=20.0,
    ),
    "h200-host": Study(
        question="the same with this engine's own Python on top of every step",
        machine="h200-host",
        loads=(0.9, 1.5),
        policies=("ours",),
        seconds=20.0,
    ),
    "h200-noisy": Study(
        question="the same with steps that vary by 10 % and pauses of 20 ms",
        machine="h200-noisy",
        loads=(0.9, 1.5),
        policies=("ours",),
        seconds=20.0,
    ),
    "h200-burst": Study(
        question="twenty callers at a time",
        machine="h200",
        loads=(0.9,),
        policies=("ours",),
        habits=Habits(burst_size=20),
        seconds=20.0,
    ),
    "h200-step": Study(
        question="the load rises to 300 % within an instant, on a machine that was nearly idle",
        machine="h200",
        loads=(3.0,),
        before=0.1,
        policies=("ours",),
        warm_s=10.0,
        seconds=30.0,
    ),
    "cpu": Study(
        question="default voice on two Zen 3 cores, Poisson arrivals",
        machine="cpu",
        loads=(0.5, 0.9, 1.2, 1.5, 2.0),
        seconds=100.0,
    ),
    "cpu-noisy": Study(
        question="the same with steps that vary by 10 % and pauses of 20 ms",
        machine="cpu-noisy",
        loads=(0.9, 1.5),
        policies=_RIVALS,
        num_seeds=2,
        seconds=120.0,
    ),
}


def jobs(name: str) -> Iterator[Job]:
    """All runs of a study."""
    study = STUDIES[name]
    for policy in study.policies:
        for load in study.loads:
            for seed in range(study.num_seeds):
                yield Job(study=name, policy=policy, load=load, seed=seed)


def outcome(job: Job) -> list[Row]:
    """Run."""
    study = STUDIES[job.study]
    before = job.load if study.before is None else study.before
    loads = [job.load] if study.then is None else [job.load, study.then]
    phases = (Phase(study.warm_s, before), *(Phase(study.seconds, load) for load in loads))
    scenario = Scenario(
        machine=MACHINES[study.machine],
        policy=POLICIES[job.policy],
        phases=phases,
        habits=study.habits,
        seed=job.seed,
    )
    befores = [before, *loads]
    return [
        Row(
            policy=job.policy,
            load=load,
            after=previous if previous != load else None,
            seed=job.seed,
            figures=figures,
        )
        for load, previous, figures in zip(loads, befores, run(scenario), strict=False)
    ]
