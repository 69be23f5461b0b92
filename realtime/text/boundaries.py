# ruff: noqa: RUF001
"""Where a growing text may be cut: sentence ends, clause ends and word gaps.

`Scanner` is fed one character at a time, so that its decisions cannot depend on how the caller
split the text. A gap between words is judged when the character behind it is known, and where even
that is not enough ("U.S. The" against "U.S. Senate") when the next word is complete. Knows nothing
about how text is read aloud except which abbreviations do not end a sentence.
"""

import unicodedata
from enum import Enum, auto
from typing import NamedTuple

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
# A cut shortly before the latest character would leave a remainder of one or two words.
_MIN_REMAINDER_CHARS = 12


class Cut(NamedTuple):
    """A decision: the segment is the first ``at`` characters of the scanner's text."""

    at: int
    ends_sentence: bool


class Limits(NamedTuple):
    """Lengths in characters that one segment is cut by.

    Attributes:
        clause_from: a clause end past this many characters is a cut at once; `None` for never.
        word_from: past this many characters a word gap is a cut; `None` for never.
        longest: no segment is longer.
    """

    clause_from: int | None
    word_from: int | None
    longest: int


class _Verdict(Enum):
    ENDS_SENTENCE = auto()
    ENDS_CLAUSE = auto()
    IS_WORD_GAP = auto()
    IS_BOUND = auto()  # the words on both sides are read as one ("Dr. Smith", "3 km")
    NEEDS_WORD = auto()


def _is_blank(character: str) -> bool:
    return character.isspace() or character == "\u200b"


def _is_dressing(character: str) -> bool:
    """Closing quotes, brackets, markup and emoji: what may stand between a stop and the gap."""
    if character in _CLOSERS:
        return True
    return character > "\x7f" and unicodedata.category(character) in (
        "So", "Sk", "Mn", "Me", "Cf", "Cs", "Pf", "Pe")  # fmt: skip


