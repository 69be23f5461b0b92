"""Frequency bands of the codec's envelopes: evenly spaced on a log-like scale to 12 kHz."""

import numpy as np

HARMONIC_BANDS = 80
NOISE_BANDS = 40
_NYQUIST_HZ = 12000.0
_KNEE_HZ = 500.0


def band_positions(num_bands: int, num_bins: int) -> np.ndarray:
    """Position of each bin on the band axis, 0 to `num_bands - 1`, float64 `[num_bins]`."""
    hz = np.linspace(0.0, _NYQUIST_HZ, num_bins)
    return np.log1p(hz / _KNEE_HZ) / np.log1p(_NYQUIST_HZ / _KNEE_HZ) * (num_bands - 1)


def interpolation_matrix(num_bands: int, num_bins: int) -> np.ndarray:
    """Linear interpolation from band nodes to spectrum bins, float32 `[num_bands, num_bins]`."""
    position = band_positions(num_bands, num_bins)
    low = np.clip(position.astype(int), 0, num_bands - 2)
    weight = position - low
    matrix = np.zeros((num_bands, num_bins), np.float32)
    bins = np.arange(num_bins)
    matrix[low, bins] = 1.0 - weight
    matrix[low + 1, bins] += weight
    return matrix
