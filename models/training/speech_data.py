"""Shards of teacher speech on disk."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

from models.training.teacher import Utterance


class _Record(msgspec.Struct):
    text: str
    phonemes: str
    num_frames: int
    num_samples: int
    speed: float = 1.0


_decode_records = msgspec.json.Decoder(list[_Record]).decode


def write_shard(path: Path, utterances: list[Utterance]) -> None:
    """Write `utterances` to `path` (.npz), replacing it at once."""
    records = [
        _Record(u.text, u.phonemes, len(u.f0), 0 if u.samples is None else len(u.samples), u.speed)
        for u in utterances
    ]
    arrays = {
        "records": np.frombuffer(msgspec.json.encode(records), np.uint8),
        "ends": np.concatenate([u.ends for u in utterances]),
        "harmonic": np.concatenate([u.harmonic for u in utterances]),
        "noise": np.concatenate([u.noise for u in utterances]),
        "f0": np.concatenate([u.f0 for u in utterances]),
        "voiced": np.concatenate([u.voiced for u in utterances]),
        "samples": np.concatenate(
            [u.samples for u in utterances if u.samples is not None] or [np.zeros(0, np.int16)]
        ),
    }
    part = path.with_suffix(".part.npz")
    np.savez(part, **arrays)
    part.replace(path)


def read_shard(path: Path) -> Iterator[Utterance]:
    """Yield the utterances of one shard."""
    with np.load(path) as arrays:
        data = {name: arrays[name] for name in arrays.files}
    frame = sample = phoneme = 0
    for r in _decode_records(data["records"].tobytes()):
        part = slice(frame, frame + r.num_frames)
        samples = data["samples"][sample : sample + r.num_samples] if r.num_samples else None
        ends = data["ends"][phoneme : phoneme + len(r.phonemes)]
        yield Utterance(
            r.text, r.phonemes, ends, data["harmonic"][part], data["noise"][part],
            data["f0"][part], data["voiced"][part], samples, r.speed,
        )  # fmt: skip
        frame, sample, phoneme = (
            frame + r.num_frames,
            sample + r.num_samples,
            phoneme + len(r.phonemes),
        )


def shards(folder: Path) -> list[Path]:
    """Finished shards in order."""
    return sorted(p for p in folder.glob("speech_*.npz") if ".part" not in p.name)
