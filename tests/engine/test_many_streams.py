"""Ten thousand streams come, are fed, stall, are cancelled and vanish: nothing is left behind."""

import random
from collections import Counter

import msgspec
import pytest

from realtime.engine.deadlines import DeadlinePolicy
from realtime.engine.plan import NewFrame
from realtime.engine.step_time import StepCosts
from realtime.messages import Failed, Finished
from tests.engine import helpers
from tests.engine.helpers import Driver, prompt
from tests.fakes.runner import ScriptedRunner

pytestmark = pytest.mark.slow
NUM_STREAMS = 10_000
LIMITS = msgspec.structs.replace(
    helpers.LIMITS,
    max_streams=64,
    max_waiting=64,
    max_step_tokens=128,
    num_blocks=64 * 6,  # fewer than all streams may come to hold: some are preempted
    max_wait_s=4.0,
    max_unheard_s=1.5,
)
# 48 listeners keep their rate
COSTS = StepCosts(step_s=0.001, row_s=0.00023, prefill_s=0.00002)


class Crowd:
    """Callers with a plan each, drawn from one seed.

    A caller speaks one to three segments, possibly late; some cancel, some stop reading, and
    whoever is told to come back later does not.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        runner = ScriptedRunner(
            helpers.LAYOUT, LIMITS.block_size, end_probability=0.3, reads_cache=False
        )
        self.driver = Driver(
            LIMITS, runner=runner, checks=False, policy=DeadlinePolicy(), costs=COSTS, step_s=0.004
        )
        self.num_started = 0
        self.late_text: dict[int, int] = {}
        self.readers: dict[int, int] = {}
        self.cancelled: set[int] = set()
        self.frames: Counter[int] = Counter()
        self.last_messages: dict[int, str] = {}

    @property
    def open(self) -> list[int]:
        return list(self.readers)

    def arrive(self) -> None:
        request_id, self.num_started = self.num_started, self.num_started + 1
        self.readers[request_id] = 0
        self.driver.start(
            request_id,
            key=self.random.choice("abc"),
            is_batch=self.random.random() < 0.1,
        )
        self._append(request_id, 0)
        if self.random.random() < 0.6:
            self.driver.scheduler.end_text(request_id)
        else:
            self.late_text[request_id] = self.random.randint(1, 2)

    def _append(self, request_id: int, index: int) -> None:
        length = self.random.randint(2, 25)
        self.driver.scheduler.append(request_id, index, prompt(length, salt=index), length)

    def happen(self) -> None:
        """Whatever callers do between two steps."""
        scheduler = self.driver.scheduler
        for request_id in list(self.late_text):
            if self.random.random() < 0.02:
                self._append(request_id, 1 + self.late_text[request_id])
                self.late_text[request_id] -= 1
                if not self.late_text[request_id]:
                    del self.late_text[request_id]
                    scheduler.end_text(request_id)
        if self.readers and self.random.random() < 0.15:
            request_id = self.random.choice(self.open)
            scheduler.cancel(request_id)
            self.cancelled.add(request_id)
        for request_id in self.random.sample(self.open, min(8, len(self.readers))):
            if request_id % 17:  # the others do not read at all
                heard = self.frames[request_id] * helpers.LAYOUT.samples_per_frame
                scheduler.report_playback(request_id, heard, heard // 2)

    def collect(self) -> None:
        outputs, self.driver.outputs = self.driver.outputs, []
        for output in outputs:
            request_id = output.request_id
            assert request_id not in self.last_messages, "output after a request's last message"
            if isinstance(output, NewFrame):
                assert output.frame == self.frames[request_id]
                self.frames[request_id] += 1
            elif isinstance(output, Finished | Failed):
                reason = output.reason if isinstance(output, Finished) else output.code
                self.last_messages[request_id] = reason
                self.readers.pop(request_id, None)
                self.late_text.pop(request_id, None)


def test_ten_thousand_streams_leave_nothing_behind():
    crowd = Crowd(seed=20261201)
    scheduler = crowd.driver.scheduler
    num_idle = 0
    while crowd.num_started < NUM_STREAMS or scheduler.num_open:
        if crowd.num_started < NUM_STREAMS and len(crowd.readers) < 60:
            crowd.arrive()
        crowd.happen()
        is_busy = crowd.driver.step()
        crowd.collect()
        if not is_busy:
            crowd.driver.clock.advance(0.05)
            num_idle += 1
            for request_id in crowd.open:  # who does not read is given up on
                if num_idle > 200 and request_id % 17 == 0:
                    scheduler.cancel(request_id)
        if crowd.random.random() < 0.01:
            scheduler.check_invariants()
    scheduler.check_invariants()
    assert len(crowd.last_messages) == NUM_STREAMS
    assert scheduler.num_running == scheduler.num_waiting == scheduler.num_parked == 0
    assert scheduler.num_free_blocks == LIMITS.num_blocks
    ends = Counter(crowd.last_messages.values())
    assert set(ends) == {"end_of_speech", "cancelled", "at_capacity", "guard"}
    assert min(ends["end_of_speech"], ends["cancelled"], ends["at_capacity"]) > 1_000
    assert scheduler.num_preempted_total > 0
