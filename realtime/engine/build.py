"""Puts an engine together from the configuration and warms it up.

Knows every part's constructor, but no process, socket or signal.
"""

import os
import resource
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import structlog
import torch

from models.step_model import make_step_model
from models.weights import load_voice
from realtime.clock import Clock
from realtime.config import ServiceConfig, compiler_command, user_cache_dir
from realtime.engine.batch import StepBuffers
from realtime.engine.calibrate import Calibration, MachineCosts, StandingClock
from realtime.engine.capacity import Capacity, CapacityLimits, unlimited
from realtime.engine.codec_stage import CodecInline, CodecStage, CodecThread
from realtime.engine.core import EngineCore, EngineParts, Link, Sink
from realtime.engine.deadlines import DeadlinePolicy
from realtime.engine.guards import GuardLimits
from realtime.engine.kv_cache import KVCache, KVSizing, block_bytes, size_cache
from realtime.engine.memory import free_bytes
from realtime.engine.runner import ModelRunner
from realtime.engine.scheduler import Scheduler, SchedulerLimits
from realtime.engine.step_time import StepTime
from realtime.engine.voice import (
    SpokenVoice,
    speech_layout,
    speed_range,
    voice_facts,
    voice_folder,
)
from realtime.messages import EngineReady

_log = structlog.get_logger()


@dataclass(frozen=True)
class Engine:
    """A built engine, ready to step."""

    core: EngineCore
    sink: Sink
    stage: CodecStage
    ready: EngineReady


