"""Memory of keys and values: pages against reserved room, and what the prefix cache spares.

    python -m bench.kv_memory --voice models/voices/default

The voice speaks every sentence of `tests/data/sentences.txt` once, with the real model; the lengths
that come out are then replayed through the scheduler with a scripted model, thousands of requests
in seconds. Reserved room is one piece of the trained length a stream, as a cache without pages
needs; wasted is what is held and holds no computed token.

Expected: a page wastes half of itself a stream, 16 tokens of some 200 at pages of 32; reserved room
wastes all but a tenth. Preempted streams find again what nobody has overwritten, repeated texts
their prompts' whole pages; a restarted chain has new positions and other tokens before it, so it
finds something only where the same was spoken before with the same seed.
"""

import argparse
import itertools
import random
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import torch

from models.step_model import make_step_model
from models.weights import LoadedVoice, load_voice
from realtime.engine.batch import StepBuffers
from realtime.engine.kv_cache import KVCache, block_bytes
from realtime.engine.plan import Draw, SpeechLayout
from realtime.engine.runner import ModelRunner
from realtime.engine.scheduler import SchedulerLimits
from realtime.engine.voice import SpokenVoice, speech_layout
from realtime.text.phonemes import FrontEnd
from tests.engine.helpers import LIMITS, Driver
from tests.fakes.runner import ScriptedRunner

SENTENCES = Path(__file__).resolve().parents[1] / "tests" / "data" / "sentences.txt"
BLOCK_SIZES = (8, 16, 32, 64)
_RESERVED_STREAMS = 8  # the memory compared is that of so many sequences of the trained length
_NUM_ROUNDS = 2  # through all sentences
BATCHES = ((8, 24), (16, 24), (32, 24), (64, 24), (32, 28), (32, 32), (32, 36), (32, 40))
_NUM_GREETINGS = 8


class Spoken(NamedTuple):
    """A sentence as one segment.

    Attributes:
        prompt: Token ids.
        num_frames: Length of its speech.
    """

    prompt: tuple[int, ...]
    num_frames: int

    def shifted(self, count: int) -> "Spoken":
        """Another sentence of the same length: its phonemes turned round by `count`."""
        start, *phonemes, end = self.prompt
        return self._replace(prompt=(start, *phonemes[count:], *phonemes[:count], end))


def limits_of(num_blocks: int, block_size: int, **changes: int | bool) -> SchedulerLimits:
    """Of a scheduler that nothing but memory bounds."""
    values = {"max_streams": 1024, "max_waiting": 10_000, "max_step_tokens": 4096} | changes
    return msgspec.structs.replace(LIMITS, num_blocks=num_blocks, block_size=block_size, **values)


