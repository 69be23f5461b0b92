# ruff: noqa: RUF001
"""How the gap between two words of a text is judged: sentence end, clause end, or neither.

Pure functions of what stands before the gap and the first character behind it; "U.S. The" against
"U.S. Senate" also needs the next word. Knows nothing about streams, and about how text is read
aloud only which abbreviations do not end a sentence.
"""

import unicodedata
from enum import Enum, auto

from realtime.text import sentence_words as known

_TERMINATORS = frozenset(".!?…")
_CLAUSE_MARKS = frozenset(",;:—–")
_CLOSERS = frozenset("\"'”’)]}»*_~`")
_OPENERS = "\"'“‘([{«*_~`#>"
_BULLETS = frozenset("-*•+#>|")
# Longest run of closing marks and emoji between a full stop and the gap that is looked through.
_MAX_CLOSERS = 16
# A line longer than this without a full stop was probably wrapped, not ended.
_WRAPPED_LINE_CHARS = 60


class Verdict(Enum):
    """What a gap between two words is."""

    ENDS_SENTENCE = auto()
    ENDS_CLAUSE = auto()
    IS_WORD_GAP = auto()
    IS_BOUND = auto()  # the words on both sides are read as one ("Dr. Smith", "3 km")
    NEEDS_WORD = auto()


def is_dressing(character: str) -> bool:
    """Closing quotes, brackets, markup and emoji: what may stand between a stop and the gap."""
    if character in _CLOSERS:
        return True
    return character > "\x7f" and unicodedata.category(character) in (
        "So", "Sk", "Mn", "Me", "Cf", "Cs", "Pf", "Pe")  # fmt: skip


def is_blank(character: str) -> bool:
    """White space, the zero-width space among it."""
    return character.isspace() or character == "\u200b"


def word_at(text: str, at: int) -> str:
    """The word that starts at ``at``, lower case; empty where none does."""
    end = at
    while (
        end < len(text)
        and end - at < known.LONGEST_WORD
        and (text[end].isalpha() or text[end] in "'’")
    ):
        end += 1
    return text[at:end].lower().replace("’", "'")


def stop_position(text: str) -> int | None:
    """Index of the last sentence terminator, looking through closing marks and emoji."""
    at = len(text) - 1
    lowest = max(at - _MAX_CLOSERS, -1)
    while at > lowest and is_dressing(text[at]):
        at -= 1
    return at if at >= 0 and text[at] in _TERMINATORS else None


def line_ends(before: str, following: str) -> bool:
    """Whether a single line break behind ``before`` ends a sentence or is only a wrapped line."""
    if following in _BULLETS or following.isdigit():
        return True
    line = before[before.rfind("\n") + 1 :].rstrip()
    if stop_position(line) is not None or line.endswith(":"):
        return True
    return not following.islower() and len(line) < _WRAPPED_LINE_CHARS


def judge(before: str, following: str) -> Verdict:
    """Judge the gap between ``before`` (which ends in a visible character) and ``following``."""
    stop = stop_position(before)
    if stop is not None:
        return _judge_stop(before, stop, following)
    last = before.rstrip("".join(_CLOSERS))[-1:]
    if last in _CLAUSE_MARKS:
        # "March 3, 2024" and "1, 2" are read as one.
        is_number = following.isdigit() and before[-2:-1].isdigit()
        return Verdict.IS_BOUND if is_number else Verdict.ENDS_CLAUSE
    word = before[before.rfind(" ") + 1 :].lstrip(_OPENERS)
    is_free = before[-1].islower() and following.islower() and word.isalpha() and len(word) > 1
    if is_free and word.lower() not in known.LEANS_FORWARD:
        return Verdict.IS_WORD_GAP
    return Verdict.IS_BOUND


def _judge_stop(before: str, stop: int, following: str) -> Verdict:
    is_quoted = stop < len(before) - 1
    if before[stop] == "…" or before[max(stop - 1, 0) : stop + 1] == "..":
        return Verdict.IS_BOUND if following.islower() else Verdict.ENDS_SENTENCE
    if before[stop] != "." or is_quoted:
        # '"Really?" she asked' goes on, "really? yes" does not.
        goes_on = (is_quoted and following.islower()) or following in _CLAUSE_MARKS
        return Verdict.IS_BOUND if goes_on else Verdict.ENDS_SENTENCE
    word_at = max(before.rfind(blank, 0, stop) for blank in " \n\t\u00a0") + 1
    word = before[word_at:stop].lstrip(_OPENERS)
    if word.isdigit() and len(word) <= 3 and not before[:word_at].strip(_OPENERS + " \n\t"):
        return Verdict.IS_BOUND  # "1. Buy milk"
    return _judge_full_stop(word, following)


def _judge_full_stop(word: str, following: str) -> Verdict:
    """Judge "word. following": abbreviation, initial or the end of a sentence."""
    key = word.lower()
    is_number = following.isdigit()
    if key in known.NEVER_LAST or following in _CLAUSE_MARKS:
        return Verdict.IS_BOUND
    if is_number and key in known.BEFORE_NUMBERS:
        return Verdict.IS_BOUND
    if key in known.MAY_BE_LAST or _is_initials(word):
        if following.isupper() or following.istitle():
            return Verdict.NEEDS_WORD
        ends = not (following.islower() or is_number)
    else:
        # Prose without capitals: an abbreviation that is in no table rarely looks like a word.
        has_vowel = any(vowel in word for vowel in "aeiouy")
        is_word = word in known.SHORT_WORDS or (len(word) >= 3 and word.islower() and has_vowel)
        ends = is_word or not following.islower()
    return Verdict.ENDS_SENTENCE if ends else Verdict.IS_BOUND


def _is_initials(word: str) -> bool:
    """Whether the word is letters in ones and twos with stops between: "J", "U.S", "Ph.D"."""
    parts = word.split(".")
    if len(parts) == 1:
        return len(word) == 1 and word.isupper()
    return all(part.isalpha() and len(part) <= 2 for part in parts)
