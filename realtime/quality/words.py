"""Comparing what was said with what a recogniser wrote: normalised words and their differences.

Both sides go through the same normalisation, because a recogniser writes "$25" and "3:30" where
the text says "twenty five dollars" and "three thirty". It is independent of the text front end, so
that a number the service reads wrongly counts as an error.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from num2words import num2words
from rapidfuzz.distance import Levenshtein

_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:st|nd|rd|th)?", re.IGNORECASE)
_CURRENCY = re.compile(r"([$£€])\s?(\d[\d,]*(?:\.\d+)?)")
_CURRENCIES = {"$": "dollars", "£": "pounds", "€": "euros"}
_TIME = re.compile(r"\b(\d{1,2}):(\d{2})\b")
_SIGNS = {"%": " percent ", "&": " and ", "°": " degrees "}
_YEAR_FROM, _YEAR_TO = 1100, 2100
_SPELLINGS = {
    "ok": "okay",
    "grey": "gray",
    "theatre": "theater",
    "colour": "color",
    "neighbour": "neighbor",
    "favourite": "favorite",
    "centre": "center",
    "metre": "meter",
    "metres": "meters",
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """A text against what was heard of it.

    Attributes:
        said: Its words.
        heard: The words heard.
        missing: Indexes into `said` of words that were not heard at all.
        changed: Indexes into `said` of words that were heard as others.
        added: (index into `said` before which it stands, word) of words heard in addition.
        num_chars: Characters of `said`, joined by spaces.
        num_char_errors: Fewest edits of characters between the two.
    """

    said: tuple[str, ...]
    heard: tuple[str, ...]
    missing: tuple[int, ...]
    changed: tuple[int, ...]
    added: tuple[tuple[int, str], ...]
    num_chars: int
    num_char_errors: int

    @property
    def num_words(self) -> int:
        """Words of the text."""
        return len(self.said)

    @property
    def num_word_errors(self) -> int:
        """Fewest insertions, deletions and substitutions of words between the two."""
        return len(self.missing) + len(self.changed) + len(self.added)

    @property
    def num_unheard_at_end(self) -> int:
        """How many words at the end of the text were not heard at all."""
        missing, count = set(self.missing), 0
        while count < len(self.said) and len(self.said) - 1 - count in missing:
            count += 1
        return count


def compare(text: str, heard: str) -> Comparison:
    """Align a text with what a recogniser wrote."""
    return compare_words(words_of(text), words_of(heard))


def compare_words(said: Sequence[str], heard: Sequence[str]) -> Comparison:
    """Align two sequences of normalised words."""
    missing: list[int] = []
    changed: list[int] = []
    added: list[tuple[int, str]] = []
    for edit in Levenshtein.editops(said, heard):
        if edit.tag == "delete":
            missing.append(edit.src_pos)
        elif edit.tag == "replace":
            changed.append(edit.src_pos)
        else:
            added.append((edit.src_pos, heard[edit.dest_pos]))
    letters = " ".join(said)
    return Comparison(
        said=tuple(said),
        heard=tuple(heard),
        missing=tuple(missing),
        changed=tuple(changed),
        added=tuple(added),
        num_chars=len(letters),
        num_char_errors=Levenshtein.distance(letters, " ".join(heard)),
    )


def words_of(text: str) -> list[str]:
    """Lower-case words without punctuation, numbers spelled out, spelling made American."""
    text = unicodedata.normalize("NFKC", text).replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    text = _CURRENCY.sub(lambda m: f"{m[2]} {_CURRENCIES[m[1]]}", text)
    text = _TIME.sub(_spoken_time, text)
    for sign, word in _SIGNS.items():
        text = text.replace(sign, word)
    text = _NUMBER.sub(lambda m: f" {_spoken_number(m[0])} ", text).lower()
    words: list[str] = re.findall(r"[^\W\d_]+(?:'[^\W\d_]+)*", text)
    # "a hundred and five" and "a hundred five"
    return [_SPELLINGS.get(word, word) for word in words if word != "and"]


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