class EngineBuilder:
    """Builds an engine's parts from the configuration.

    Raises:
        FileNotFoundError, WeightsError: The voice is not usable.
        ValueError: Limits that contradict each other.
        CompilerMissingError, KernelBuildError: With `compile = "required"`.
    """

    def __init__(self, config: ServiceConfig, clock: Clock) -> None:
        self._config = config.engine
        self._clock = clock
        self.device = self._device()
        self.dtype = self._dtype()
        self.kv_dtype = self._kv_dtype()
        self._folder = voice_folder(config.voice)
        self.voice = load_voice(self._folder, device=self.device, dtype=self.dtype)
        sizing = self._size_cache()
        self._num_blocks = sizing.num_blocks
        self.limits = SchedulerLimits(
            max_streams=self._config.max_streams,
            max_waiting=self._config.max_waiting,
            max_step_tokens=self._config.max_step_tokens,
            block_size=self._config.block_size,
            num_blocks=self._num_blocks,
            max_unheard_s=self._config.max_unheard_s,
            max_request_s=self._config.max_request_s,
            max_wait_s=self._config.max_wait_s,
            prefix_cache=self._config.prefix_cache,
            num_kept_blocks=int(self._num_blocks * self._config.prefix_cache_ratio),
            guards=GuardLimits(
                repetition_s=self._config.max_repetition_s,
                silence_s=self._config.max_silence_s,
            ),
        )
        self.is_compiled = False

    def _kv_dtype(self) -> torch.dtype:
        if self._config.kv_dtype == "auto":
            return torch.float16 if self.device == "cpu" else self.dtype
        if self._config.kv_dtype == "bfloat16" and self.device == "cpu":
            raise ValueError("kv_dtype bfloat16 is for CUDA: the CPU kernels store float16")
        return getattr(torch, self._config.kv_dtype)

    def _size_cache(self) -> KVSizing:
        """Blocks that the configuration and this machine's memory allow; says why so many."""
        config, spec = self._config, self.voice.spec.model
        is_cuda = self.device != "cpu"
        sizing = size_cache(
            block_bytes(spec, config.block_size, self.kv_dtype),
            -(-spec.max_positions // config.block_size),
            memory_mib=config.kv_memory_mib,
            max_streams=config.max_streams,
            free_bytes=torch.cuda.mem_get_info(self.device)[0] if is_cuda else free_bytes(),
            margin_ratio=config.kv_memory_margin_ratio,
        )
        is_too_much = sizing.free_bytes is not None and sizing.num_bytes > sizing.free_bytes
        (_log.warning if is_too_much else _log.info)(
            "kv_cache",
            num_blocks=sizing.num_blocks,
            block_size=config.block_size,
            mib=sizing.num_bytes >> 20,
            free_mib=None if sizing.free_bytes is None else sizing.free_bytes >> 20,
            bound=sizing.bound,
        )
        return sizing

    def _device(self) -> str:
        if self._config.device == "auto":
            return "cuda" if torch.cuda.is_available() else "cpu"
        return self._config.device

    def _dtype(self) -> torch.dtype:
        if self._config.dtype == "auto":
            return torch.float32 if self.device == "cpu" else torch.bfloat16
        return getattr(torch, self._config.dtype)

    def capacity(self, costs: MachineCosts) -> Capacity:
        """What a machine of these costs bears."""
        config, layout = self._config, speech_layout(self.voice.spec)
        is_apart = config.codec_thread and (
            self.device != "cpu" or _num_processors() > config.threads
        )
        return Capacity(
            CapacityLimits(
                tokens_per_second=layout.tokens_per_second,
                tokens_per_frame=layout.tokens_per_frame,
                headroom_ratio=config.headroom_ratio,
            ),
            StepTime(costs.step, costs.step_beside_codec if is_apart else 1.0),
            StepTime(costs.codec),
            is_codec_apart=is_apart,
        )

    def scheduler(self, capacity: Capacity, clock: Clock, limits: SchedulerLimits) -> Scheduler:
        """A new scheduler over all blocks."""
        config = self._config
        policy = DeadlinePolicy(
            urgent_s=config.urgent_s,
            comfort_s=config.comfort_s,
            low_water_s=config.low_water_s,
            high_water_s=config.high_water_s,
        )
        return Scheduler(
            limits,
            speech_layout(self.voice.spec),
            clock,
            policy=policy,
            capacity=capacity,
        )

    def runner(self) -> ModelRunner:
        """The model on the fastest path that this machine has, and its KV cache."""
        spec, config = self.voice.spec.model, self._config
        wants_compiled = config.compile != "off" and self.device == "cpu"
        model, reason = make_step_model(
            self.voice.language_model,
            spec,
            device=self.device,
            compile=config.compile,
            compiler=compiler_command(),
            cache_directory=user_cache_dir(),
        )
        self.is_compiled = wants_compiled and reason is None
        if reason is not None:
            event, _, detail = reason.partition(": ")
            _log.warning(event, detail=detail, effect="plain torch, several times slower")
        buffers = StepBuffers(
            max_streams=config.max_streams,
            max_tokens=config.max_step_tokens,
            max_blocks=-(-spec.max_positions // config.block_size),
            block_size=config.block_size,
            num_codes=spec.codebook_size,
            device=self.device,
        )
        kv = KVCache.allocate(
            spec, self._num_blocks, config.block_size, device=self.device, dtype=self.kv_dtype
        )
        return ModelRunner(model, spec, kv, buffers)

    def codec_stage(self, codec_time: StepTime | None = None) -> CodecStage:
        """The codec with fresh state; it corrects `codec_time` by what its calls take."""
        return CodecStage(
            self.voice.codec_decoder, self._config.max_streams, self._clock, codec_time
        )

    def ready(self) -> EngineReady:
        """The engine's introduction."""
        spec = self.voice.spec
        return EngineReady(
            pid=os.getpid(),
            device=self.device,
            dtype=str(self.dtype).removeprefix("torch."),
            voices=voice_facts(spec, self._folder),
            speed_range=speed_range(spec),
            sample_rate_hz=spec.codec.sample_rate,
            samples_per_frame=spec.codec.samples_per_frame,
            tokens_per_frame=spec.codec.tokens_per_frame,
            tokens_per_second=spec.codec.tokens_per_second,
            max_streams=self._config.max_streams,
            num_blocks=self._num_blocks,
            block_size=self._config.block_size,
            is_compiled=self.is_compiled,
        )


def build_engine(
    config: ServiceConfig, link: Link, clock: Clock, *, on_error: Callable[[BaseException], None]
) -> Engine:
    """Load the voice, build every part and warm it up.

    Args:
        config: Resolved configuration.
        link: Where messages go.
        clock: Of every part.
        on_error: Called on the codec's thread when the codec failed.

    Raises:
        FileNotFoundError, ValueError: See `EngineBuilder`.
    """
    builder = EngineBuilder(config, clock)
    runner = builder.runner()
    capacity = builder.capacity(_calibrate(builder, runner, clock))
    scheduler = builder.scheduler(capacity, clock, builder.limits)
    stage = builder.codec_stage(capacity.codec_time)
    _log.info("capacity", most_streams=scheduler.most_streams)
    sink: Sink
    if config.engine.codec_thread:
        sink = CodecThread(
            stage,
            link.send,
            clock=clock,
            on_error=on_error,
            prepare=lambda: prepare_thread(config.engine.threads),
        )
    else:
        sink = CodecInline(stage, link.send)
    parts = EngineParts(
        link=link,
        scheduler=scheduler,
        runner=runner,
        sink=sink,
        voice=SpokenVoice(builder.voice.spec, builder.voice.tokenizer),
        clock=clock,
        codec_s=lambda: stage.decode_s,
        resident_bytes=resident_bytes,
    )
    return Engine(EngineCore(parts), sink, stage, builder.ready())


def _calibrate(builder: EngineBuilder, runner: ModelRunner, clock: Clock) -> MachineCosts:
    """Warm everything up and measure what it takes."""
    layout = speech_layout(builder.voice.spec)
    free = unlimited(layout.tokens_per_second, layout.tokens_per_frame)
    # the made-up streams are alike: with a prefix cache all would read the same few blocks, and
    # looking back would seem cheaper than it is for callers who say different things
    limits = msgspec.structs.replace(builder.limits, prefix_cache=False)
    scheduler = builder.scheduler(free, StandingClock(), limits)
    costs = Calibration(scheduler, runner, builder.codec_stage(), builder.voice, clock).run()
    _log.info(
        "calibrated",
        step_ms=round(costs.step.step_s * 1e3, 3),
        row_ms=round(costs.step.row_s * 1e3, 4),
        prefill_ms=round(costs.step.prefill_s * 1e3, 4),
        context_us=round(costs.step.context_s * 1e6, 4),
        codec_ms=round(costs.codec.step_s * 1e3, 3),
        codec_row_ms=round(costs.codec.row_s * 1e3, 4),
        step_beside_codec=round(costs.step_beside_codec, 2),
    )
    return costs


def prepare_thread(num_threads: int) -> None:
    """Torch settings of a thread that computes: few threads of its own, and no denormals, which
    cost 100x.
    """
    torch.set_num_threads(num_threads)
    torch.set_flush_denormal(True)


def _num_processors() -> int:
    """Processors that this process may use; where the system does not say, that there are."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def resident_bytes() -> int:
    """Memory of this process; where the system does not say, its peak."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * resource.getpagesize()
