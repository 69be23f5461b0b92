"""A waveform with known pitch as the parameters of an `Utterance`: any teacher can be learnt from.

WORLD (Morise et al., 2016; MIT) estimates the envelope and its aperiodic part.
"""

import warnings

import numpy as np

from models.codec.bands import HARMONIC_BANDS, NOISE_BANDS
from models.training.kokoro import Reading
from models.training.teacher import (
    DURATION_FRAMES,
    FLOOR,
    FRAME_SAMPLES,
    Utterance,
    audible,
    pooling_matrix,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its package asks setuptools for a version
    from pyworld import cheaptrick, d4c  # pyright: ignore[reportAttributeAccessIssue]  compiled

_RATE = 24000
_VOICED_HZ = 50.0
# root mean square of the louder half; what is learnt comes out as loud as the first speaker
_LOUD = 0.07
_PULSE_GAIN = 0.7  # of the synthesiser's pulse train, relative to white noise of unit variance


def analyse(text: str, phonemes: str, reading: Reading, speed: float = 1.0) -> Utterance | None:
    """The parameters of `reading`, cut to what is audible; None where nothing is."""
    f0 = reading.f0.astype(np.float64)
    voiced = f0 > _VOICED_HZ
    if voiced.sum() < 3:
        return None
    samples = reading.samples.astype(np.float64)
    samples *= _LOUD / _speech_level(samples)
    index = np.arange(len(f0))
    smooth = np.interp(index, index[voiced], f0[voiced])
    # WORLD's frames are centred at k * 300, f0 frames half a frame later
    at_frames = np.interp(index - 0.5, index, smooth)
    is_voiced = voiced & np.concatenate([[False], voiced[:-1]])
    times = index * FRAME_SAMPLES / _RATE
    pitch = np.where(is_voiced, at_frames, 0.0)
    power = cheaptrick(samples, pitch, times, _RATE)
    aperiodic = d4c(samples, pitch, times, _RATE, fft_size=(power.shape[1] - 1) * 2).clip(
        1e-3, 1.0 - 1e-3
    )
    bins = power.shape[1]
    periodic = 0.5 * np.log(power * (1 - aperiodic**2) + 1e-14) - np.log(_PULSE_GAIN)
    harmonic = periodic @ pooling_matrix(HARMONIC_BANDS, bins).T
    noise = 0.5 * np.log((power * aperiodic**2) @ pooling_matrix(NOISE_BANDS, bins).T + 1e-14)
    harmonic[~is_voiced] = FLOOR
    level = np.sqrt(power.mean(1))
    cut = audible(level)
    if cut is None:
        return None
    kept = slice(*cut)
    ends = np.cumsum(reading.durations * DURATION_FRAMES)[1:-1] - cut[0]
    return Utterance(
        text, phonemes, ends.astype(np.float32),
        np.maximum(harmonic, FLOOR)[kept].astype(np.float16),
        np.maximum(noise, FLOOR)[kept].astype(np.float16),
        smooth[kept].astype(np.float32), is_voiced[kept],
        (samples[cut[0] * FRAME_SAMPLES : cut[1] * FRAME_SAMPLES].clip(-1, 1) * 32767).astype(
            np.int16
        ),
        speed,
    )  # fmt: skip


def _speech_level(samples: np.ndarray) -> float:
    """Root mean square of the louder half of 12.5 ms pieces."""
    pieces = samples[: len(samples) // FRAME_SAMPLES * FRAME_SAMPLES].reshape(-1, FRAME_SAMPLES)
    power = np.sort((pieces**2).mean(1))[len(pieces) // 2 :]
    return float(np.sqrt(power.mean())) + 1e-9
