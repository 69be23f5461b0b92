"""One step of the engine: receive -> schedule -> run -> commit -> emit. Start reading here.

Knows messages and the three parts that it joins; no sockets, no tensors.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, assert_never

from realtime.clock import Clock
from realtime.engine.plan import (
    Output,
    Phase,
    RequestOptions,
    SamplingSettings,
    StepPlan,
    StepResult,
)
from realtime.engine.scheduler import Scheduler
from realtime.errors import ShuttingDownError, SpeechError, UnknownVoiceError
from realtime.messages import (
    AppendSegment,
    CancelRequest,
    CapacityReport,
    EndText,
    FromEngine,
    PlaybackReport,
    SamplingParams,
    Shutdown,
    StartRequest,
    ToEngine,
)

REPORT_INTERVAL_S = 0.5
_SMOOTHING = 0.1  # weight of the newest step in `step_s`


class Link(Protocol):
    """The engine's end of `realtime.link`."""

    def send(self, messages: Iterable[FromEngine]) -> None:
        """Send in order."""
        ...

    def receive(self, timeout_s: float) -> list[ToEngine]:
        """What has arrived, waiting up to `timeout_s` for the first."""
        ...


class Runner(Protocol):
    """Computes a plan."""

    def run(self, plan: StepPlan) -> StepResult:
        """One forward pass."""
        ...


class Sink(Protocol):
    """Decodes and emits outputs in order; see `realtime.engine.codec_stage`."""

    def submit(self, outputs: list[Output]) -> None:
        """Take over outputs."""
        ...

    def close(self) -> None:
        """Emit what was submitted, then stop."""
        ...


class Prompter(Protocol):
    """What the core needs to know of the voice."""

    @property
    def num_speakers(self) -> int:
        """Speakers that requests may ask for."""
        ...

    def prompt(self, phonemes: str, speaker: int, speed: float) -> tuple[int, ...]:
        """Token ids of a segment's prompt.

        Raises:
            SpeechError: The phonemes cannot be spoken.
        """
        ...

    def settings(self, params: SamplingParams) -> SamplingSettings:
        """A request's sampling, completed by the voice's defaults."""
        ...


@dataclass(frozen=True, kw_only=True)
class EngineParts:
    """What an engine is made of; everything is used from the loop thread only.

    Attributes:
        codec_s: Smoothed time of a codec call, for the capacity report.
        resident_bytes: Memory of the process, for the capacity report.
    """

    link: Link
    scheduler: Scheduler
    runner: Runner
    sink: Sink
    voice: Prompter
    clock: Clock
    codec_s: Callable[[], float]
    resident_bytes: Callable[[], int]


