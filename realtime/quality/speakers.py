"""Whose voice it is: speaker embeddings (GE2E, Wan et al., 2018; weights in `resemblyzer`)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import soundfile
from numpy.typing import NDArray

from realtime.errors import RequestError
from realtime.quality.packages import load
from realtime.quality.recogniser import resample
from realtime.quality.sound import Samples

RATE_HZ = 16_000
PURPOSE = "speaker similarity"
REFERENCE_ENDINGS = (".wav", ".flac", ".ogg", ".mp3")

Embedding = NDArray[np.float32]
"""`[256]`, of length 1."""


class BadReferenceError(RequestError):
    """A reference recording cannot be read."""

    code = "bad_reference"


class SpeakerJudge(Protocol):
    """Turns a recording into the direction of its voice."""

    def __call__(self, samples: Samples, rate_hz: int) -> Embedding:
        """The embedding of a recording that is not empty."""
        ...


class Resemblyzer:
    """The loaded encoder; implements `SpeakerJudge`."""

    def __init__(self, resemblyzer: Any) -> None:
        self._preprocess = resemblyzer.preprocess_wav
        self._encoder = resemblyzer.VoiceEncoder("cpu", verbose=False)

    def __call__(self, samples: Samples, rate_hz: int) -> Embedding:
        """The embedding, pauses left out and the level made equal."""
        audio = self._preprocess(resample(samples, rate_hz, RATE_HZ))
        return np.asarray(self._encoder.embed_utterance(audio), np.float32)


def load_speaker_judge() -> Resemblyzer:
    """Load the speaker encoder.

    Raises:
        MissingPackageError: `resemblyzer` or a package it needs is not installed.
    """
    return Resemblyzer(load("resemblyzer", PURPOSE))


def embed_all(
    recordings: Mapping[str, Sequence[tuple[Samples, int]]], judge: SpeakerJudge
) -> dict[str, Embedding]:
    """One embedding a voice: the mean direction of its recordings, given as (samples, rate)."""
    return {
        voice: unit(np.mean([judge(samples, rate) for samples, rate in recordings[voice]], axis=0))
        for voice in recordings
        if recordings[voice]
    }


def unit(embedding: NDArray[np.floating]) -> Embedding:
    """Scaled to length 1."""
    return (embedding / max(float(np.linalg.norm(embedding)), 1e-9)).astype(np.float32)


def read_references(folder: Path, voices: Sequence[str]) -> dict[str, list[tuple[Samples, int]]]:
    """Recordings of the voices: `folder/VOICE.wav`, or all audio files in `folder/VOICE/`.

    A voice without any is left out.

    Raises:
        BadReferenceError: A file cannot be read.
    """
    found: dict[str, list[tuple[Samples, int]]] = {}
    for voice in voices:
        inside = sorted((folder / voice).glob("*"))
        paths = [folder / f"{voice}{ending}" for ending in REFERENCE_ENDINGS]
        wanted = [p for p in paths + inside if p.suffix in REFERENCE_ENDINGS and p.is_file()]
        if wanted:
            found[voice] = [read_audio(path) for path in wanted]
    return found


def read_audio(path: Path) -> tuple[Samples, int]:
    """Mono samples and their rate.

    Raises:
        BadReferenceError: The file cannot be read.
    """
    try:
        samples, rate_hz = soundfile.read(path, dtype="float32", always_2d=True)
    except (OSError, soundfile.LibsndfileError) as error:
        raise BadReferenceError(f"{path}: {error}") from error
    return samples.mean(axis=1), rate_hz
