"""Teacher utterances on the codec's time grid: one row per hop of 128 samples, whole frames."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from models.spec import CodecSpec
from models.tokenizer import PhonemeTokenizer
from models.training.speech_data import read_shard
from models.training.teacher import FRAME_SAMPLES, Utterance

HOP_SAMPLES = 128
# a synthesiser frame is centred two hops after the first sample it reaches; its pitch is that of four hops on
_ENVELOPE_CENTRE = 2 * HOP_SAMPLES
_PITCH_CENTRE = 4 * HOP_SAMPLES


@dataclass(frozen=True)
class HopFeatures:
    """Aligned arrays of one utterance or of many on end: hops H, latents H / 4.

    Attributes:
        harmonic: float16 `[H, 80]`.
        noise: float16 `[H, 40]`.
        f0: float32 `[H]`, hertz.
        voiced: float32 `[H]`, 0 or 1.
        phonemes: int64 `[H / 4]`, the phoneme id at each latent.
    """

    harmonic: np.ndarray
    noise: np.ndarray
    f0: np.ndarray
    voiced: np.ndarray
    phonemes: np.ndarray


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


def hop_features(utterance: Utterance, spec: CodecSpec, tokenizer: PhonemeTokenizer) -> HopFeatures:
    """Resample one utterance to the codec's grid."""
    hops = num_frames(utterance, spec) * spec.samples_per_frame // HOP_SAMPLES
    start = np.arange(hops) * HOP_SAMPLES
    envelope = (start + _ENVELOPE_CENTRE) / FRAME_SAMPLES
    pitch = (start + _PITCH_CENTRE) / FRAME_SAMPLES - 0.5
    nearest = np.rint(envelope).astype(int).clip(0, len(utterance.voiced) - 1)
    latent_samples = spec.samples_per_frame // spec.latents_per_frame
    centre = (np.arange(hops * HOP_SAMPLES // latent_samples) + 0.5) * latent_samples / FRAME_SAMPLES
    index = np.searchsorted(utterance.ends, centre).clip(0, len(utterance.ends) - 1)
    ids = np.array(tokenizer.encode(utterance.phonemes), np.int64)
    return HopFeatures(
        _at(utterance.harmonic, envelope).astype(np.float16),
        _at(utterance.noise, envelope).astype(np.float16),
        _at(utterance.f0, pitch).astype(np.float32),
        utterance.voiced[nearest].astype(np.float32),
        ids[index],
    )


def load_corpus(paths: list[Path], spec: CodecSpec, *, with_samples: bool) -> tuple[HopFeatures, np.ndarray]:
    """All utterances of `paths` on end, and their samples (int16, empty where not asked for)."""
    tokenizer = PhonemeTokenizer()
    parts: list[HopFeatures] = []
    waves: list[np.ndarray] = []
    for path in paths:
        for utterance in read_shard(path):
            if with_samples:
                if utterance.samples is None:
                    continue
                length = num_frames(utterance, spec) * spec.samples_per_frame
                waves.append(np.pad(utterance.samples, (0, length - len(utterance.samples))))
            parts.append(hop_features(utterance, spec, tokenizer))
    joined = HopFeatures(
        *(
            np.concatenate([getattr(p, name) for p in parts])
            for name in ("harmonic", "noise", "f0", "voiced", "phonemes")
        )
    )
    return joined, np.concatenate(waves) if waves else np.zeros(0, np.int16)
