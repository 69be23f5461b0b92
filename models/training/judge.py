"""Word error rate by whisper-base, with numbers and spelling normalised on both sides."""

import re
from pathlib import Path

import jiwer
import numpy as np
from faster_whisper import WhisperModel
from num2words import num2words
from scipy.signal import resample_poly

_SPELLINGS = {
    "okay": "ok",
    "grey": "gray",
    "theatre": "theater",
    "colour": "color",
    "neighbour": "neighbor",
}
_UNITS = (("%", " percent"), ("°", " degrees"), ("&", " and "))


def _number(match: re.Match[str]) -> str:
    digits = match.group().replace(",", "")
    return (
        " " + num2words(int(digits)).replace("-", " ").replace(",", "").replace(" and ", " ") + " "
    )


def normalize(text: str) -> str:
    """Lower-case words of `text`, numbers spelled out, punctuation gone."""
    text = text.lower()
    text = re.sub(r"\$(\d[\d,]*)", r"\1 dollars", text)
    text = re.sub(r"(\d):(\d\d)\b", r"\1 \2", text)
    for sign, word in _UNITS:
        text = text.replace(sign, word)
    text = re.sub(
        r"(\d+)(st|nd|rd|th)\b",
        lambda m: num2words(int(m[1]), to="ordinal").replace("-", " "),
        text,
    )
    text = re.sub(r"\d[\d,]*", _number, text)
    text = re.sub(r"[^a-z' ]", " ", text.replace("\u2019", "'"))
    words = [_SPELLINGS.get(w.strip("'"), w.strip("'")) for w in text.split()]
    return " ".join(w for w in words if w and w != "and")


class Judge:
    """whisper-base on one thread."""

    def __init__(self, model: Path, threads: int = 1) -> None:
        self.whisper = WhisperModel(
            str(model), device="cpu", compute_type="int8", cpu_threads=threads
        )

    def hear(self, samples: np.ndarray) -> str:
        """What is said in 24 kHz samples, as words."""
        audio = resample_poly(samples, 2, 3).astype(np.float32)
        segments, _ = self.whisper.transcribe(
            audio, language="en", beam_size=1, condition_on_previous_text=False
        )
        return " ".join(s.text for s in segments)


def word_errors(reference: str, heard: str) -> tuple[int, int]:
    """Word errors, and words of the reference, after normalisation."""
    wanted, got = normalize(reference), normalize(heard)
    measures = jiwer.process_words(wanted, got or " ") if got else None
    count = len(wanted.split())
    if measures is None:
        return count, count
    return measures.substitutions + measures.deletions + measures.insertions, count
