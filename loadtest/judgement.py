"""What a spoken line is worth: its word errors, and whether its length and level are plausible."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from loadtest.transcript import error_rate, error_rate_interval, word_errors, words_of

SHORT_LINE_WORDS = 14
TOO_LONG_RATIO = 1.6
TOO_SHORT_RATIO = 0.6
SILENT_DBFS = -50.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedLine:
    """One line of the text file.

    Attributes:
        index: Its number from 0.
        text: What was to be said.
        heard: What the recogniser wrote.
        num_words: Words of the normalised text.
        num_errors: Word errors against it.
        audio_s: Length of the speech; 0 where it failed.
        teacher_s: Length of the teacher's speech; `None` where not known.
        level_dbfs: Root mean square of the speech.
        fault: `failed`, `silent`, `too_long` or `too_short`; `None` where there is none.
        reason: How the service ended it, or its error code.
        real_time_factor: The service's figure.
    """

    index: int
    text: str
    heard: str
    num_words: int
    num_errors: int
    audio_s: float
    teacher_s: float | None
    level_dbfs: float
    fault: str | None
    reason: str
    real_time_factor: float | None


def fault_of(audio_s: float, teacher_s: float | None, level_dbfs: float) -> str | None:
    """What is wrong with a line's audio as a whole, if anything."""
    if audio_s <= 0:
        return "failed"
    if level_dbfs < SILENT_DBFS:
        return "silent"
    if teacher_s is not None and audio_s > TOO_LONG_RATIO * teacher_s:
        return "too_long"
    if teacher_s is not None and audio_s < TOO_SHORT_RATIO * teacher_s:
        return "too_short"
    return None


def count_errors(text: str, heard: str) -> tuple[int, int]:
    """Word errors and words of a line."""
    said = words_of(text)
    return word_errors(said, words_of(heard)), len(said)


def read_durations(path: Path) -> dict[str, float]:
    """Line of text -> seconds, from a file of `seconds<TAB>text` lines; `#` begins a comment.

    Raises:
        OSError: It cannot be read.
        ValueError: A line has another form.
    """
    durations: dict[str, float] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            seconds, _, text = line.partition("\t")
            durations[text.strip()] = float(seconds)
    return durations


def verdict(lines: Sequence[JudgedLine]) -> dict[str, Any]:
    """All lines together, JSON-ready: error rates with intervals, faults, the lines themselves."""
    short = [line for line in lines if len(line.text.split()) <= SHORT_LINE_WORDS]
    faults = [line for line in lines if line.fault is not None]
    return {
        "num_lines": len(lines),
        "all": _rates(lines),
        f"up_to_{SHORT_LINE_WORDS}_words": _rates(short),
        "num_faulty": len(faults),
        "faulty": [(line.index, line.fault) for line in faults],
        "lines": [asdict(line) for line in lines],
    }


def _rates(lines: Sequence[JudgedLine]) -> dict[str, Any]:
    pairs = [(line.num_errors, line.num_words) for line in lines]
    low, high = error_rate_interval(pairs)
    exact = sum(errors == 0 for errors, _ in pairs)
    return {
        "num_lines": len(pairs),
        "word_error_rate": error_rate(pairs),
        "interval_95": (low, high),
        "num_exact": exact,
    }
