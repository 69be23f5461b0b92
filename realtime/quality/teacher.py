"""The teacher of the default voice, as a yardstick: how long it takes over a text, how it sounds.

Its text-to-phoneme part is what the service uses, so the package is there; its network is used
here alone.
"""

from typing import Any, Protocol

import numpy as np

from realtime.quality.packages import load
from realtime.quality.sound import Samples

RATE_HZ = 24_000
NAME = "hibari heart"


class Teacher(Protocol):
    """Speaks a text at its own pace."""

    def __call__(self, text: str) -> Samples:
        """Mono samples at 24 kHz; the same for the same text."""
        ...


class Hibari:
    """The loaded teacher; implements `Teacher`."""

    def __init__(self, hibari: Any) -> None:
        self._speak = hibari.Hibari(threads=1)

    def __call__(self, text: str) -> Samples:
        """Speech with a fixed seed."""
        return np.asarray(self._speak(text, seed=0), np.float32)


def load_teacher() -> Hibari:
    """Load the teacher.

    Raises:
        MissingPackageError: `hibari` is not installed.
    """
    return Hibari(load("hibari", "the expected length of a text"))
