"""Who calls when, with what text, and how patient they are. Decided before the run, by seed, so
that every policy meets the same callers.
"""

from collections.abc import Iterator
from random import Random

import msgspec

from bench.simulator.machines import Machine
from bench.simulator.sentences import Piece, load_sentences

_SECONDS_PER_PHONEME = 0.063  # of the sentences in the table, as the teacher speaks them
_EXTRA_S = 0.1
_PACE_SPREAD = 0.12
_CHARS_BEHIND = 2  # a segment is certain once the next sentence has begun
_CHARS_PER_TEXT_TOKEN = 4
_NUM_KEYS = 20


class Segment(msgspec.Struct, frozen=True):
    """One segment of an utterance.

    Attributes:
        prompt_tokens: Of its prompt.
        num_phonemes: Phonemes in it.
        num_frames: Speech that the voice will make of it.
        after_s: When it reaches the engine, from the first segment on.
    """

    prompt_tokens: int
    num_phonemes: int
    num_frames: int
    after_s: float


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """One caller.

    Attributes:
        at: When the first segment is complete, from the start of the run.
        key: Whose call it is.
        segments: What is to be spoken.
        cancel_ratio: Share of the speech after which the listener interrupts; 1 hears it all.
    """

    at: float
    key: str
    segments: tuple[Segment, ...]
    cancel_ratio: float

    @property
    def num_frames(self) -> int:
        """Frames of the whole utterance."""
        return sum(segment.num_frames for segment in self.segments)


class Phase(msgspec.Struct, frozen=True):
    """A stretch of time with one load.

    Attributes:
        seconds: Length.
        load_ratio: Offered speech as a share of what admission lets in.
    """

    seconds: float
    load_ratio: float


class Habits(msgspec.Struct, frozen=True, kw_only=True):
    """What callers are like.

    Attributes:
        streamed_ratio: Share whose text comes like a language model's, 20 to 60 tokens a second.
        cancel_ratio: Share that interrupts somewhere in the middle.
        burst_size: Callers that arrive together; 1 makes arrivals a Poisson process.
        max_attempts: Calls of one who is refused and obeys `retry_after_s`.
    """

    streamed_ratio: float = 0.5
    cancel_ratio: float = 0.1
    burst_size: int = 1
    max_attempts: int = 4


def utterance(random: Random, machine: Machine, *, is_streamed: bool) -> tuple[Segment, ...]:
    """One to four sentences in a row."""
    sentences = load_sentences()
    count = random.randint(1, 4)
    first = random.randrange(len(sentences) - count + 1)
    pieces: list[Piece] = []
    for number, sentence in enumerate(sentences[first : first + count]):
        pieces += sentence.later if number else sentence.first
    chars_per_s = random.uniform(20.0, 60.0) * _CHARS_PER_TEXT_TOKEN
    pace = random.lognormvariate(0.0, _PACE_SPREAD) * _SECONDS_PER_PHONEME
    segments: list[Segment] = []
    num_chars = 0
    for piece in pieces:
        num_chars += piece.num_chars if segments else 0
        is_last = len(segments) == len(pieces) - 1
        behind = 0 if is_last or not segments else _CHARS_BEHIND
        frames = (pace * piece.num_phonemes + _EXTRA_S) * machine.layout.frames_per_second
        segments.append(
            Segment(
                machine.prompt_tokens(piece.num_chars, piece.num_phonemes),
                piece.num_phonemes,
                max(1, round(frames)),
                (num_chars + behind) / chars_per_s if is_streamed else 0.0,
            )
        )
    return tuple(segments)


def callers(
    machine: Machine, phases: tuple[Phase, ...], habits: Habits, streams: float, seed: int
) -> list[Caller]:
    """Everyone who calls in these phases, in order.

    Args:
        machine: Whose voice speaks.
        phases: The load over time.
        habits: What callers are like.
        streams: Listeners at a load of 1.
        seed: Of everything random.
    """
    random = Random(seed)
    rate = streams / mean_heard_s(machine, habits)
    found: list[Caller] = []
    for at in _instants(random, phases, rate, habits.burst_size):
        is_streamed = random.random() < habits.streamed_ratio
        interrupts = random.random() < habits.cancel_ratio
        found.append(
            Caller(
                at=at,
                key=f"key {random.randrange(_NUM_KEYS)}",
                segments=utterance(random, machine, is_streamed=is_streamed),
                cancel_ratio=random.random() if interrupts else 1.0,
            )
        )
    return found


def _instants(
    random: Random, phases: tuple[Phase, ...], rate: float, burst_size: int
) -> Iterator[float]:
    begun = 0.0
    for phase in phases:
        at = begun
        while phase.load_ratio > 0:
            at += random.expovariate(rate * phase.load_ratio / burst_size)
            if at >= begun + phase.seconds:
                break
            for _ in range(burst_size):
                yield at
        begun += phase.seconds


def mean_heard_s(machine: Machine, habits: Habits) -> float:
    """Seconds of speech that a caller hears on average."""
    frames = _many_lengths(machine)
    mean_s = sum(frames) / len(frames) / machine.layout.frames_per_second
    return mean_s * (1.0 - habits.cancel_ratio / 2)


def mean_context(machine: Machine) -> float:
    """Cached tokens of a running stream at a random instant: long utterances are met more often,
    and on average half done.
    """
    frames = _many_lengths(machine)
    tokens_per_frame = machine.layout.tokens_per_frame
    return tokens_per_frame * sum(n * n for n in frames) / sum(frames) / 2


def _many_lengths(machine: Machine) -> list[int]:
    random = Random(0)
    return [
        sum(segment.num_frames for segment in utterance(random, machine, is_streamed=False))
        for _ in range(2000)
    ]
