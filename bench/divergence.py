"""How far two ways of computing the same voice agree: float32 kernels, plain torch, bfloat16.

    python -m bench.divergence --voice models/voices/default --streams 16 --frames 20

Each stream is spoken twice with the same seed, once on each path, all streams batched. Where the
codes first differ the context was still the same, so both paths' logits can be laid side by side.
A draw takes the largest of logit / temperature + noise, with the same noise on both paths. `tie` is
by how much the first path preferred its own code to the other path's in these sums; `error` is the
largest difference of the paths' own sums. Streams can part only where the tie is below twice
the error: a near-tie has a tie far below 1, the step between codes of e-fold different chances.
"""

import argparse
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bench.engine_step import random_voice
from models.step_model import StepModel, make_step_model
from models.weights import LoadedVoice, load_voice
from realtime.clock import MonotonicClock
from realtime.engine.batch import StepBuffers
from realtime.engine.kv_cache import KVCache
from realtime.engine.plan import (
    Draw,
    NewFrame,
    Phase,
    RequestOptions,
    SamplingSettings,
    SequenceSlice,
    StepPlan,
)
from realtime.engine.runner import ModelRunner
from realtime.engine.sampling import perturbed
from realtime.engine.scheduler import SchedulerLimits
from realtime.engine.voice import speech_layout
from tests.engine.helpers import make_scheduler

_BLOCK_SIZE = 32
_SECONDS_PER_PHONEME = 0.08


@dataclass(frozen=True)
class ComputePath:
    """One way to compute a voice.

    Attributes:
        voice: With weights in the path's dtype.
        model: The step model on them.
        dtype: Of the KV cache.
    """

    voice: LoadedVoice
    model: StepModel
    dtype: torch.dtype


@dataclass(frozen=True, kw_only=True)
class Parting:
    """Where two paths first drew different codes; see the module's text for the measures."""

    index: int
    tie: float
    error: float


def make_path(voice: LoadedVoice, name: str) -> ComputePath:
    """`kernels` (float32), `float32` or `bfloat16` (both plain torch)."""
    dtype = torch.bfloat16 if name == "bfloat16" else torch.float32
    model = voice.language_model
    if dtype == torch.bfloat16:
        copy = type(model)(voice.spec.model)
        copy.load_state_dict(model.state_dict())
        model = copy.to(dtype).eval().requires_grad_(False)
    step_model, _ = make_step_model(
        model,
        voice.spec.model,
        device="cpu",
        compile="required" if name == "kernels" else "off",
    )
    return ComputePath(voice, step_model, dtype)


def prompt_of(voice: LoadedVoice, stream: int, num_frames: int) -> tuple[int, ...]:
    """Arbitrary phonemes, different in each stream, whose speech may well take `num_frames`."""
    spec = voice.spec
    frame_s = spec.codec.samples_per_frame / spec.codec.sample_rate
    count = int(num_frames * frame_s / _SECONDS_PER_PHONEME) + 1
    generator = np.random.default_rng(stream)
    ids = generator.integers(1, len(spec.symbols) + 1, count).tolist()
    return (spec.model.text_start_id, *ids, spec.model.text_end_id)


def settings_of(voice: LoadedVoice, stream: int, temperature: float | None) -> SamplingSettings:
    """The voice's own sampling, a seed a stream."""
    own = voice.spec.sampling
    return SamplingSettings(
        seed=stream,
        temperature=own.temperature if temperature is None else temperature,
        top_k=0,
        top_p=1.0,
        min_p=0.0,
        repetition_penalty=1.0,
    )