def speak(voice: LoadedVoice, prompts: list[tuple[int, ...]], num_streams: int) -> list[Spoken]:
    """Every prompt spoken by the real model, END chosen by it."""
    spec, layout, block_size = voice.spec.model, speech_layout(voice.spec), 32
    per_sequence = -(-spec.max_positions // block_size)
    limits = limits_of(
        num_streams * per_sequence, block_size, max_streams=num_streams, max_step_tokens=256
    )
    model, _ = make_step_model(voice.language_model, spec, device="cpu")
    kv = KVCache.allocate(spec, limits.num_blocks, block_size, device="cpu", dtype=torch.float32)
    buffers = StepBuffers(
        max_streams=num_streams,
        max_tokens=limits.max_step_tokens,
        max_blocks=per_sequence,
        block_size=block_size,
        num_codes=spec.codebook_size,
        device="cpu",
    )
    driver = Driver(limits, layout, ModelRunner(model, spec, kv, buffers), checks=False)
    for request_id, prompt in enumerate(prompts):
        ask(driver, request_id, [prompt], seed=request_id)
    driver.run()
    return [Spoken(prompt, len(driver.codes(index))) for index, prompt in enumerate(prompts)]


def ask(driver: Driver, request_id: int, prompts: list[tuple[int, ...]], *, seed: int) -> None:
    """Open a request with all its segments."""
    driver.start(request_id, seed=seed)
    for index, prompt in enumerate(prompts):
        driver.scheduler.append(request_id, index, prompt, len(prompt) - 2)
    driver.scheduler.end_text(request_id)


class Replay:
    """Requests of known lengths in a scheduler over so many blocks."""

    def __init__(self, limits: SchedulerLimits, layout: SpeechLayout) -> None:
        self._layout = layout
        self._ends: dict[int, set[int]] = {}  # draws at which each request's segments end
        self.limits = limits
        runner = ScriptedRunner(
            layout, limits.block_size, script=self._script, end_probability=0.0, reads_cache=False
        )
        self.driver = Driver(limits, layout, runner, checks=False)

    def ask(self, request_id: int, sentences: list[Spoken], *, seed: int) -> None:
        """Open a request of these sentences."""
        self._ends[request_id] = ends = set()
        draw = -1
        for sentence in sentences:
            draw += sentence.num_frames * self._layout.tokens_per_frame + 1
            ends.add(draw)
        ask(self.driver, request_id, [sentence.prompt for sentence in sentences], seed=seed)

    def _script(self, request_id: int, draw: Draw) -> int | None:
        is_end = draw.may_end and draw.index in self._ends[request_id]
        return self._layout.end_of_speech_id if is_end else None

    def steps(self) -> Iterator[tuple[int, int, int]]:
        """To the end; after each step the streams, the blocks they hold, the tokens computed."""
        driver, scheduler = self.driver, self.driver.scheduler
        while (plan := scheduler.schedule()).slices:
            num_held = self.limits.num_blocks - scheduler.num_free_blocks
            yield len(plan.slices), num_held, sum(piece.end_position for piece in plan.slices)
            scheduler.commit(plan, driver.runner.run(plan))
            scheduler.take_outputs()
            driver.clock.advance(0.01)


def batch_lines(sentences: list[Spoken], layout: SpeechLayout) -> Iterator[str]:
    """Waste by block size, and how many streams fit, in the memory of a few reserved sequences."""
    whole = layout.max_positions
    yield (
        f"pages, in the memory of {_RESERVED_STREAMS} reserved sequences of {whole} tokens\n"
        "block size  streams  times reserved    wasted  reserved wastes  waste removed  "
        "preempted  computed again"
    )
    needed = sum(len(s.prompt) + s.num_frames * layout.tokens_per_frame for s in sentences)
    prompts = sum(len(sentence.prompt) for sentence in sentences)
    for block_size, num_streams in BATCHES:
        num_blocks = _RESERVED_STREAMS * whole // block_size
        replay = Replay(limits_of(num_blocks, block_size, max_streams=num_streams), layout)
        for request_id in range(_NUM_ROUNDS * len(sentences)):
            times, index = divmod(request_id, len(sentences))
            replay.ask(request_id, [sentences[index].shifted(times)], seed=request_id)
        samples = list(replay.steps())
        samples = samples[len(samples) // 4 : -len(samples) // 4]
        wasted = statistics.fmean(held * block_size - used for _, held, used in samples)
        used = statistics.fmean(used for _, _, used in samples)
        reserved = statistics.fmean(streams for streams, _, _ in samples) * whole - used
        scheduler = replay.driver.scheduler
        again = scheduler.num_prefilled_total - _NUM_ROUNDS * prompts
        yield (
            f"{block_size:10d} {num_streams:8d} {num_streams / _RESERVED_STREAMS:15.1f} "
            f"{wasted / (wasted + used):9.1%} {reserved / (reserved + used):16.1%} "
            f"{1 - wasted / reserved:14.1%} {scheduler.num_preempted_total:10d} "
            f"{abs(again) / (_NUM_ROUNDS * needed):15.1%}"
        )


def greeting_lines(sentences: list[Spoken], layout: SpeechLayout) -> Iterator[str]:
    """Prompt tokens that repeated texts spare, seeds all different."""
    yield "\nrepeated greetings: 400 requests for 8 sentences, 16 at once, seeds all different"
    greetings = sentences[:: len(sentences) // _NUM_GREETINGS][:_NUM_GREETINGS]
    for block_size in BLOCK_SIZES:
        num_blocks = 16 * layout.max_positions // block_size
        kept = num_blocks // 20
        limits = limits_of(num_blocks, block_size, max_streams=16, num_kept_blocks=kept)
        replay = Replay(limits, layout)
        chosen = random.Random(0).choices(greetings, k=400)
        for request_id, sentence in enumerate(chosen):
            replay.ask(request_id, [sentence], seed=request_id)
        list(replay.steps())
        share = found_ratio(replay)
        yield f"  blocks of {block_size:2d}: {share:6.1%} of the prompts' tokens spared"


def preemption_lines(sentences: list[Spoken], layout: SpeechLayout) -> Iterator[str]:
    """Tokens that preempted streams compute again, with and without the prefix cache."""
    yield "\npreemption: 16 streams, blocks of 32"
    needed = sum(len(s.prompt) + s.num_frames * layout.tokens_per_frame for s in sentences)
    for num_reserved, has_cache in itertools.product((4, 3, 2), (False, True)):
        limits = limits_of(num_reserved * layout.max_positions // 32, 32, max_streams=16)
        replay = Replay(msgspec.structs.replace(limits, prefix_cache=has_cache), layout)
        for request_id, sentence in enumerate(sentences):
            replay.ask(request_id, [sentence], seed=request_id)
        prompts = sum(len(sentence.prompt) for sentence in sentences)
        list(replay.steps())
        again = (replay.driver.scheduler.num_prefilled_total - prompts) / needed
        count = replay.driver.scheduler.num_preempted_total
        yield (
            f"  in the memory of {num_reserved} reserved sequences, "
            f"{'with' if has_cache else 'without'} prefix cache: {count} preemptions, "
            f"{again:.1%} of all tokens computed again"
        )


def restart_lines(sentences: list[Spoken], layout: SpeechLayout) -> Iterator[str]:
    """Prefill of a long text that passes the trained length, and of its repetition."""
    spoken = sentences[:40]
    needed = sum(len(s.prompt) + s.num_frames * layout.tokens_per_frame + 1 for s in spoken)
    yield (
        f"\nrestarts: 40 sentences as one request ({sum(len(s.prompt) for s in spoken)} tokens of "
        f"prompts, {needed} in all), then again, blocks of 32"
    )
    for name, seed in (("same seed", 0), ("another seed", 1)):
        replay = Replay(limits_of(2048, 32, max_streams=1, num_kept_blocks=2048), layout)
        computed = []
        for request_id, own_seed in enumerate((0, seed)):
            before = replay.driver.scheduler.num_prefilled_total
            replay.ask(request_id, spoken, seed=own_seed)
            list(replay.steps())
            computed.append(replay.driver.scheduler.num_prefilled_total - before)
        yield f"  {name}: {computed[0]} tokens prefilled, then {computed[1]}"


def found_ratio(replay: Replay) -> float:
    """Share of the tokens to prefill that the prefix cache had."""
    scheduler = replay.driver.scheduler
    found, computed = scheduler.num_prefix_hits_total, scheduler.num_prefilled_total
    return found / (found + computed)


def report(options: argparse.Namespace) -> Iterator[str]:
    """Lines of all tables, each as soon as it is measured."""
    voice = load_voice(options.voice)
    spoken = SpokenVoice(voice.spec, voice.tokenizer)
    front_end = FrontEnd()
    lines = SENTENCES.read_text(encoding="utf-8").splitlines()[: options.sentences]
    prompts = [spoken.prompt(front_end.read(line).phonemes) for line in lines]
    sentences = speak(voice, prompts, options.streams)
    layout, spec = speech_layout(voice.spec), voice.spec.model
    tokens = [len(s.prompt) + s.num_frames * layout.tokens_per_frame for s in sentences]
    prompt_tokens = [len(s.prompt) for s in sentences]
    yield (
        f"{len(sentences)} sentences, tokens in the cache at their end: mean "
        f"{statistics.fmean(tokens):.0f}, median {statistics.median(tokens):.0f}, "
        f"largest {max(tokens)}; prompts: mean {statistics.fmean(prompt_tokens):.0f}\n"
        f"{block_bytes(spec, 1, torch.float32) / 1024:.0f} KiB a token in float32\n"
    )
    yield from batch_lines(sentences, layout)
    yield from greeting_lines(sentences, layout)
    yield from preemption_lines(sentences, layout)
    yield from restart_lines(sentences, layout)


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--voice", type=Path, default=Path("models/voices/default"))
    parser.add_argument("--sentences", type=int, default=150)
    parser.add_argument("--streams", type=int, default=32, help="spoken at once by the real model")
    torch.set_num_threads(1)
    for line in report(parser.parse_args()):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
