"""Token sequences for the language model: utterances, cut utterances and chains of them.

A sequence is what the engine will build for one request: for every segment its phonemes, then its
frames and an end of speech. A chain holds several segments, so that a later segment learns to go
on in the voice of the earlier ones.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from models.spec import ModelSpec

CLAUSE_MARKS = frozenset(",;:—…")
# centre of each code of a frame, in quarters of a frame
_CODE_CENTRES = np.array([2.0, 1.0, 0.5, 1.5, 3.0, 2.5, 3.5]) / 4


@dataclass(frozen=True)
class Spoken:
    """One utterance as ids.

    Attributes:
        phonemes: Token ids, int16 `[N]`.
        symbols: The same as a string.
        ends: End of each phoneme in frames, `[N]`.
        codes: int16 `[F, 7]`.
        speaker: Who speaks.
        speed: How fast, relative to the default pace.
    """

    phonemes: np.ndarray
    symbols: str
    ends: np.ndarray
    codes: np.ndarray
    speaker: int = 0
    speed: float = 1.0


@dataclass(frozen=True)
class Sequence:
    """Token ids `[T]`, and per position that of the phoneme said next (-1: not speech)."""

    ids: np.ndarray
    said: np.ndarray


def save_spoken(path: Path, spoken: list[Spoken]) -> None:
    """Write utterances to one file, replacing it at once."""
    part = path.with_suffix(".part.npz")
    np.savez(
        part,
        lengths=np.array([[len(s.phonemes), len(s.codes)] for s in spoken]),
        phonemes=np.concatenate([s.phonemes for s in spoken]),
        symbols=np.frombuffer("".join(s.symbols for s in spoken).encode("utf-32-le"), np.uint32),
        ends=np.concatenate([s.ends for s in spoken]),
        codes=np.concatenate([s.codes for s in spoken]),
        speakers=np.array([s.speaker for s in spoken], np.int16),
        speeds=np.array([s.speed for s in spoken], np.float32),
    )
    part.replace(path)


def load_spoken(path: Path) -> list[Spoken]:
    """Read what `save_spoken` wrote."""
    with np.load(path) as arrays:
        data = {name: arrays[name] for name in arrays.files}
    spoken, p, f = [], 0, 0
    count = len(data["lengths"])
    speakers = data.get("speakers", np.zeros(count, np.int16))
    speeds = data.get("speeds", np.ones(count, np.float32))
    for i, (num_phonemes, num_frames) in enumerate(data["lengths"]):
        part = slice(p, p + num_phonemes)
        symbols = data["symbols"][part].tobytes().decode("utf-32-le")
        spoken.append(
            Spoken(
                data["phonemes"][part],
                symbols,
                data["ends"][part],
                data["codes"][f : f + num_frames],
                int(speakers[i]),
                float(speeds[i]),
            )
        )
        p, f = p + num_phonemes, f + num_frames
    return spoken


def split(spoken: Spoken, at: int) -> tuple[Spoken, Spoken] | None:
    """Cut behind symbol `at` on a frame boundary; None where a side would be too short."""
    after = at + 1
    while after < len(spoken.symbols) and spoken.symbols[after] == " ":
        after += 1
    if after >= len(spoken.symbols):
        return None
    start = spoken.ends[at - 1] if at else 0.0
    frame = round(float(start + spoken.ends[after - 1]) / 2)
    if frame < 3 or len(spoken.codes) - frame < 3:
        return None
    last = at if spoken.symbols[at] == " " else at + 1
    return (
        replace(
            spoken,
            phonemes=spoken.phonemes[:last],
            symbols=spoken.symbols[:last],
            ends=spoken.ends[:last].clip(max=frame),
            codes=spoken.codes[:frame],
        ),
        replace(
            spoken,
            phonemes=spoken.phonemes[after:],
            symbols=spoken.symbols[after:],
            ends=(spoken.ends[after:] - frame).clip(min=0),
            codes=spoken.codes[frame:],
        ),
    )


def random_cut(spoken: Spoken, rng: np.random.Generator, word_ratio: float) -> tuple[Spoken, ...]:
    """Cut at a random clause mark, or sometimes between words; uncut where there is no place."""
    marks = [i for i, c in enumerate(spoken.symbols[:-1]) if c in CLAUSE_MARKS]
    if rng.random() < word_ratio or not marks:
        if rng.random() < 0.5:
            return (spoken,)
        marks = [
            i
            for i, c in enumerate(spoken.symbols)
            if c == " " and 12 < i < len(spoken.symbols) - 12
        ]
    if not marks:
        return (spoken,)
    return split(spoken, int(rng.choice(marks))) or (spoken,)


def build(segments: list[Spoken], model: ModelSpec) -> Sequence:
    """One sequence of all `segments`."""
    ids, said, start = [], [], 0
    for segment in segments:
        frames, places = segment.codes.shape
        base = model.audio_base_id + np.arange(places) * model.codebook_size
        speech = (segment.codes.astype(np.int64) + base).reshape(-1)
        opening = [model.text_start_id, *model.control_ids(segment.speaker, segment.speed)]
        text = [opening, segment.phonemes.astype(np.int64), [model.text_end_id]]
        ids += [*text, speech, [model.end_of_speech_id]]
        when = (np.arange(frames)[:, None] + _CODE_CENTRES).reshape(-1)
        index = np.searchsorted(segment.ends, when).clip(max=len(segment.phonemes) - 1)
        index = np.append(index, len(segment.phonemes) - 1) + start + len(opening)
        # position i predicts id i + 1: the targets start at the end of the text
        said += [np.full(len(opening) + len(segment.phonemes), -1), index, [-1]]
        start += len(opening) + len(segment.phonemes) + 2 + len(speech)
    return Sequence(np.concatenate(ids), np.concatenate(said)[: sum(len(x) for x in ids)])


@dataclass(frozen=True)
class MixConfig:
    """How utterances become sequences."""

    cut_ratio: float = 0.3  # of utterances, cut in two
    word_cut_ratio: float = 0.25  # of the cuts, between words rather than at a clause mark
    chain_ratio: float = 0.2  # of sequences, several utterances in a row
    longest_chain: int = 4
    # of utterances, said in another speaker's name: the codes are relative to the speaker
    other_speaker_ratio: float = 0.3


class SequenceMixer:
    """Endless batches of sequences of about `batch_tokens`, padded to their longest."""

    def __init__(
        self, spoken: list[Spoken], model: ModelSpec, mix: MixConfig, batch_tokens: int, seed: int
    ) -> None:
        self.spoken, self.model, self.mix, self.batch_tokens = spoken, model, mix, batch_tokens
        self.rng = np.random.default_rng(seed)
        self.max_length = model.max_positions

    def pool(self, count: int = 3000) -> list[Sequence]:
        """Compose sequences from a random choice of utterances."""
        pool = []
        for group in self._alike(self.rng.permutation(len(self.spoken))[:count]):
            i = 0
            while i < len(group):
                take = self._take()
                segments = [part for whole in group[i : i + take] for part in self._cut(whole)]
                i += take
                sequence = build(segments, self.model)
                if len(sequence.ids) <= self.max_length:
                    pool.append(sequence)
        return pool

    def _alike(self, order: np.ndarray) -> Iterable[list[Spoken]]:
        """The utterances by what their prompts name: a chain keeps its speaker and its speed."""
        groups: dict[tuple[int, ...], list[Spoken]] = {}
        for j in order:
            spoken = self.spoken[j]
            if self.model.num_speakers and self.rng.random() < self.mix.other_speaker_ratio:
                spoken = replace(spoken, speaker=int(self.rng.integers(self.model.num_speakers)))
            controls = self.model.control_ids(spoken.speaker, spoken.speed)
            groups.setdefault(controls, []).append(spoken)
        return groups.values()

    def _take(self) -> int:
        """Utterances of the next sequence."""
        is_chain = self.rng.random() < self.mix.chain_ratio
        return int(self.rng.integers(2, self.mix.longest_chain + 1)) if is_chain else 1

    def _cut(self, whole: Spoken) -> tuple[Spoken, ...]:
        if self.rng.random() >= self.mix.cut_ratio:
            return (whole,)
        return random_cut(whole, self.rng, self.mix.word_cut_ratio)

    def batches(self) -> Iterator[list[Sequence]]:
        """Yield sequences of similar length, forever; `max_length` may change between them."""
        while True:
            pool = sorted(self.pool(), key=lambda s: len(s.ids))
            batches: list[list[Sequence]] = [[]]
            for sequence in pool:
                if batches[-1] and len(sequence.ids) * (len(batches[-1]) + 1) > self.batch_tokens:
                    batches.append([])
                batches[-1].append(sequence)
            for i in self.rng.permutation(len(batches)):
                if batches[i] and len(batches[i][-1].ids) <= self.max_length:
                    yield batches[i]