class Scanner:
    """The text of one segment as it grows.

    Attributes:
        text: what has been added and not cut; the owner takes the cut part and starts a new scanner
            with the rest.
    """

    __slots__ = (
        "_clause_at",
        "_gap_at",
        "_limits",
        "_newlines",
        "_waiting_at",
        "_word_gaps",
        "text",
    )

    def __init__(self, limits: Limits) -> None:
        self.text = ""
        self._limits = limits
        self._gap_at: int | None = None  # start of the white space that ends `text`
        self._newlines = 0
        self._clause_at = 0  # latest clause end, 0 for none
        self._word_gaps: list[int] = []
        self._waiting_at: int | None = None  # a gap whose verdict needs the next word

    def add(self, character: str) -> Cut | None:
        """Add one character; gives the cut that it decides, if any."""
        self.text += character
        if self._waiting_at is not None and not (character.isalpha() or character in "'’"):
            cut = self._judge_waiting()
            if cut is not None:
                return cut
        if _is_blank(character):
            if self._add_blank(character):
                return Cut(len(self.text), ends_sentence=True)
        elif self._gap_at is not None:
            gap_at, self._gap_at = self._gap_at, None
            cut = self._judge_gap(gap_at)
            self._newlines = 0
            if cut is not None:
                return cut
        return self._cut_by_length()

    def finish(self) -> Cut | None:
        """The cut that is open only because more text might follow."""
        return self._judge_waiting() if self._waiting_at is not None else None

    def ends_like_sentence(self) -> bool:
        """Whether the text as it stands closes with a full stop or the like."""
        return _stop_position(self.text.rstrip()) is not None

    def _add_blank(self, character: str) -> bool:
        """Note white space; gives whether it completes a paragraph, whatever follows."""
        if self._gap_at is None and len(self.text) > 1:
            self._gap_at = len(self.text) - 1
        if self._gap_at is not None and character in "\n\u2029\x85":
            self._newlines += 1
        return self._newlines >= 2

    def _judge_gap(self, gap_at: int) -> Cut | None:
        at = len(self.text) - 1
        before, following = self.text[:gap_at], self.text[at]
        if not before.strip():
            return None
        if self._newlines and _line_ends(before, following):
            return Cut(at, ends_sentence=True)
        verdict = _judge(before, following)
        if verdict is _Verdict.ENDS_SENTENCE:
            return Cut(at, ends_sentence=True)
        if verdict is _Verdict.NEEDS_WORD:
            self._waiting_at = at
        elif verdict is _Verdict.ENDS_CLAUSE:
            self._clause_at = at
            if self._limits.clause_from is not None and at >= self._limits.clause_from:
                return Cut(at, ends_sentence=False)
        elif verdict is _Verdict.IS_WORD_GAP:
            self._word_gaps.append(at)
        return None

    def _judge_waiting(self) -> Cut | None:
        at, self._waiting_at = self._waiting_at, None
        assert at is not None
        return Cut(at, ends_sentence=True) if _word_at(self.text, at) in known.STARTERS else None

    def _cut_by_length(self) -> Cut | None:
        length = len(self.text)
        limits = self._limits
        # Judged when a word is complete: the latest one may be the connective to cut before.
        is_word_complete = self._gap_at == length - 1
        if limits.word_from is not None and length >= limits.word_from and is_word_complete:
            at = self._best_word_gap(limits.clause_from or 1)
            if at:
                return Cut(at, ends_sentence=False)
        if length < limits.longest:
            return None
        third = limits.longest // 3
        at = self._clause_at if self._clause_at >= third else self._best_word_gap(third)
        return Cut(at or self._clause_at or self._hard_cut(), ends_sentence=False)

    def _best_word_gap(self, earliest: int) -> int:
        """Latest gap before a connective, else the latest one; 0 for none."""
        gaps = [at for at in self._word_gaps if at >= earliest]
        if not gaps:
            return 0
        early = [at for at in gaps if len(self.text) - at >= _MIN_REMAINDER_CHARS] or gaps
        for choice in (early, gaps):
            for at in reversed(choice):
                if _word_at(self.text, at) in known.CONNECTIVES:
                    return at
        return early[-1]

    def _hard_cut(self) -> int:
        """A cut where the text has no good one: at white space, else between whole characters."""
        text = self.text
        for at in range(len(text) - 1, len(text) // 2, -1):
            if _is_blank(text[at - 1]) and not _is_blank(text[at]):
                return at
        for at in range(len(text) - 1, max(len(text) - 32, 1), -1):
            if not _is_dressing(text[at]) and text[at - 1] != "\u200d":
                return at
        return len(text)


def _word_at(text: str, at: int) -> str:
    """The word that starts at ``at``, lower case; empty where none does."""
    end = at
    while (
        end < len(text)
        and end - at < known.LONGEST_WORD
        and (text[end].isalpha() or text[end] in "'’")
    ):
        end += 1
    return text[at:end].lower().replace("’", "'")


def _stop_position(text: str) -> int | None:
    """Index of the last sentence terminator, looking through closing marks and emoji."""
    at = len(text) - 1
    lowest = max(at - _MAX_CLOSERS, -1)
    while at > lowest and _is_dressing(text[at]):
        at -= 1
    return at if at >= 0 and text[at] in _TERMINATORS else None


def _line_ends(before: str, following: str) -> bool:
    """Whether a single line break behind ``before`` ends a sentence or is only a wrapped line."""
    if following in _BULLETS or following.isdigit():
        return True
    line = before[before.rfind("\n") + 1 :].rstrip()
    if _stop_position(line) is not None or line.endswith(":"):
        return True
    return not following.islower() and len(line) < _WRAPPED_LINE_CHARS


def _judge(before: str, following: str) -> _Verdict:
    """Judge the gap between ``before`` (which ends in a visible character) and ``following``."""
    stop = _stop_position(before)
    if stop is not None:
        return _judge_stop(before, stop, following)
    last = before.rstrip("".join(_CLOSERS))[-1:]
    if last in _CLAUSE_MARKS:
        # "March 3, 2024" and "1, 2" are read as one.
        is_number = following.isdigit() and before[-2:-1].isdigit()
        return _Verdict.IS_BOUND if is_number else _Verdict.ENDS_CLAUSE
    word = before[before.rfind(" ") + 1 :].lstrip(_OPENERS)
    is_free = before[-1].islower() and following.islower() and word.isalpha() and len(word) > 1
    if is_free and word.lower() not in known.LEANS_FORWARD:
        return _Verdict.IS_WORD_GAP
    return _Verdict.IS_BOUND


def _judge_stop(before: str, stop: int, following: str) -> _Verdict:
    is_quoted = stop < len(before) - 1
    if before[stop] == "…" or before[max(stop - 1, 0) : stop + 1] == "..":
        return _Verdict.IS_BOUND if following.islower() else _Verdict.ENDS_SENTENCE
    if before[stop] != "." or is_quoted:
        # '"Really?" she asked' goes on, "really? yes" does not.
        goes_on = (is_quoted and following.islower()) or following in _CLAUSE_MARKS
        return _Verdict.IS_BOUND if goes_on else _Verdict.ENDS_SENTENCE
    word_at = max(before.rfind(blank, 0, stop) for blank in " \n\t\u00a0") + 1
    word = before[word_at:stop].lstrip(_OPENERS)
    if word.isdigit() and len(word) <= 3 and not before[:word_at].strip(_OPENERS + " \n\t"):
        return _Verdict.IS_BOUND  # "1. Buy milk"
    return _judge_full_stop(word, following)


def _judge_full_stop(word: str, following: str) -> _Verdict:
    """Judge "word. following": abbreviation, initial or the end of a sentence."""
    key = word.lower()
    is_number = following.isdigit()
    if key in known.NEVER_LAST or following in _CLAUSE_MARKS:
        return _Verdict.IS_BOUND
    if is_number and key in known.BEFORE_NUMBERS:
        return _Verdict.IS_BOUND
    if key in known.MAY_BE_LAST or _is_initials(word):
        if following.isupper() or following.istitle():
            return _Verdict.NEEDS_WORD
        ends = not (following.islower() or is_number)
    else:
        # Prose without capitals: an abbreviation that is in no table rarely looks like a word.
        is_word = len(word) >= 3 and word.islower() and any(v in word for v in "aeiouy")
        ends = is_word or not following.islower()
    return _Verdict.ENDS_SENTENCE if ends else _Verdict.IS_BOUND


def _is_initials(word: str) -> bool:
    """Whether the word is letters in ones and twos with stops between: "J", "U.S", "Ph.D"."""
    parts = word.split(".")
    if len(parts) == 1:
        return len(word) == 1 and word.isupper()
    return all(part.isalpha() and len(part) <= 2 for part in parts)
