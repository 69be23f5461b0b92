"""What steps and codec calls take on this machine, measured when the engine starts.

The measurement also warms the engine up.
Runs the engine's own parts on made-up requests; keeps nothing but the costs.
"""

import threading
from collections import defaultdict
from statistics import median

import msgspec
import torch

from models.codec.decoder import CodecDecoder
from models.weights import LoadedVoice
from realtime.clock import Clock
from realtime.engine.codec_stage import CodecStage
from realtime.engine.plan import RequestOptions, StepPlan
from realtime.engine.runner import ModelRunner
from realtime.engine.scheduler import Scheduler
from realtime.engine.step_time import StepCosts, StepSample, fit
from realtime.engine.voice import SpokenVoice
from realtime.messages import SamplingParams

_BATCHES = (1, 4, 16, 64)
_NUM_FRAMES = 3
_STREAMS_BESIDE_CODEC = 8
_SHORT_PROMPT, _LONG_PROMPT = 16, 400  # symbols


class MachineCosts(msgspec.Struct, frozen=True):
    """Seconds by work.

    Attributes:
        step: Of an engine step.
        codec: Of a codec call; its rows are streams with a frame each.
        step_beside_codec: How many times longer steps take while the codec is busy on another
            thread: caches, memory and the interpreter are shared.
    """

    step: StepCosts
    codec: StepCosts
    step_beside_codec: float


class StandingClock:
    """Time does not pass for the made-up listeners: none of them runs dry or falls behind."""

    def now(self) -> float:
        """Always the same instant."""
        return 0.0


class Calibration:
    """One run over batches of growing size, then over a long context.

    Args:
        scheduler: A fresh one that admits everyone, on a `StandingClock`.
        runner: The engine's.
        stage: A fresh codec stage.
        voice: What speaks.
        clock: Of the measurement.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        runner: ModelRunner,
        stage: CodecStage,
        voice: LoadedVoice,
        clock: Clock,
    ) -> None:
        self._scheduler = scheduler
        self._runner = runner
        self._stage = stage
        self._clock = clock
        self._decoder = voice.codec_decoder
        self._spoken = SpokenVoice(voice.spec, voice.tokenizer)
        self._symbol = voice.tokenizer.symbols[-1]
        self._longest = voice.spec.model.max_positions // 2
        self._num_steps = _NUM_FRAMES * voice.spec.model.tokens_per_frame
        self._steps: dict[tuple[int, int, int], list[float]] = defaultdict(list)
        self._calls: dict[tuple[int, int, int], list[float]] = defaultdict(list)

    def run(self) -> MachineCosts:
        """Measure."""
        limits = self._scheduler.limits
        batches = [count for count in _BATCHES if count <= limits.max_streams]
        for count in batches:
            self._speak(count, _SHORT_PROMPT)
        self._speak(min(4, limits.max_streams), min(_LONG_PROMPT, self._longest))
        step, codec = _fit(self._steps), _fit(self._calls)
        return MachineCosts(step, codec, self._beside_codec(step))

    def _beside_codec(self, step: StepCosts) -> float:
        """Measure once more while another thread decodes without a pause."""
        self._steps.clear()
        is_done = threading.Event()
        codec = threading.Thread(target=_decode_until, args=(self._decoder, is_done), daemon=True)
        codec.start()
        try:
            self._speak(
                min(_STREAMS_BESIDE_CODEC, self._scheduler.limits.max_streams),
                min(_LONG_PROMPT, self._longest),
            )
        finally:
            is_done.set()
            codec.join()
        ratios = [
            second / step.predict(*work)
            for work, seconds in self._steps.items()
            for second in seconds
        ]
        return max(1.0, median(ratios))

    def _speak(self, num_streams: int, num_symbols: int) -> None:
        options = RequestOptions(sampling=self._spoken.settings(SamplingParams(seed=0)))
        prompt = self._spoken.prompt(self._symbol * num_symbols)
        for request_id in range(num_streams):
            self._scheduler.start(request_id, options)
            self._scheduler.append(request_id, 0, prompt, 10 * num_symbols)
        num_steps = 0
        while num_steps < self._num_steps:
            is_prefill = self._step()
            num_steps += not is_prefill
        for request_id in range(num_streams):
            self._scheduler.cancel(request_id)
        self._stage.decode(self._scheduler.take_outputs())

    def _step(self) -> bool:
        """Run and measure one step; whether a prompt was part of it."""
        started_at = self._clock.now()
        plan = self._scheduler.schedule()
        self._scheduler.commit(plan, self._runner.run(plan))
        self._steps[_work(plan)].append(self._clock.now() - started_at)
        outputs = self._scheduler.take_outputs()
        if outputs:
            started_at = self._clock.now()
            self._stage.decode(outputs)
            self._calls[len({output.request_id for output in outputs}), 0, 0].append(
                self._clock.now() - started_at
            )
        return plan.num_tokens > len(plan.slices)


@torch.inference_mode()
def _decode_until(decoder: CodecDecoder, is_done: threading.Event) -> None:
    """Keep the codec busy."""
    spec = decoder.spec
    state = decoder.new_state(_STREAMS_BESIDE_CODEC)
    codes = torch.zeros(
        (_STREAMS_BESIDE_CODEC, 1, spec.tokens_per_frame),
        dtype=torch.int64,
        device=state.hops.device,
    )
    while not is_done.is_set():
        _, state = decoder(codes, state)


def _work(plan: StepPlan) -> tuple[int, int, int]:
    """Rows, further tokens, and context tokens rounded so that equal steps meet."""
    num_rows = len(plan.slices)
    context = sum(piece.first_position for piece in plan.slices)
    step = 32 * num_rows
    return num_rows, plan.num_tokens - num_rows, context // step * step


def _fit(measured: dict[tuple[int, int, int], list[float]]) -> StepCosts:
    return fit(StepSample(*work, median(seconds)) for work, seconds in measured.items())
