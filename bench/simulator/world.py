"""One run: the engine's scheduler and codec queue, callers and listeners, under a clock that is
moved.

The loop is that of `realtime.engine.core`: messages, schedule, run, commit, emit. A step takes what
the machine's formula says. Network and text front end take no time.
"""

import heapq
import math
from dataclasses import dataclass, field
from random import Random
from typing import Any

from bench.simulator.codec import CodecServer, Delivery
from bench.simulator.listener import Call
from bench.simulator.machines import Machine
from bench.simulator.policies import Policy, make_scheduler
from bench.simulator.traffic import Caller
from bench.simulator.voice import ScriptedVoice
from realtime.engine.plan import Output, RequestOptions, SamplingSettings, StepPlan
from realtime.messages import Finished, SegmentSpoken
from tests.fakes.clock import FakeClock

_SAMPLING = SamplingSettings(
    seed=0, temperature=0.6, top_k=0, top_p=0.9, min_p=0.0, repetition_penalty=1.0
)
_WAY_BACK_S = 0.05  # a caller who was told when to come back takes this long to dial


@dataclass
class Totals:
    """Counted over a run.

    Attributes:
        num_steps: Steps with work.
        num_rows: Rows of all of them.
        busy_s: Time that they took.
        codec_s: Time of codec calls.
        num_preempted: Times that a sequence lost its blocks.
        running: (instant, requests with a slot, of them parked, waiting), ten times a second.
    """

    num_steps: int = 0
    num_rows: int = 0
    busy_s: float = 0.0
    codec_s: float = 0.0
    num_preempted: int = 0
    running: list[tuple[float, int, int, int]] = field(default_factory=list)


