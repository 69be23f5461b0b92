"""The engine process: build, warm up, serve one link, end at once when anything is wrong.

Knows the process (threads, signals, exit); what a step does is `realtime.engine.core`'s.
"""

import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import structlog
import torch

from models.spec import VoiceSpec
from models.step_model import make_step_model
from models.tokenizer import PhonemeTokenizer, UnknownSymbolError
from models.weights import LoadedVoice, load_voice
from realtime.clock import Clock, MonotonicClock
from realtime.config import ServiceConfig, VoiceConfig, compiler_command, user_cache_dir
from realtime.engine.batch import StepBuffers
from realtime.engine.codec_stage import CodecInline, CodecStage, CodecThread
from realtime.engine.core import EngineCore, Link, Sink
from realtime.engine.kv_cache import KVCache, choose_num_blocks
from realtime.engine.plan import SamplingSettings, SpeechLayout
from realtime.engine.runner import ModelRunner
from realtime.engine.scheduler import Scheduler, SchedulerLimits
from realtime.errors import UnspeakableTextError
from realtime.link import LinkClosedError, ThreadLink
from realtime.messages import EngineReady, SamplingParams
from realtime.telemetry import logs

EXIT_FAILED = 70  # EX_SOFTWARE: a step or the codec failed, or a step hung
_WATCH_INTERVAL_S = 0.2
_SWITCH_INTERVAL_S = 0.0005  # loop and codec thread hand the interpreter over in much less than a step
_SHIPPED_VOICES = Path(__file__).resolve().parents[2] / "models" / "voices"

_log = structlog.get_logger()


class SpokenVoice:
    """The loaded voice as the core sees it: names, prompts, sampling defaults."""

    def __init__(self, spec: VoiceSpec, tokenizer: PhonemeTokenizer) -> None:
        self._spec = spec
        self._tokenizer = tokenizer

    @property
    def names(self) -> tuple[str, ...]:
        """The voice's name and its aliases."""
        return self._spec.name, *self._spec.aliases

    def prompt(self, phonemes: str) -> tuple[int, ...]:
        """[TEXT_START] phonemes [TEXT_END].

        Raises:
            UnspeakableTextError: The voice does not know a symbol, or there is none.
        """
        if not phonemes:
            raise UnspeakableTextError("a segment without phonemes")
        try:
            ids = self._tokenizer.encode(phonemes)
        except UnknownSymbolError as error:
            raise UnspeakableTextError(str(error)) from error
        return self._spec.model.text_start_id, *ids, self._spec.model.text_end_id

    def settings(self, params: SamplingParams) -> SamplingSettings:
        """The caller's wishes over the voice's defaults."""
        wished = {
            name: getattr(params, name)
            for name in ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
        }
        defaults = self._spec.sampling
        return SamplingSettings(
            seed=params.seed,
            **{
                name: getattr(defaults, name) if value is None else value
                for name, value in wished.items()
            },
        )


@dataclass(frozen=True)
class Engine:
    """A built engine, ready to step."""

    core: EngineCore
    sink: Sink
    stage: CodecStage
    ready: EngineReady


def speech_layout(spec: VoiceSpec) -> SpeechLayout:
    """What the scheduler needs of a voice."""
    return SpeechLayout(
        tokens_per_frame=spec.model.tokens_per_frame,
        codebook_size=spec.model.codebook_size,
        audio_base_id=spec.model.audio_base_id,
        end_of_speech_id=spec.model.end_of_speech_id,
        max_positions=spec.model.max_positions,
        sample_rate_hz=spec.codec.sample_rate,
        samples_per_frame=spec.codec.samples_per_frame,
        min_s_per_phoneme=spec.min_s_per_phoneme,
        max_s_per_phoneme=spec.max_s_per_phoneme,
        extra_s=spec.extra_s,
    )


