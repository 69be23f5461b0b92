"""Cost of one engine step: the host's share with a scripted model, and the whole of it.

    python -m bench.engine_step --streams 1,8,16,32 --context 600 --voice models/voices/default

Expected on one Zen 3 core: schedule, commit and emit make a few Python objects a stream, about 5 us
each, flat; filling the batch adds 2 us a stream and 0.1 ms; a draw adds, divides and compares 513
floats, about 2 us a row and 0.05 ms. The matrices and attention are those of `bench.decode_step`. A
frame of codec is about 1 % of its 85 ms in large batches and a multiple alone, as its weights are
read once a call; a step completes one frame for every seven streams.

CPU time of the thread is shown, so that other work on the machine changes caches and memory but not
the clock. A stream needs 82.03 tokens a second: all streams are in time while a step takes less
than 12.19 ms.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from models.codec.decoder import CodecDecoder
from models.language_model import LanguageModel
from models.spec import CodecSpec, ModelSpec, SamplingDefaults, VoiceSpec
from models.step_model import make_step_model
from models.tokenizer import PHONEME_SYMBOLS, PhonemeTokenizer
from models.weights import LoadedVoice, load_voice
from realtime.clock import MonotonicClock
from realtime.engine.batch import StepBuffers
from realtime.engine.codec_stage import CodecStage
from realtime.engine.kv_cache import KVCache
from realtime.engine.plan import NewFrame, Output, RequestOptions, SamplingSettings, StepPlan
from realtime.engine.runner import ModelRunner
from realtime.engine.sampling import draw_columns
from realtime.engine.scheduler import SchedulerLimits
from realtime.engine.voice import speech_layout
from tests.engine.helpers import make_scheduler
from tests.fakes.runner import ScriptedRunner

HOST_STREAMS = (1, 16, 64, 256)
_BLOCK_SIZE = 32


def random_voice() -> LoadedVoice:
    """The default voice's shape with random weights."""
    text_start = len(PHONEME_SYMBOLS) + 1
    model = ModelSpec(
        num_layers=8,
        hidden_size=256,
        num_heads=4,
        num_kv_heads=2,
        head_dim=64,
        ffn_size=704,
        vocab_size=text_start + 3 + 7 * 512,
        text_start_id=text_start,
        text_end_id=text_start + 1,
        end_of_speech_id=text_start + 2,
        audio_base_id=text_start + 3,
        codebook_size=512,
    )
    spec = VoiceSpec(
        name="random",
        language="en",
        licence="",
        description="",
        model=model,
        codec=CodecSpec(),
        symbols=PHONEME_SYMBOLS,
        sampling=SamplingDefaults(),
    )
    torch.manual_seed(0)
    language_model = LanguageModel(model).eval().requires_grad_(False)
    for weight in language_model.parameters():
        weight.copy_(weight.bfloat16())
    decoder = CodecDecoder(spec.codec).eval().requires_grad_(False)
    return LoadedVoice(spec, language_model, decoder, PhonemeTokenizer(PHONEME_SYMBOLS))