def speak(
    path: ComputePath, num_streams: int, num_frames: int, temperature: float | None
) -> list[list[int]]:
    """Codes of each stream, flat, at most `num_frames` frames, ended by END_OF_SPEECH or length."""
    spec, voice = path.voice.spec.model, path.voice
    limits = SchedulerLimits(
        max_streams=num_streams,
        max_waiting=0,
        max_step_tokens=512,
        block_size=_BLOCK_SIZE,
        num_blocks=num_streams * -(-spec.max_positions // _BLOCK_SIZE),
        max_unheard_s=1e9,
        max_request_s=num_frames * voice.spec.codec.samples_per_frame / 24000 + 1e-6,
        max_wait_s=1e9,
    )
    scheduler = make_scheduler(limits, speech_layout(voice.spec), MonotonicClock())
    runner = ModelRunner(path.model, spec, _cache(path, limits.num_blocks), _buffers(path, limits))
    for stream in range(num_streams):
        prompt = prompt_of(voice, stream, num_frames)
        options = RequestOptions(sampling=settings_of(voice, stream, temperature))
        scheduler.start(stream, options)
        scheduler.append(stream, 0, prompt, len(prompt) - 2)
        scheduler.end_text(stream)
    codes: list[list[int]] = [[] for _ in range(num_streams)]
    while (plan := scheduler.schedule()).slices:
        scheduler.commit(plan, runner.run(plan))
        for output in scheduler.take_outputs():
            if isinstance(output, NewFrame):
                codes[output.request_id] += output.codes
    return codes


def compare(
    first: ComputePath,
    second: ComputePath,
    num_streams: int,
    num_frames: int,
    temperature: float | None = None,
) -> tuple[list[Parting], int]:
    """Where streams part, and how many codes both paths agreed on."""
    spoken = [speak(path, num_streams, num_frames, temperature) for path in (first, second)]
    voice = first.voice.spec
    partings: list[Parting] = []
    num_equal = 0
    for stream, (ours, theirs) in enumerate(zip(*spoken, strict=True)):
        pairs = zip(ours, theirs, strict=False)
        index = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(theirs)))
        num_equal += index
        if ours != theirs:
            prompt = prompt_of(first.voice, stream, num_frames)
            settings = settings_of(first.voice, stream, temperature)
            may_end = index == min(len(ours), len(theirs))
            draw = Draw(index % len(voice.codec.levels), may_end, index, settings)
            sums = [_sums(path, prompt, ours[:index], draw) for path in (first, second)]
            drawn = [int(row.argmax()) for row in sums]
            error = (sums[0] - sums[1])[sums[0].isfinite()].abs().max()
            tie = sums[0][drawn[0]] - sums[0][drawn[1]]
            partings.append(Parting(index=index, tie=float(tie), error=float(error)))
    return partings, num_equal


@torch.inference_mode()
def _sums(path: ComputePath, prompt: tuple[int, ...], codes: list[int], draw: Draw) -> Tensor:
    """What the draw behind a prompt and codes compares, `[K + 1]`, computed in one pass."""
    spec = path.voice.spec.model
    ids = [spec.code_block(i % spec.tokens_per_frame)[0] + code for i, code in enumerate(codes)]
    token_ids = (*prompt, *ids)
    num_blocks = -(-len(token_ids) // _BLOCK_SIZE)
    piece = SequenceSlice(0, 0, Phase.PREFILL, token_ids, 0, tuple(range(num_blocks)), draw)
    buffers = StepBuffers(
        max_streams=1,
        max_tokens=len(token_ids),
        max_blocks=num_blocks,
        block_size=_BLOCK_SIZE,
        num_codes=spec.codebook_size,
        device="cpu",
    )
    batch = buffers.fill(StepPlan((piece,)))
    kv = _cache(path, num_blocks)
    hidden = path.model.forward(batch.token_ids, batch.meta.positions, batch.meta, kv)
    logits = path.model.logits(hidden, batch.position_in_frame)
    if not draw.may_end:
        logits[:, spec.codebook_size] = float("-inf")
    return perturbed(logits, batch.sampling)[0]


def _cache(path: ComputePath, num_blocks: int) -> KVCache:
    spec = path.voice.spec.model
    return KVCache.allocate(spec, num_blocks, _BLOCK_SIZE, device="cpu", dtype=path.dtype)


def _buffers(path: ComputePath, limits: SchedulerLimits) -> StepBuffers:
    spec = path.voice.spec.model
    return StepBuffers(
        max_streams=limits.max_streams,
        max_tokens=limits.max_step_tokens,
        max_blocks=-(-spec.max_positions // _BLOCK_SIZE),
        block_size=_BLOCK_SIZE,
        num_codes=spec.codebook_size,
        device="cpu",
    )


def main() -> None:
    """Print one line a pair of paths."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--frames", type=int, default=20)
    parser.add_argument("--temperature", type=float, help="the voice's own without one")
    parser.add_argument("--voice", type=Path, help="voice folder; random weights without one")
    parser.add_argument("--paths", default="kernels,float32,bfloat16")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    voice = load_voice(options.voice) if options.voice else random_voice()
    first, *others = options.paths.split(",")
    for name in others:
        partings, num_equal = compare(
            make_path(voice, first),
            make_path(voice, name),
            options.streams,
            options.frames,
            options.temperature,
        )
        line = f"{first} / {name}: {len(partings)} of {options.streams} streams part"
        line += f", after {num_equal} equal codes in all"
        for measure in ("tie", "error"):
            values = [getattr(parting, measure) for parting in partings]
            if values:
                line += f"; {measure} median {statistics.median(values):.4f} max {max(values):.4f}"
        sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