def voice_folder(config: VoiceConfig) -> Path:
    """Folder of the configured default voice."""
    base = Path(config.directory) if config.directory else _SHIPPED_VOICES
    return base / config.default


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
        self.voice = load_voice(voice_folder(config.voice), device=self.device, dtype=self.dtype)
        spec = self.voice.spec.model
        self._num_blocks = choose_num_blocks(
            spec,
            self._config.block_size,
            self.dtype,
            memory_mib=self._config.kv_memory_mib,
            max_streams=self._config.max_streams,
        )
        self.limits = SchedulerLimits(
            max_streams=self._config.max_streams,
            max_waiting=self._config.max_waiting,
            max_step_tokens=self._config.max_step_tokens,
            block_size=self._config.block_size,
            num_blocks=self._num_blocks,
            max_unheard_s=self._config.max_unheard_s,
            max_request_s=self._config.max_request_s,
        )
        self.is_compiled = False

    def _device(self) -> str:
        if self._config.device == "auto":
            return "cuda" if torch.cuda.is_available() else "cpu"
        return self._config.device

    def _dtype(self) -> torch.dtype:
        if self._config.dtype == "auto":
            return torch.float32 if self.device == "cpu" else torch.bfloat16
        return getattr(torch, self._config.dtype)

    def scheduler(self) -> Scheduler:
        """A new scheduler over all blocks."""
        return Scheduler(self.limits, speech_layout(self.voice.spec), self._clock)

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
            spec, self._num_blocks, config.block_size, device=self.device, dtype=self.dtype
        )
        return ModelRunner(model, spec, kv, buffers)

    def codec_stage(self) -> CodecStage:
        """The codec with fresh state."""
        return CodecStage(self.voice.codec_decoder, self._config.max_streams, self._clock)

    def ready(self) -> EngineReady:
        """The engine's introduction."""
        spec = self.voice.spec
        return EngineReady(
            pid=os.getpid(),
            device=self.device,
            dtype=str(self.dtype).removeprefix("torch."),
            voices=(spec.name, *spec.aliases),
            default_voice=spec.name,
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
        on_error: Called on the codec's thread when the codec failed.

    Raises:
        FileNotFoundError, ValueError: See `EngineBuilder`.
    """
    builder = EngineBuilder(config, clock)
    runner = builder.runner()
    warm_up(builder.scheduler(), runner, builder.codec_stage(), builder.voice)
    stage = builder.codec_stage()
    sink: Sink
    if config.engine.codec_thread:
        sink = CodecThread(
            stage,
            link.send,
            on_error=on_error,
            prepare=lambda: prepare_thread(config.engine.threads),
        )
    else:
        sink = CodecInline(stage, link.send)
    core = EngineCore(
        link=link,
        scheduler=builder.scheduler(),
        runner=runner,
        sink=sink,
        voice=SpokenVoice(builder.voice.spec, builder.voice.tokenizer),
        clock=clock,
        codec_s=lambda: stage.decode_s,
        resident_bytes=resident_bytes,
        max_streams=builder.limits.max_streams,
        num_blocks=builder.limits.num_blocks,
    )
    return Engine(core, sink, stage, builder.ready())


def warm_up(
    scheduler: Scheduler, runner: ModelRunner, stage: CodecStage, voice: LoadedVoice
) -> None:
    """Speak two frames at one stream and at a few, so that the first caller meets warm code and memory."""
    spoken = SpokenVoice(voice.spec, voice.tokenizer)
    prompt = spoken.prompt(voice.tokenizer.symbols[-1] * 16)
    settings = spoken.settings(SamplingParams(seed=0))
    num_steps = 2 * voice.spec.model.tokens_per_frame + 1
    for request_ids in (range(1), range(1, 5)):
        for request_id in request_ids:
            scheduler.start(request_id, settings)
            scheduler.append(request_id, 0, prompt, len(prompt))
        for _ in range(num_steps):
            plan = scheduler.schedule()
            scheduler.commit(plan, runner.run(plan))
            stage.decode(scheduler.take_outputs())
        for request_id in request_ids:
            scheduler.cancel(request_id)


def prepare_thread(num_threads: int) -> None:
    """Torch settings of a thread that computes: few threads of its own, and no denormals, which cost 100x."""
    torch.set_num_threads(num_threads)
    torch.set_flush_denormal(True)


def resident_bytes() -> int:
    """Memory of this process; where the system does not say, its peak."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * resource.getpagesize()


def watch_deadline(
    clock: Clock,
    deadline_s: float,
    started: Callable[[], list[float | None]],
    on_hang: Callable[[float], None],
) -> None:
    """Start a thread that calls `on_hang(busy_s)` once something has been computing for longer than `deadline_s`."""

    def watch() -> None:
        pause = threading.Event()
        while not pause.wait(_WATCH_INTERVAL_S):
            now = clock.now()
            busy_s = max((now - at for at in started() if at is not None), default=0.0)
            if busy_s > deadline_s:
                on_hang(busy_s)
                return

    threading.Thread(target=watch, name="watchdog", daemon=True).start()


def run_engine(config: ServiceConfig, link_fd: int) -> int:
    """Serve the gateway at the other end of an inherited socket until it says so or is gone.

    Ends the process itself, without cleaning up, when the gateway vanishes (exit 0), when a step exceeds its deadline or
    when the codec's thread fails (exit 70): nothing here may outlive its gateway, and a half-broken engine is of no use.

    Args:
        config: Resolved configuration.
        link_fd: A connected Unix stream socket.

    Returns:
        The exit status: 0, or 70 when the engine could not be built or a step failed.
    """
    logs.configure(config.telemetry.level, config.telemetry.format)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is the gateway's to act on
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    prepare_thread(config.engine.threads)
    clock = MonotonicClock()
    link = ThreadLink(socket.socket(fileno=link_fd), on_closed=lambda: os._exit(0))
    try:
        engine = build_engine(config, link, clock, on_error=_end_after_codec_error)
        signal.signal(signal.SIGTERM, lambda *_: engine.core.drain())
        watch_deadline(
            clock,
            config.engine.step_deadline_s,
            lambda: [engine.core.busy_since, engine.stage.busy_since],
            _end_after_hang,
        )
        link.send([engine.ready])
        _log.info("engine_ready", device=engine.ready.device, dtype=engine.ready.dtype, is_compiled=engine.ready.is_compiled)
        _serve(engine)
    except LinkClosedError:
        return 0
    except Exception:  # noqa: BLE001 - whatever it was: say it, and let the gateway start a fresh engine
        _log.exception("engine_failed")
        return EXIT_FAILED
    link.close()
    return 0


def _serve(engine: Engine) -> None:
    """Step until told to stop or drained; wait for messages when there is nothing to compute."""
    core = engine.core
    has_work = False
    while not core.is_stopping and not core.is_drained:
        has_work = core.step(is_idle=not has_work)
    engine.sink.close()


def _end_after_codec_error(error: BaseException) -> NoReturn:
    if isinstance(error, LinkClosedError):
        os._exit(0)
    _log.error("codec_failed", exc_info=error)
    os._exit(EXIT_FAILED)


def _end_after_hang(busy_s: float) -> NoReturn:
    _log.error("step_hung", busy_s=round(busy_s, 3))
    os._exit(EXIT_FAILED)
