"""Levels of 16-bit PCM: where sound begins and whether there is any."""

import numpy as np

FULL_SCALE = 32768.0


def amplitude_of_dbfs(dbfs: float) -> float:
    """The absolute 16-bit sample value that a level in dB relative to full scale stands for."""
    return FULL_SCALE * 10.0 ** (dbfs / 20.0)


def first_audible_sample(pcm: bytes, dbfs: float) -> int | None:
    """Index of the first sample at or above `dbfs`; `None` where all are quieter.

    Args:
        pcm: Little-endian s16 mono samples.
        dbfs: Level in dB relative to full scale, at most 0.
    """
    loud = np.abs(np.frombuffer(pcm, dtype="<i2").astype(np.int32)) >= amplitude_of_dbfs(dbfs)
    return int(loud.argmax()) if loud.any() else None


def rms_dbfs(pcm: bytes) -> float:
    """Root-mean-square level in dB relative to full scale; minus infinity for silence or nothing.

    Args:
        pcm: Little-endian s16 mono samples.
    """
    samples = np.frombuffer(pcm, dtype="<i2").astype(np.float64)
    power = float(np.mean(samples**2)) if samples.size else 0.0
    return 10.0 * float(np.log10(power / FULL_SCALE**2)) if power > 0 else float("-inf")
