"""A causal source-filter synthesiser: pulses and noise, filtered anew at every hop.

Knows envelopes and pitch; nothing of codes. Output is complete as soon as its hop's parameters are
known: no look-ahead.
"""

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from models.codec.bands import HARMONIC_BANDS, NOISE_BANDS, interpolation_matrix

HOP = 128
WINDOW = 512
FFT_SIZE = 1024
SOURCE_TAIL = WINDOW - HOP  # source samples that the next hop's window reaches back to
OVERLAP = FFT_SIZE - HOP  # samples that later hops still add to
_HIGHEST_HARMONIC_HZ = 11500.0
_NYQUIST_HZ = 12000.0
_SAMPLE_RATE = 24000.0
_NOISE_HOPS = 2048  # the noise repeats after 10.9 s
_NOISE_SEED = 20261130


def _minimum_phase_matrix() -> np.ndarray:
    """Log amplitudes to the minimum phase that belongs to them, `[513, 513]` (cepstral folding)."""
    bins = FFT_SIZE // 2 + 1
    cepstrum = np.fft.irfft(np.eye(bins), FFT_SIZE, axis=1)
    fold = np.zeros(FFT_SIZE)
    fold[0] = fold[FFT_SIZE // 2] = 1.0
    fold[1 : FFT_SIZE // 2] = 2.0
    return np.fft.rfft(cepstrum * fold, FFT_SIZE, axis=1).imag.astype(np.float32)


def _buffer(values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, np.float32))


class Synthesiser(nn.Module):
    """Envelopes and pitch to samples; has tables, no weights."""

    harmonic_bins: Tensor
    harmonic_phase: Tensor
    noise_bins: Tensor
    window: Tensor
    noise: Tensor

    def __init__(self) -> None:
        super().__init__()
        bins = FFT_SIZE // 2 + 1
        harmonic = interpolation_matrix(HARMONIC_BANDS, bins)
        tables = {
            "harmonic_bins": harmonic,
            "harmonic_phase": harmonic @ _minimum_phase_matrix(),
            "noise_bins": interpolation_matrix(NOISE_BANDS, bins),
            "window": (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)) / 2,
            "noise": np.random.default_rng(_NOISE_SEED).standard_normal((_NOISE_HOPS, HOP)),
        }
        for name, values in tables.items():
            self.register_buffer(name, _buffer(values), persistent=False)

    def pulses(self, pitch: Tensor, before: Tensor, phase: Tensor) -> tuple[Tensor, Tensor]:
        """Pulse train whose pitch moves linearly to `pitch[t]` at the end of hop t.

        Args:
            pitch: Hertz, `[B, T]`.
            before: Hertz at the end of the hop before, `[B]`.
            phase: Cycles at that instant, float64 `[B]`.

        Returns:
            Samples of about unit power `[B, T * 128]`, and the phase at their end, float64 `[B]`
            in [0, 1).
        """
        batch = pitch.shape[0]
        knots = torch.cat([before[:, None], pitch], 1)
        ramp = torch.arange(1, HOP + 1, device=pitch.device) / HOP
        hz = (knots[:, :-1, None] * (1 - ramp) + knots[:, 1:, None] * ramp).reshape(batch, -1)
        cycles = phase[:, None] + torch.cumsum(hz.double() / _SAMPLE_RATE, 1)
        angle = (cycles % 1.0).float() * (2 * math.pi)
        harmonics = torch.floor(_HIGHEST_HARMONIC_HZ / hz)
        half = torch.sin(angle / 2)
        half = torch.where(half.abs() < 1e-4, torch.full_like(half, 1e-4), half)
        wave = torch.sin((harmonics + 0.5) * angle) / (2 * half) - 0.5
        return wave * torch.sqrt(2 * hz / _NYQUIST_HZ) * 0.7, cycles[:, -1] % 1.0

    def noise_at(self, first_hop: Tensor, length: int) -> Tensor:
        """White noise of `length` hops from `first_hop` (int64 `[B]`), `[B, length * 128]`.

        The same hop has the same noise in every stream: streamed and one-shot output agree.
        """
        index = (first_hop[:, None] + torch.arange(length, device=first_hop.device)) % _NOISE_HOPS
        return self.noise[index].flatten(1)

    def frames(self, pulses: Tensor, noise: Tensor, harmonic: Tensor, aperiodic: Tensor) -> Tensor:
        """Filter each window of the sources.

        Args:
            pulses: `[B, 384 + T * 128]`.
            noise: Likewise.
            harmonic: Log amplitudes, `[B, T, 80]`.
            aperiodic: `[B, T, 40]`.

        Returns:
            `[B, T, 1024]`, to be overlapped at a hop of 128.
        """
        pulse_bins = torch.fft.rfft(pulses.unfold(1, WINDOW, HOP) * self.window, FFT_SIZE)
        noise_bins = torch.fft.rfft(noise.unfold(1, WINDOW, HOP) * self.window, FFT_SIZE)
        voice = torch.polar(
            torch.exp(harmonic @ self.harmonic_bins), harmonic @ self.harmonic_phase
        )
        breath = torch.exp(aperiodic @ self.noise_bins)
        return torch.fft.irfft(pulse_bins * voice + noise_bins * breath, FFT_SIZE)


def overlap_add(frames: Tensor) -> Tensor:
    """`[B, T, 1024]` -> `[B, T * 128 + 896]`."""
    length = (frames.shape[1] - 1) * HOP + FFT_SIZE
    summed = functional.fold(frames.transpose(1, 2), (1, length), (1, FFT_SIZE), stride=(1, HOP))
    return summed[:, 0, 0]
