"""Lines, sounds and listeners made up for the tests."""

import numpy as np

from realtime.quality.opinion import Opinion
from realtime.quality.results import LineResult, Report
from realtime.quality.speakers import unit

RATE_HZ = 24_000


def line(**changes) -> LineResult:
    facts = {
        "voice": "default",
        "seed": 0,
        "speed": 1.0,
        "index": 0,
        "text": "The red door is open.",
        "audio": "",
        "reason": "end_of_speech",
        "heard": "the red door is open",
        "num_words": 5,
        "num_word_errors": 0,
        "num_chars": 20,
        "num_char_errors": 0,
        "audio_s": 2.0,
        "expected_s": 2.0,
        "leading_silence_s": 0.02,
        "spoken_s": 1.9,
        "longest_pause_s": 0.1,
        "level_dbfs": -25.0,
        "num_clicks": 0,
    }
    return LineResult(**(facts | changes))


def report(*lines: LineResult, **changes) -> Report:
    facts = {
        "settings": {},
        "notes": (),
        "figures": {name: {} for name in dict.fromkeys(one.voice for one in lines)},
        "lines": lines,
    }
    return Report(**(facts | changes))


def speech(seconds: float, seed: int = 0, level: float = 0.1) -> np.ndarray:
    """Noise with the spectrum of a voice, float32: no step is much larger than its neighbours."""
    noise = np.random.default_rng(seed).standard_normal(int(seconds * RATE_HZ) + 31)
    smooth = np.convolve(noise, np.hanning(32), mode="valid")
    ramp = np.minimum(1, np.arange(len(smooth)) / (0.01 * RATE_HZ))  # sounds do not begin at once
    return (level * ramp * ramp[::-1] * smooth / smooth.std()).clip(-1, 1).astype(np.float32)


def silence(seconds: float) -> np.ndarray:
    return np.zeros(int(seconds * RATE_HZ), np.float32)


def hear_nothing(samples, rate_hz) -> str:
    return ""


def opinion(samples, rate_hz) -> Opinion:
    return Opinion(overall=3.0, signal=3.5, background=4.0)


def embed(samples, rate_hz):
    """A voice of its own for every level of the recording."""
    angle = float(np.abs(samples).mean())
    return unit(np.array([np.cos(angle), np.sin(angle)]))
