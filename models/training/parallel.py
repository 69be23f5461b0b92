"""Two readings of the same phonemes, brought onto one clock: how a further speaker is learnt.

The codes of the first speaker's reading are the input, the second speaker's envelopes at the same
instants the target: the decoder learns who speaks, and what is said and how stays in the codes. So
the second speaker needs minutes of speech, not hours, and the language model none.
"""

from dataclasses import dataclass, replace

import numpy as np

from models.training.analysis import analyse
from models.training.features import DURATION_LAG_FRAMES
from models.training.kokoro import Kokoro
from models.training.teacher import Teacher, Utterance

_BAND_FRAMES = 10  # the path stays this near to what the durations say: 125 ms
_SLANT_COST = 0.15  # of holding one side for a frame, in units of a band's spread
_FAINT = np.float16(-5.0)  # log amplitude
_FEATURE_BANDS = 4  # neighbouring bands that are compared as one


@dataclass(frozen=True)
class Pair:
    """One phoneme string of both speakers: the second's in its own time, and in the first's."""

    first: Utterance
    second: Utterance
    target: Utterance


@dataclass(frozen=True)
class PairReader:
    """Both speakers, reading the same.

    Attributes:
        teacher: The first.
        kokoro: The second.
        pace: The second's speed at the default pace.
        octaves: From the first's reference pitch to the second's.
    """

    teacher: Teacher
    kokoro: Kokoro
    pace: float
    octaves: float

    def read(self, text: str, seed: int, speed: float) -> list[Pair]:
        """A pair for each sentence of `text` that both can say, at `speed` times the pace."""
        pairs = []
        for phonemes in filter(self.kokoro.knows, self.teacher.phonemize(text)):
            first = self.teacher.speak(text, phonemes, seed, with_samples=False, speed=speed)
            reading = self.kokoro.read(phonemes, self.pace * speed)
            second = analyse(text, phonemes, reading, speed)
            if first is not None and second is not None:
                pairs.append(Pair(first, second, in_time_of(first, second, self.octaves)))
        return pairs


def in_time_of(timing: Utterance, other: Utterance, octaves: float) -> Utterance:
    """`other`'s sound at the instants, and with the melody, of `timing`.

    Args:
        timing: The first speaker's reading.
        other: The second speaker's reading of the same phonemes.
        octaves: From the first speaker's reference pitch to the second's.
    """
    row = _path(timing, other)
    voiced = other.voiced[row] & timing.voiced
    harmonic = _hushed(other.harmonic[row])
    harmonic[~voiced] = harmonic.min()
    return replace(
        timing,
        harmonic=harmonic,
        noise=other.noise[row],
        f0=(timing.f0 * 2.0**octaves).astype(np.float32),
        voiced=voiced,
        samples=None,
    )


def _hushed(harmonic: np.ndarray) -> np.ndarray:
    """Faint harmonics made fainter: pulses of a low voice stand alone, and tick in a pause."""
    return np.where(harmonic < _FAINT, _FAINT + 2 * (harmonic - _FAINT), harmonic)


def _path(timing: Utterance, other: Utterance) -> np.ndarray:
    """For each frame of `timing` the frame of `other` that says the same."""
    guess = _by_durations(timing, other)
    a, b = _features(timing), _features(other)
    return _align(a, b, guess.astype(np.float64), _BAND_FRAMES, _SLANT_COST * np.sqrt(a.shape[1]))


def _by_durations(timing: Utterance, other: Utterance) -> np.ndarray:
    """Frame of `other` at each frame of `timing`, linear within each phoneme."""
    mine = np.concatenate([[0.0], timing.ends - DURATION_LAG_FRAMES, [len(timing.f0) - 1.0]])
    theirs = np.concatenate([[0.0], other.ends - DURATION_LAG_FRAMES, [len(other.f0) - 1.0]])
    mine, theirs = np.maximum.accumulate(mine), np.maximum.accumulate(theirs)
    return np.interp(np.arange(len(timing.f0)), mine, theirs).clip(0, len(other.f0) - 1)


def _features(utterance: Utterance) -> np.ndarray:
    """Levels of wide bands, each with mean zero and spread one: mostly without the speaker."""
    harmonic = utterance.harmonic.astype(np.float32).reshape(len(utterance.f0), -1, _FEATURE_BANDS)
    noise = utterance.noise.astype(np.float32).reshape(len(utterance.f0), -1, _FEATURE_BANDS // 2)
    level = np.maximum(harmonic.mean(2), noise.mean(2))
    return (level - level.mean(0)) / (level.std(0) + 0.1)


def _align(a: np.ndarray, b: np.ndarray, guess: np.ndarray, band: int, slant: float) -> np.ndarray:
    """Cheapest monotonic map of rows of `a` to rows of `b` near `guess`, int64 `[len(a)]`."""
    first = np.rint(guess).astype(int) - band
    count, width = len(a), 2 * band + 1
    came = np.zeros((count, width), int)
    cost = np.zeros(width)
    for t in range(count):
        rows = first[t] + np.arange(width)
        if t:
            # rows of `b` that pass in one of `a`: none to three
            before = np.arange(width)[None] + (first[t] - first[t - 1]) - np.arange(4)[:, None]
            is_legal = (before >= 0) & (before < width)
            way = np.where(is_legal, cost[before.clip(0, width - 1)], np.inf)
            way += slant * np.abs(np.arange(4) - 1)[:, None]
            step = way.argmin(0)
            came[t], cost = before[step, np.arange(width)], way[step, np.arange(width)]
        distance = np.sqrt(((b[rows.clip(0, len(b) - 1)] - a[t]) ** 2).sum(1))
        cost = cost + np.where((rows >= 0) & (rows < len(b)), distance, np.inf)
    path, j = np.zeros(count, np.int64), int(cost.argmin())
    for t in range(count - 1, -1, -1):
        path[t] = first[t] + j
        j = came[t, j] if 0 <= came[t, j] < width else band
    return path.clip(0, len(b) - 1)
