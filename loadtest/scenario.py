"""What a load test does, fixed before it starts."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from realtime.client import DEFAULT_URL


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A number of callers, each speaking one utterance after another for a given time.

    Attributes:
        url: The service.
        credential: API key, where the service asks for one.
        num_streams: Callers, each with a connection of its own.
        duration_s: No utterance starts later than this; those under way are finished.
        ramp_s: The callers start evenly over this time.
        sentences: What there is to say.
        sentences_per_utterance: Joined with a space.
        listens: A caller waits until its listener has heard everything before it speaks again;
            otherwise it speaks again as soon as everything has arrived, which is harder.
        pieces_per_second: Pace at which text is sent, in pieces of about four characters; `None`
            sends it whole.
        seed: Of the order of the sentences and of the speech.
        audible_dbfs: Level at which a sample counts as audible.
    """

    url: str = DEFAULT_URL
    credential: str | None = None
    num_streams: int = 8
    duration_s: float = 120.0
    ramp_s: float = 1.0
    sentences: tuple[str, ...]
    sentences_per_utterance: int = 3
    listens: bool = False
    pieces_per_second: float | None = None
    seed: int = 1
    audible_dbfs: float = -45.0

    def texts(self, stream: int) -> Iterator[str]:
        """The utterances of one caller, without end; the same for the same seed."""
        shuffled = random.Random(f"{self.seed}/{stream}")
        while True:
            yield " ".join(shuffled.sample(self.sentences, self.sentences_per_utterance))

    def start_s(self, stream: int) -> float:
        """When a caller starts, in seconds after the start of the test."""
        return self.ramp_s * stream / self.num_streams


def read_sentences(path: Path) -> tuple[str, ...]:
    """The non-empty lines of a text file.

    Raises:
        OSError: It cannot be read.
        ValueError: It holds none.
    """
    lines = tuple(line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    sentences = tuple(line for line in lines if line and not line.startswith("#"))
    if not sentences:
        raise ValueError(f"{path} holds no sentences")
    return sentences
