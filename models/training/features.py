"""Teacher utterances on the codec's time grid: one row per hop of 128 samples, whole frames."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from models.codec.phones import PAUSE, phone_class
from models.spec import CodecSpec
from models.training.speech_data import read_shard
from models.training.teacher import FRAME_SAMPLES, Utterance

HOP_SAMPLES = 128
# a synthesiser frame is centred two hops after the first sample it reaches; its pitch is that of
# four hops on
_ENVELOPE_CENTRE = 2 * HOP_SAMPLES
_PITCH_CENTRE = 4 * HOP_SAMPLES
_SILENT = -5.0  # loudest band of a pause
# A sound is heard about four frames (50 ms) before the teacher's durations say: measured as the
# shift at which phonemes
# explain most of the envelopes' variance.
DURATION_LAG_FRAMES = 4.1
_NAMED_AHEAD_FRAMES = 1.0  # codes name a sound a little early, for the decoder does not look ahead


@dataclass(frozen=True)
class HopFeatures:
    """Aligned arrays of one utterance or of many on end: hops H, latents H / 4.

    Attributes:
        harmonic: float16 `[H, 80]`.
        noise: float16 `[H, 40]`.
        f0: float32 `[H]`, hertz.
        voiced: float32 `[H]`, 0 or 1.
        phones: int64 `[H / 4]`, the class of the sound at each latent.
    """

    harmonic: np.ndarray
    noise: np.ndarray
    f0: np.ndarray
    voiced: np.ndarray
    phones: np.ndarray


def num_frames(utterance: Utterance, spec: CodecSpec) -> int:
    """Codec frames that hold the whole utterance."""
    return -(-len(utterance.f0) * FRAME_SAMPLES // spec.samples_per_frame)


def _at(rows: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Linear interpolation of `rows` at fractional row positions, held at both ends."""
    position = position.clip(0, len(rows) - 1)
    low = position.astype(int).clip(0, len(rows) - 2)
    weight = (position - low).astype(np.float32)
    if rows.ndim == 2:
        weight = weight[:, None]
    return rows[low] * (1 - weight) + rows[low + 1] * weight


def hop_features(utterance: Utterance, spec: CodecSpec) -> HopFeatures:
    """Resample one utterance to the codec's grid."""
    hops = num_frames(utterance, spec) * spec.samples_per_frame // HOP_SAMPLES
    start = np.arange(hops) * HOP_SAMPLES
    envelope = (start + _ENVELOPE_CENTRE) / FRAME_SAMPLES
    pitch = (start + _PITCH_CENTRE) / FRAME_SAMPLES - 0.5
    nearest = np.rint(envelope).astype(int).clip(0, len(utterance.voiced) - 1)
    latent_samples = spec.samples_per_frame // spec.latents_per_frame
    centre = (
        (np.arange(hops * HOP_SAMPLES // latent_samples) + 0.5) * latent_samples / FRAME_SAMPLES
    )
    row = centre.astype(int).clip(0, len(utterance.f0) - 1)
    loudest = np.maximum(utterance.harmonic.max(1), utterance.noise.max(1))[row]
    return HopFeatures(
        _at(utterance.harmonic, envelope).astype(np.float16),
        _at(utterance.noise, envelope).astype(np.float16),
        _at(utterance.f0, pitch).astype(np.float32),
        utterance.voiced[nearest].astype(np.float32),
        _phones(utterance, centre + DURATION_LAG_FRAMES + _NAMED_AHEAD_FRAMES, loudest),
    )


def heard_ends(utterance: Utterance) -> np.ndarray:
    """End of each phoneme as it is heard, in teacher frames from the start, `[len(phonemes)]`."""
    return (utterance.ends - DURATION_LAG_FRAMES).clip(min=0.0)


def _phones(utterance: Utterance, at: np.ndarray, loudest: np.ndarray) -> np.ndarray:
    """Class of the sound at each instant (teacher frames).

    The spans of marks without a sound of their own belong to the sound after them (stress) or to
    the nearest one, or are a pause where nothing is heard.
    """
    classes = [phone_class(symbol) for symbol in utterance.phonemes]
    starts = np.concatenate([[0.0], utterance.ends[:-1]])
    sounds = [i for i, c in enumerate(classes) if c is not None]
    named = np.array([classes[i] for i in sounds], np.int64)
    begin = np.array(
        [starts[i - 1] if i and utterance.phonemes[i - 1] in "ˈˌ" else starts[i] for i in sounds]
    )
    end = utterance.ends[sounds]
    distance = np.maximum(0.0, np.maximum(begin[None] - at[:, None], at[:, None] - end[None]))
    nearest = distance.argmin(1)
    outside = distance[np.arange(len(at)), nearest] > 0
    return np.where(outside & (loudest < _SILENT), PAUSE, named[nearest])


def load_corpus(
    paths: list[Path], spec: CodecSpec, *, with_samples: bool
) -> tuple[HopFeatures, np.ndarray]:
    """All utterances of `paths` on end, and their samples (int16, empty where not asked for)."""
    parts: list[HopFeatures] = []
    waves: list[np.ndarray] = []
    for path in paths:
        for utterance in read_shard(path):
            if with_samples:
                if utterance.samples is None:
                    continue
                length = num_frames(utterance, spec) * spec.samples_per_frame
                waves.append(np.pad(utterance.samples, (0, length - len(utterance.samples))))
            parts.append(hop_features(utterance, spec))
    joined = HopFeatures(
        *(
            np.concatenate([getattr(p, name) for p in parts])
            for name in ("harmonic", "noise", "f0", "voiced", "phones")
        )
    )
    return joined, np.concatenate(waves) if waves else np.zeros(0, np.int16)
