"""Whisper through faster-whisper: samples in, text out."""

from pathlib import Path
from typing import Any, Protocol

import numpy as np

from realtime.errors import RequestError
from realtime.quality.packages import load
from realtime.quality.sound import Samples

RATE_HZ = 16_000
PURPOSE = "word error"


class RecogniserNotFoundError(RequestError):
    """No model of that name can be had."""

    code = "recogniser_not_found"


class Recogniser(Protocol):
    """Writes down what is said."""

    def __call__(self, samples: Samples, rate_hz: int) -> str:
        """What is said in a recording of at most 30 s; every recording is heard afresh."""
        ...


class Whisper:
    """A loaded Whisper model; implements `Recogniser`."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __call__(self, samples: Samples, rate_hz: int) -> str:
        """What is said; the empty text for a recording without sound."""
        if not np.any(samples):
            return ""
        segments, _ = self._model.transcribe(
            resample(samples, rate_hz, RATE_HZ),
            language="en",
            beam_size=5,
            temperature=0.0,  # no random second attempts: the same audio is always heard the same
            condition_on_previous_text=False,
        )
        return " ".join(segment.text.strip() for segment in segments)


def load_recogniser(model: str, models: Path | None = None, *, threads: int = 1) -> Whisper:
    """Load a Whisper model that was converted for faster-whisper.

    Args:
        model: A folder; or a name such as `base` or `tiny.en`, which is looked for as
            `whisper-NAME` under `models` and else fetched by faster-whisper into its cache.
        models: Folder of models.
        threads: CPU threads.

    Raises:
        MissingPackageError: `faster-whisper` is not installed.
        RecogniserNotFoundError: There is no such model, or it cannot be fetched.
    """
    whisper = load("faster_whisper", PURPOSE)
    place = find_model(model, models)
    try:
        return Whisper(
            whisper.WhisperModel(place, device="cpu", compute_type="int8", cpu_threads=threads)
        )
    except Exception as error:  # the hub's client raises errors of several libraries
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise RecogniserNotFoundError(f"recogniser `{model}`: {reason}") from error


def find_model(model: str, models: Path | None) -> str:
    """The folder that a name stands for, else the name itself."""
    candidates = [Path(model)]
    if models is not None:
        candidates += [models / f"whisper-{model}", models / model]
    return next((str(path) for path in candidates if path.is_dir()), model)


def resample(samples: Samples, from_hz: int, to_hz: int) -> Samples:
    """Change the sample rate by a polyphase filter.

    Raises:
        MissingPackageError: `scipy` is not installed.
    """
    if from_hz == to_hz:
        return samples
    common = int(np.gcd(from_hz, to_hz))
    signal = load("scipy.signal", "resampling")
    return signal.resample_poly(samples, to_hz // common, from_hz // common).astype(np.float32)
