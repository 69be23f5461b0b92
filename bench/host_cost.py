"""What the scheduler's Python costs a step, by streams: schedule, commit, emit.

    python -m bench.host_cost

A model that costs nothing, listeners who play in real time, the engine's own marks and admission:
every stream decodes in every step, except those that are parked. Expected: a few Python objects a
stream, flat per stream, and some microseconds a step besides. CPU time of the thread, means, as a
frame is complete every seventh step only.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Iterator

import msgspec

from bench.simulator.machines import H200
from bench.simulator.policies import POLICIES, make_scheduler
from bench.simulator.traffic import Caller, Segment
from bench.simulator.voice import ScriptedVoice
from realtime.engine.codec_queue import CodecQueue
from realtime.engine.plan import RequestOptions, SamplingSettings
from realtime.engine.step_time import StepCosts
from tests.fakes.clock import FakeClock

STREAMS = (1, 16, 64, 256)
_WARM_STEPS = 60
_SHORT_STEP_S = 1e-5  # so short that nobody's listener plays on
_PROMPT = (1,) * 20
_NUM_PHONEMES = 10_000  # nobody ends
_FREE = StepCosts(step_s=0.0, row_s=0.0, prefill_s=0.0)
_SAMPLING = SamplingSettings(
    seed=0, temperature=0.6, top_k=0, top_p=0.9, min_p=0.0, repetition_penalty=1.1
)


class Costs(msgspec.Struct, frozen=True):
    """Seconds of CPU time of one step.

    Attributes:
        schedule: Of choosing the step.
        commit: Of taking its tokens over.
        emit: Of handing frames to the codec.
        num_rows: Of the step.
    """

    schedule: float
    commit: float
    emit: float
    num_rows: int


class Bench:
    """A scheduler full of streams that never end."""

    def __init__(self, max_streams: int) -> None:
        machine = msgspec.structs.replace(H200, max_streams=max_streams, step=_FREE, codec=_FREE)
        self.token_s = 1.0 / machine.layout.tokens_per_second
        self.clock = FakeClock()
        self.scheduler = make_scheduler(POLICIES["ours"], machine, self.clock, max_streams)
        self._voice = ScriptedVoice(machine.layout)
        self._queue = CodecQueue()

    def start(self, request_id: int) -> None:
        """One more stream."""
        segments = (Segment(len(_PROMPT), _NUM_PHONEMES, _NUM_PHONEMES, 0.0),)
        self._voice.add(request_id, Caller(at=0.0, key="", segments=segments, cancel_ratio=1.0))
        self.scheduler.start(request_id, RequestOptions(sampling=_SAMPLING, key=str(request_id)))
        self.scheduler.append(request_id, 0, _PROMPT, _NUM_PHONEMES)

    def step(self, step_s: float) -> Costs:
        """One step that takes this long."""
        began = time.thread_time()
        plan = self.scheduler.schedule()
        scheduled = time.thread_time()
        result = self._voice.run(plan)
        self.clock.advance(step_s)
        ran = time.thread_time()
        self.scheduler.commit(plan, result)
        committed = time.thread_time()
        outputs = self.scheduler.take_outputs()
        if outputs:
            self._queue.add(outputs)
            self._queue.take()
        emitted = time.thread_time()
        return Costs(scheduled - began, committed - ran, emitted - committed, len(plan.slices))


def host_costs(num_streams: int, num_parked: int, num_steps: int) -> Iterator[Costs]:
    """Steps in which `num_streams` decode while `num_parked` others hold a slot."""
    bench = Bench(num_streams + num_parked)
    for request_id in range(num_parked):
        bench.start(request_id)
    while bench.scheduler.num_parked < num_parked:
        bench.step(_SHORT_STEP_S)
    for request_id in range(num_parked, num_parked + num_streams):
        bench.start(request_id)
        bench.step(_SHORT_STEP_S)  # each a step behind the one before: frames end in all steps
    step_s = _SHORT_STEP_S if num_parked else bench.token_s
    for _ in range(_WARM_STEPS):
        bench.step(step_s)
    for _ in range(num_steps):
        yield bench.step(step_s)


def report(num_steps: int) -> Iterator[str]:
    """Lines of the table, each as soon as it is measured."""
    yield "streams  parked   rows  schedule   commit     emit      all, us    us a row"
    for num_streams, num_parked in [*((n, 0) for n in STREAMS), (16, 240)]:
        costs = list(host_costs(num_streams, num_parked, num_steps))
        rows = statistics.fmean(cost.num_rows for cost in costs)
        parts = [
            1e6 * statistics.fmean(getattr(cost, name) for cost in costs)
            for name in ("schedule", "commit", "emit")
        ]
        cells = " ".join(f"{part:8.0f}" for part in parts)
        yield (
            f"{num_streams:7d} {num_parked:7d} {rows:6.0f}  {cells} {sum(parts):12.0f} "
            f"{sum(parts) / max(rows, 1):11.1f}"
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=140)
    for line in report(parser.parse_args().steps):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