@dataclass
class _Open:
    """A request that is not over.

    Attributes:
        call: Its record.
        caller: Who called.
        text_at: When each segment reached the engine.
        ends: Frame before which each finished segment ends.
    """

    call: Call
    caller: Caller
    text_at: list[float] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def text_of(self, frame: int) -> float:
        """When the text of a frame reached the engine."""
        segment = sum(end <= frame for end in self.ends)
        return self.text_at[min(segment, len(self.text_at) - 1)]


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What else a run depends on.

    Attributes:
        streams: Listeners at a load of 1.
        max_attempts: See `Habits`.
        ends_at: Nobody calls after this instant, not even again.
        seed: Of the machine's noise.
    """

    streams: int
    max_attempts: int
    ends_at: float
    seed: int


class World:
    """Runs callers, in order of arrival, against a policy on a machine."""

    def __init__(
        self, machine: Machine, policy: Policy, callers: list[Caller], rules: Rules
    ) -> None:
        self.clock = FakeClock(0.0)
        self.scheduler = make_scheduler(policy, machine, self.clock, rules.streams)
        self.calls: list[Call] = []
        self.totals = Totals()
        self._machine = machine
        self._callers = callers
        self._rules = rules
        self._random = Random(rules.seed)
        self._voice = ScriptedVoice(machine.layout)
        self._codec = CodecServer(machine, self._deliver)
        self._frame_s = 1.0 / machine.layout.frames_per_second
        self._open: dict[int, _Open] = {}
        self._events: list[tuple[float, int, str, Any]] = []
        self._num_events = 0
        self._sample_at = 0.0
        for number, caller in enumerate(callers):
            self._at(caller.at, "call", (number, 1))

    def run(self) -> list[Call]:
        """Until every call is over."""
        while self._events or self.scheduler.num_open:
            self._receive()
            self._step()
            self._sample()
        self._codec.run_until(math.inf)
        self.totals.codec_s = self._codec.busy_s
        self.totals.num_preempted = self.scheduler.num_preempted_total
        return self.calls

    def _at(self, at: float, kind: str, what: Any) -> None:
        self._num_events += 1
        heapq.heappush(self._events, (at, self._num_events, kind, what))

    def _receive(self) -> None:
        """Everything that has happened by now."""
        now = self.clock.now()
        if self._machine.is_codec_apart:
            self._codec.run_until(now)
        while self._events and self._events[0][0] <= now:
            at, _, kind, what = heapq.heappop(self._events)
            match kind:
                case "call":
                    self._call(at, *what)
                case "text":
                    self._append(at, *what)
                case _:
                    self._cancel(at, what)

    def _call(self, at: float, number: int, attempt: int) -> None:
        caller = self._callers[number]
        request_id = len(self.calls)
        call = Call(caller=number, attempt=attempt, offered_at=at)
        self.calls.append(call)
        self._open[request_id] = _Open(call, caller)
        self._voice.add(request_id, caller)
        self.scheduler.start(request_id, RequestOptions(sampling=_SAMPLING, key=caller.key))
        for index, segment in enumerate(caller.segments):
            after_s = segment.after_s if attempt == 1 else 0.0
            if after_s > 0:
                self._at(at + after_s, "text", (request_id, index))
            else:
                self._append(at, request_id, index)

    def _append(self, at: float, request_id: int, index: int) -> None:
        request = self._open.get(request_id)
        if request is None:
            return
        request.text_at.append(at)
        segment = request.caller.segments[index]
        # no two callers say the same, so nobody gains from another's cached prompt
        prompt = (1 + request.call.caller,) * segment.prompt_tokens
        self.scheduler.append(request_id, index, prompt, segment.num_phonemes)
        if index == len(request.caller.segments) - 1:
            self.scheduler.end_text(request_id)

    def _cancel(self, at: float, request_id: int) -> None:
        call = self.calls[request_id]
        call.interrupt(at, self._frame_s)
        self.scheduler.cancel(request_id)

    def _step(self) -> None:
        plan = self.scheduler.schedule()
        if plan.slices:
            self._compute(plan)
        outputs = self.scheduler.take_outputs()
        self._note(outputs)
        if outputs:
            self._codec.submit(outputs, self.clock.now())
        if not self._machine.is_codec_apart and self._codec.starts_at() <= self.clock.now():
            self.clock.advance(self._codec.call(self.clock.now()))
        elif not plan.slices:
            self._wait()

    def _compute(self, plan: StepPlan) -> None:
        num_rows = len(plan.slices)
        num_prefill = plan.num_tokens - num_rows
        num_context = sum(piece.first_position for piece in plan.slices)
        seconds = self._machine.step.predict(num_rows, num_prefill, num_context)
        seconds += self._machine.host.predict(num_rows, num_prefill)
        seconds = self._machine.noise.apply(seconds, self._random)
        result = self._voice.run(plan)
        self.clock.advance(seconds)
        self.scheduler.commit(plan, result)
        self.scheduler.observe(plan, seconds)
        self.totals.num_steps += 1
        self.totals.num_rows += num_rows
        self.totals.busy_s += seconds

    def _wait(self) -> None:
        """Stand still until something happens."""
        now = self.clock.now()
        until = min(
            self._events[0][0] if self._events else math.inf,
            self.scheduler.wake_at(),
            self._codec.starts_at(),
        )
        if until == math.inf:
            assert not self.scheduler.num_open, "requests are open and nothing can happen"
            return
        # A whisker later than a deadline, so that it has passed in floating point too.
        self.clock.advance(max(0.0, until - now) + 1e-9)

    def _note(self, outputs: list[Output]) -> None:
        """What the scheduler itself says of a request."""
        for output in outputs:
            request = self._open.get(output.request_id)
            if request is None:
                continue
            if isinstance(output, SegmentSpoken):
                request.ends.append(output.end_frame)
            elif isinstance(output, Finished):
                request.call.scheduled_at = output.timings.scheduled_at
                request.call.num_made = output.num_frames
                request.call.is_over = True

    def _deliver(self, delivery: Delivery) -> None:
        """What the codec let go reaches listeners and callers."""
        at = delivery.at
        samples_per_frame = self._machine.layout.samples_per_frame
        for request_id, count in delivery.counts.items():
            request = self._open[request_id]
            call, first = request.call, delivery.first_frames[request_id]
            is_first = call.first_sound_at is None
            call.hear(count, at, self._frame_s, request.text_of(first))
            if is_first and call.first_sound_at is not None and request.caller.cancel_ratio < 1:
                heard_s = request.caller.cancel_ratio * request.caller.num_frames * self._frame_s
                self._at(at + heard_s, "cancel", request_id)
            self.scheduler.report_playback(request_id, (first + count) * samples_per_frame)
        for failed in delivery.failed:
            call = self._open[failed.request_id].call
            call.answered_at, call.retry_after_s, call.is_over = at, failed.retry_after_s, True
            if failed.retry_after_s is not None and call.attempt < self._rules.max_attempts:
                back_at = at + failed.retry_after_s + _WAY_BACK_S
                if back_at < self._rules.ends_at:
                    self._at(back_at, "call", (call.caller, call.attempt + 1))

    def _sample(self) -> None:
        now = self.clock.now()
        if now >= self._sample_at:
            scheduler = self.scheduler
            self.totals.running.append(
                (now, scheduler.num_running, scheduler.num_parked, scheduler.num_waiting)
            )
            self._sample_at = now + 0.1