class EngineCore:
    """Joins link, scheduler, runner and codec; every method runs on the loop thread.

    Attributes:
        busy_since: When the running forward pass began; `None` between passes.
        is_stopping: Set by `Shutdown`.
    """

    def __init__(self, parts: EngineParts) -> None:
        self.scheduler = parts.scheduler
        self._link = parts.link
        self._runner = parts.runner
        self._sink = parts.sink
        self._voice = parts.voice
        self._clock = parts.clock
        self._codec_s = parts.codec_s
        self._resident_bytes = parts.resident_bytes
        self._step_s = 0.0
        self._num_steps = 0
        self._phase_s = dict.fromkeys((*(phase.value for phase in Phase), "mixed", "host"), 0.0)
        self._report_at = parts.clock.now()
        self._is_draining = False
        self.busy_since: float | None = None
        self.is_stopping = False

    @property
    def is_drained(self) -> bool:
        """Whether `drain` was called and no request is left."""
        return self._is_draining and not self.scheduler.num_open

    def drain(self) -> None:
        """Refuse new requests from now on; open ones go on."""
        self._is_draining = True

    def step(self, *, is_idle: bool = False) -> bool:
        """Advance every scheduled sequence by one forward pass and emit what it produced.

        Args:
            is_idle: There was nothing to compute last time: wait for a message, at most until the
                next report is due.

        Returns:
            Whether anything was computed.

        Raises:
            LinkClosedError: The gateway is gone.
        """
        self._report()
        self._receive(self._patience_s() if is_idle else 0.0)
        started_at = self._clock.now()
        plan = self.scheduler.schedule()
        if plan.slices:
            self.busy_since = self._clock.now()
            result = self._runner.run(plan)
            self._note_pass(plan, self._clock.now() - self.busy_since)
            self.busy_since = None
            self.scheduler.commit(plan, result)
        outputs = self.scheduler.take_outputs()
        if outputs:
            self._sink.submit(outputs)
        self._note_step(plan, self._clock.now() - started_at)
        return bool(plan.slices)

    def _patience_s(self) -> float:
        """How long to wait for a message: until a report is due or a stream wakes."""
        until = min(self._report_at, self.scheduler.wake_at())
        return max(0.0, until - self._clock.now())

    def _note_pass(self, plan: StepPlan, duration_s: float) -> None:
        """Account a forward pass by what it did; what is left of the step's time is the host's."""
        phases = {piece.phase.value for piece in plan.slices}
        self._phase_s[phases.pop() if len(phases) == 1 else "mixed"] += duration_s
        self._phase_s["host"] -= duration_s

    def _note_step(self, plan: StepPlan, duration_s: float) -> None:
        if not plan.slices:
            self._step_s = 0.0
            return
        self._num_steps += 1
        self._phase_s["host"] += duration_s
        self.scheduler.observe(plan, duration_s)
        self._step_s += _SMOOTHING * (duration_s - self._step_s) if self._step_s else duration_s

    def _receive(self, timeout_s: float) -> None:
        for message in self._link.receive(timeout_s):
            self._apply(message)

    def _apply(self, message: ToEngine) -> None:
        match message:
            case StartRequest():
                self._start(message)
            case AppendSegment():
                self._append(message)
            case EndText(request_id=request_id):
                self.scheduler.end_text(request_id)
            case CancelRequest(request_id=request_id, sent_at=sent_at):
                self.scheduler.cancel(request_id, sent_at)
            case PlaybackReport():
                self.scheduler.report_playback(
                    message.request_id, message.sent_samples, message.played_samples
                )
            case Shutdown():
                self.is_stopping = True
            case _:
                assert_never(message)

    def _append(self, message: AppendSegment) -> None:
        request_id, phonemes = message.request_id, message.phonemes
        options = self.scheduler.options_of(request_id)
        if options is None:
            return
        try:
            prompt = self._voice.prompt(phonemes, options.speaker, options.speed)
        except SpeechError as error:
            self.scheduler.fail(request_id, error)
        else:
            self.scheduler.append(request_id, message.index, prompt, len(phonemes))

    def _start(self, message: StartRequest) -> None:
        self.scheduler.start(
            message.request_id,
            RequestOptions(
                sampling=self._voice.settings(message.sampling),
                speaker=message.speaker,
                speed=message.speed,
                key=message.key,
                is_batch=message.is_batch,
                wants_audio=message.wants_audio,
                wants_tokens=message.wants_tokens,
            ),
        )
        if self._is_draining:
            self.scheduler.fail(message.request_id, ShuttingDownError("the engine is draining"))
        elif not 0 <= message.speaker < self._voice.num_speakers:
            error = UnknownVoiceError(
                f"no speaker {message.speaker}; there are {self._voice.num_speakers}"
            )
            self.scheduler.fail(message.request_id, error)

    def _report(self) -> None:
        """Send load and heartbeat when due."""
        now = self._clock.now()
        if now < self._report_at:
            return
        self._report_at = now + REPORT_INTERVAL_S
        scheduler = self.scheduler
        report = CapacityReport(
            at=now,
            num_running=scheduler.num_running,
            num_waiting=scheduler.num_waiting,
            max_streams=scheduler.limits.max_streams,
            free_blocks=scheduler.num_free_blocks,
            num_blocks=scheduler.limits.num_blocks,
            num_tokens_total=scheduler.num_tokens_total,
            num_steps_total=self._num_steps,
            num_parked=scheduler.num_parked,
            num_late_total=scheduler.num_late_total,
            num_refused_total=dict(scheduler.num_refused),
            num_preempted_total=scheduler.num_preempted_total,
            num_prefilled_tokens_total=scheduler.num_prefilled_total,
            num_hit_tokens_total=scheduler.num_prefix_hits_total,
            num_mended_total={str(fault): n for fault, n in scheduler.num_mended.items()},
            num_given_up_total={str(fault): n for fault, n in scheduler.num_given_up.items()},
            phase_s_total=dict(self._phase_s),
            most_streams=scheduler.most_streams,
            step_correction=scheduler.step_correction,
            step_s=self._step_s,
            codec_s=self._codec_s() if scheduler.num_running else 0.0,
            resident_bytes=self._resident_bytes(),
        )
        self._link.send([report])
