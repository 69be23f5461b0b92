"""What a recording shows without any model: silences, level, jumps. Knows no words."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

AUDIBLE_DBFS = -45.0
WINDOW_S = 0.01
SILENT_BELOW_SPEECH_DB = 28.0  # a trained codec hisses at about 34 dB below its speech
FLOOR_DBFS = -120.0
CLICK_RATIO = 4.0
CLICK_FLOOR = 0.01
_SHORTEST_FOR_LOUDNESS_S = 0.4

Samples = NDArray[np.float32]
"""Mono samples in [-1, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sound:
    """A recording as a whole.

    Attributes:
        audio_s: Its length.
        leading_silence_s: Before the first sample of at least -45 dBFS; all of it where none is.
        spoken_s: From there to the last such sample.
        longest_pause_s: Longest stretch in between, in windows of 10 ms, that is 28 dB below the
            level of the speech.
        level_dbfs: Root mean square of the windows that are no pause; -120 for silence.
    """

    audio_s: float
    leading_silence_s: float
    spoken_s: float
    longest_pause_s: float
    level_dbfs: float


def describe(samples: Samples, rate_hz: int) -> Sound:
    """Measure a recording."""
    audible = np.flatnonzero(np.abs(samples) >= 10 ** (AUDIBLE_DBFS / 20))
    audio_s = len(samples) / rate_hz
    if not audible.size:
        return Sound(
            audio_s=audio_s,
            leading_silence_s=audio_s,
            spoken_s=0.0,
            longest_pause_s=0.0,
            level_dbfs=speech_level_dbfs(samples, rate_hz),
        )
    first, last = int(audible[0]), int(audible[-1]) + 1
    level = speech_level_dbfs(samples, rate_hz)
    silent = window_levels(samples[first:last], rate_hz) < level - SILENT_BELOW_SPEECH_DB
    return Sound(
        audio_s=audio_s,
        leading_silence_s=first / rate_hz,
        spoken_s=(last - first) / rate_hz,
        longest_pause_s=_longest_run(silent) * WINDOW_S,
        level_dbfs=level,
    )


def window_levels(samples: Samples, rate_hz: int) -> NDArray[np.float64]:
    """Root mean square of each whole window of 10 ms, in dBFS `[W]`, at least -120."""
    size = max(1, round(WINDOW_S * rate_hz))
    windows = samples[: len(samples) // size * size].reshape(-1, size).astype(np.float64)
    return 10 * np.log10(np.maximum((windows**2).mean(axis=1), 10 ** (FLOOR_DBFS / 10)))


def speech_level_dbfs(samples: Samples, rate_hz: int) -> float:
    """Level of the windows within 30 dB of the loudest ones: pauses do not count."""
    levels = window_levels(samples, rate_hz)
    if not levels.size:
        return FLOOR_DBFS
    loud = levels[levels >= np.percentile(levels, 95) - 30.0]
    return float(10 * np.log10((10 ** (loud / 10)).mean()))


def clicks(samples: Samples, rate_hz: int) -> NDArray[np.int64]:
    """Places where the wave jumps as speech does not: indexes of the samples after the jump.

    A jump is a click where it is over 4 times the 99th percentile of the sample-to-sample steps of
    its own and the two neighbouring windows of 10 ms, and over a hundredth of full scale.
    """
    steps = np.abs(np.diff(samples.astype(np.float64)))
    size = max(1, round(WINDOW_S * rate_hz))
    num_windows = len(steps) // size
    if not num_windows:
        return np.zeros(0, np.int64)
    usual = np.percentile(steps[: num_windows * size].reshape(-1, size), 99, axis=1)
    around = np.pad(usual, 1, mode="edge")
    local = np.maximum.reduce([around[:-2], around[1:-1], around[2:]])
    limit = np.maximum(CLICK_RATIO * local, CLICK_FLOOR)
    window = np.minimum(np.arange(len(steps)) // size, num_windows - 1)
    return np.flatnonzero(steps > limit[window]) + 1


def jump_ratio(samples: Samples, place: int, rate_hz: int) -> float:
    """Largest step within 1 ms of a place over the 99th percentile of those within 30 ms."""
    near, far = max(1, rate_hz // 1000), max(1, 30 * rate_hz // 1000)
    steps = np.abs(np.diff(samples[max(0, place - far) : place + far].astype(np.float64)))
    middle = min(place, far)
    close = steps[max(0, middle - near) : middle + near]
    if not close.size:
        return 0.0
    return float(close.max() / max(float(np.percentile(steps, 99)), CLICK_FLOOR / CLICK_RATIO))


def pause_around(samples: Samples, place: int, rate_hz: int, level_dbfs: float) -> float:
    """Seconds of the pause that holds, or touches within 30 ms, a place; 0 where none does.

    Args:
        samples: The whole recording.
        place: Index of a sample.
        rate_hz: Samples per second.
        level_dbfs: Level of the speech; 28 dB below it is a pause.
    """
    size = max(1, round(WINDOW_S * rate_hz))
    reach = 4 * rate_hz
    start = max(0, place - reach) // size * size
    silent = window_levels(samples[start : place + reach], rate_hz) < (
        level_dbfs - SILENT_BELOW_SPEECH_DB
    )
    middle = min((place - start) // size, len(silent) - 1)
    near = [w for w in range(middle - 3, middle + 4) if 0 <= w < len(silent) and silent[w]]
    if not near:
        return 0.0
    first = last = min(near, key=lambda w: abs(w - middle))
    while first > 0 and silent[first - 1]:
        first -= 1
    while last + 1 < len(silent) and silent[last + 1]:
        last += 1
    return (last - first + 1) * WINDOW_S


def loudness_lufs(samples: Samples, rate_hz: int, pyloudnorm: Any) -> float | None:
    """Integrated loudness after ITU-R BS.1770; `None` for silence and for less than 0.4 s.

    Args:
        samples: Mono.
        rate_hz: Samples per second.
        pyloudnorm: The package of that name.
    """
    if len(samples) < _SHORTEST_FOR_LOUDNESS_S * rate_hz:
        return None
    loudness = float(pyloudnorm.Meter(rate_hz).integrated_loudness(samples))
    return loudness if np.isfinite(loudness) else None


def _longest_run(flags: NDArray[np.bool_]) -> int:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    return int((edges[1::2] - edges[::2]).max()) if edges.size else 0
