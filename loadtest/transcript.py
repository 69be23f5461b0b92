"""Comparing what was said with what a recogniser wrote: normalised words and their differences."""

import random
import re
import unicodedata
from collections.abc import Sequence

from num2words import num2words  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:st|nd|rd|th)?", re.IGNORECASE)
_CURRENCY = re.compile(r"([$£€])\s?(\d[\d,]*(?:\.\d+)?)")
_CURRENCIES = {"$": "dollars", "£": "pounds", "€": "euros"}
_TIME = re.compile(r"\b(\d{1,2}):(\d{2})\b")
_YEAR_FROM, _YEAR_TO = 1100, 2100


def words_of(text: str) -> list[str]:
    """Lower-case words without punctuation, numbers spelled out.

    Both sides of a comparison go through this, because a recogniser writes "$25" and "3:30" where
    the text says "twenty five dollars" and "three thirty".
    """
    text = unicodedata.normalize("NFKC", text).replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    text = _CURRENCY.sub(lambda m: f"{m[2]} {_CURRENCIES[m[1]]}", text)
    text = _TIME.sub(_spoken_time, text)
    text = text.replace("%", " percent ").replace("&", " and ")
    text = _NUMBER.sub(lambda m: f" {_spoken_number(m[0])} ", text).lower()
    words = re.findall(r"[^\W\d_]+(?:'[^\W\d_]+)*", text)
    return [word for word in words if word != "and"]  # "a hundred and five" and "a hundred five"


def _spoken_time(match: "re.Match[str]") -> str:
    hour, minute = match[1], match[2]
    if minute == "00":
        return f"{hour} o'clock"
    return f"{hour} oh {minute[1]}" if minute[0] == "0" else f"{hour} {minute}"


def _spoken_number(number: str) -> str:
    number = number.replace(",", "")
    ordinal = re.fullmatch(r"(\d+)(st|nd|rd|th)", number, re.IGNORECASE)
    if ordinal:
        return num2words(int(ordinal[1]), to="ordinal")
    if "." in number:
        return num2words(number)
    is_year = len(number) == 4 and _YEAR_FROM <= int(number) < _YEAR_TO
    return num2words(int(number), to="year" if is_year else "cardinal")


def word_errors(said: Sequence[str], heard: Sequence[str]) -> int:
    """Fewest insertions, deletions and substitutions between two word sequences (Levenshtein)."""
    row = list(range(len(heard) + 1))
    for i, word in enumerate(said, 1):
        before, row = row, [i]
        for j, other in enumerate(heard, 1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (word != other)))
    return row[-1]


def error_rate(lines: Sequence[tuple[int, int]]) -> float:
    """Errors per word over (errors, words) of all lines together; 0 without words."""
    num_words = sum(words for _, words in lines)
    return sum(errors for errors, _ in lines) / num_words if num_words else 0.0


def error_rate_interval(
    lines: Sequence[tuple[int, int]], *, seed: int = 0, num_resamples: int = 2000
) -> tuple[float, float]:
    """95 % bootstrap interval of `error_rate`, resampling whole lines."""
    if not lines:
        return 0.0, 0.0
    draw = random.Random(seed)
    rates = sorted(error_rate(draw.choices(lines, k=len(lines))) for _ in range(num_resamples))
    return rates[round(0.025 * (num_resamples - 1))], rates[round(0.975 * (num_resamples - 1))]