class Bench:
    """A scheduler with `num_streams` long streams, decoding, each a step behind the one before."""

    def __init__(self, voice: LoadedVoice, num_streams: int, context: int) -> None:
        spec = voice.spec.model
        self.voice = voice
        self.limits = SchedulerLimits(
            max_streams=num_streams,
            max_waiting=0,
            max_step_tokens=max(512, num_streams),
            block_size=_BLOCK_SIZE,
            num_blocks=num_streams * -(-spec.max_positions // _BLOCK_SIZE),
            max_unheard_s=1e9,
            max_request_s=1e9,
            max_wait_s=1e9,
        )
        self.scheduler = make_scheduler(self.limits, speech_layout(voice.spec), MonotonicClock())
        defaults = voice.spec.sampling
        self._settings = [
            SamplingSettings(
                seed=seed,
                temperature=defaults.temperature,
                top_k=defaults.top_k,
                top_p=defaults.top_p,
                min_p=defaults.min_p,
                repetition_penalty=defaults.repetition_penalty,
            )
            for seed in range(num_streams)
        ]
        self._prompt = (spec.text_start_id, *[40] * (context - 2), spec.text_end_id)
        self._num_started = 0

    def start_next(self) -> None:
        """Let one more stream begin."""
        request_id = self._num_started
        if request_id < self.limits.max_streams:
            self.scheduler.start(request_id, RequestOptions(sampling=self._settings[request_id]))
            self.scheduler.append(request_id, 0, self._prompt, len(self._prompt))
            self._num_started += 1

    def scripted(self) -> ScriptedRunner:
        """A model that costs nothing."""
        layout = speech_layout(self.voice.spec)
        return ScriptedRunner(layout, _BLOCK_SIZE, end_probability=0.0, reads_cache=False)

    def buffers(self) -> StepBuffers:
        """The step's tensors."""
        spec = self.voice.spec.model
        return StepBuffers(
            max_streams=self.limits.max_streams,
            max_tokens=self.limits.max_step_tokens,
            max_blocks=-(-spec.max_positions // _BLOCK_SIZE),
            block_size=_BLOCK_SIZE,
            num_codes=spec.codebook_size,
            device="cpu",
        )

    def decoding(self, runner: ScriptedRunner | ModelRunner) -> Iterator[StepPlan]:
        """Plans in which every stream decodes, after the steps that lead there."""
        for _ in range(self.limits.max_streams * 2 + 2):
            self.start_next()
            plan = self.scheduler.schedule()
            self.scheduler.commit(plan, runner.run(plan))
        self.scheduler.take_outputs()
        while True:
            yield self.scheduler.schedule()


def host_costs(voice: LoadedVoice, num_streams: int, num_steps: int) -> dict[str, float]:
    """Medians in microseconds a step with a model that costs nothing."""
    bench = Bench(voice, num_streams, context=64)
    runner, buffers = bench.scripted(), bench.buffers()
    logits = torch.randn(num_streams, voice.spec.model.codebook_size + 1)
    parts: dict[str, list[float]] = {name: [] for name in ("schedule", "commit", "fill", "draw")}
    plans = bench.decoding(runner)
    next(plans)
    for _ in range(num_steps):
        began = time.thread_time()
        plan = bench.scheduler.schedule()
        scheduled = time.thread_time()
        result = runner.run(plan)
        ran = time.thread_time()
        bench.scheduler.commit(plan, result)
        bench.scheduler.take_outputs()
        committed = time.thread_time()
        batch = buffers.fill(plan)
        filled = time.thread_time()
        draw_columns(logits, batch.sampling)
        drawn = time.thread_time()
        parts["schedule"].append(scheduled - began)
        parts["commit"].append(committed - ran)
        parts["fill"].append(filled - committed)
        parts["draw"].append(drawn - filled)
    return {name: statistics.median(times) * 1e6 for name, times in parts.items()}


def full_costs(
    voice: LoadedVoice, num_streams: int, context: int, num_steps: int, codec_batch: int
) -> list[float]:
    """Means in milliseconds a step: all, model and draw, codec; and codec time a frame."""
    bench = Bench(voice, num_streams, context)
    spec = voice.spec.model
    model, _ = make_step_model(voice.language_model, spec, device="cpu")
    kv = KVCache.allocate(
        spec, bench.limits.num_blocks, _BLOCK_SIZE, device="cpu", dtype=torch.float32
    )
    runner = ModelRunner(model, spec, kv, bench.buffers())
    stage = CodecStage(voice.codec_decoder, num_streams, MonotonicClock())
    counts: dict[int, int] = {}
    frames: list[Output] = []
    plans = bench.decoding(runner)
    plan = next(plans)
    total_s = model_s = codec_s = 0.0
    num_frames = 0
    for _ in range(num_steps):
        began = time.thread_time()
        result = runner.run(plan)
        ran = time.thread_time()
        bench.scheduler.commit(plan, result)
        new = [o for o in bench.scheduler.take_outputs() if isinstance(o, NewFrame)]
        frames += [_renumber(frame, counts) for frame in new]
        if len(frames) >= codec_batch:
            started = time.thread_time()
            stage.decode(frames)
            codec_s += time.thread_time() - started
            num_frames += len(frames)
            frames.clear()
        plan = next(plans)
        total_s += time.thread_time() - began
        model_s += ran - began
    per_step = [1e3 * seconds / num_steps for seconds in (total_s, model_s, codec_s)]
    return [*per_step, 1e3 * codec_s / max(1, num_frames)]


def _renumber(frame: NewFrame, counts: dict[int, int]) -> NewFrame:
    """Frames before the measurement were not decoded: count from the first one that is."""
    index = counts.get(frame.request_id, 0)
    counts[frame.request_id] = index + 1
    return NewFrame(frame.request_id, frame.slot, index, frame.codes, 0.0, True, False)


def report(options: argparse.Namespace) -> Iterator[str]:
    """Lines of both tables, each as soon as it is measured."""
    voice = load_voice(options.voice) if options.voice else random_voice()
    yield "host, CPU us a step    schedule   commit     fill     draw   sum a stream"
    for num_streams in HOST_STREAMS:
        costs = host_costs(voice, num_streams, options.steps)
        cells = " ".join(f"{cost:8.0f}" for cost in costs.values())
        host = (costs["schedule"] + costs["commit"]) / num_streams
        yield f"{num_streams:8d} streams       {cells} {host:8.1f} (schedule + commit)"
    yield "\nfull step, CPU ms           all    model    codec  codec/frame"
    for num_streams in options.streams:
        total, model_ms, codec_ms, per_frame = full_costs(
            voice, num_streams, options.context, options.steps, options.codec_batch
        )
        share = total * voice.spec.codec.tokens_per_second / 1e3
        yield (
            f"{num_streams:8d} streams      {total:8.2f} {model_ms:8.2f} {codec_ms:8.2f} "
            f"{per_frame:12.2f} {share:8.0%} of one core"
        )


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--streams", type=lambda text: [int(n) for n in text.split(",")], default=[1, 8, 16, 32]
    )
    parser.add_argument("--context", type=int, default=300, help="tokens before the measured steps")
    parser.add_argument("--steps", type=int, default=140)
    parser.add_argument("--codec-batch", type=int, default=16, help="frames that wait for company")
    parser.add_argument("--voice", type=Path, help="voice folder; random weights without one")
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    for line in report(parser.parse_args()):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
