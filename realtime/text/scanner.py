"""A segment's text as it grows: fed one character at a time, it decides where to cut.

Because characters come singly, no decision can depend on how the caller split the text. A gap is
judged when the character behind it is known, a doubtful one when the next word is complete.
"""

from typing import NamedTuple

from realtime.text import sentence_words as known
from realtime.text.boundaries import (
    Verdict,
    is_blank,
    is_dressing,
    judge,
    line_ends,
    stop_position,
    word_at,
)

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
        if self._waiting_at is not None and not (character.isalpha() or character in "'\u2019"):
            cut = self._judge_waiting()
            if cut is not None:
                return cut
        if is_blank(character):
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
        return stop_position(self.text.rstrip()) is not None

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
        if self._newlines and line_ends(before, following):
            return Cut(at, ends_sentence=True)
        verdict = judge(before, following)
        if verdict is Verdict.ENDS_SENTENCE:
            return Cut(at, ends_sentence=True)
        if verdict is Verdict.NEEDS_WORD:
            self._waiting_at = at
        elif verdict is Verdict.ENDS_CLAUSE:
            self._clause_at = at
            if self._limits.clause_from is not None and at >= self._limits.clause_from:
                return Cut(at, ends_sentence=False)
        elif verdict is Verdict.IS_WORD_GAP:
            self._word_gaps.append(at)
        return None

    def _judge_waiting(self) -> Cut | None:
        at, self._waiting_at = self._waiting_at, None
        assert at is not None
        word = word_at(self.text, at)
        is_initial = len(word) == 1 and self.text[at + 1 : at + 2] == "."  # "Dr. A. Smith"
        starts = word in known.STARTERS and not is_initial
        return Cut(at, ends_sentence=True) if starts else None

    def _cut_by_length(self) -> Cut | None:
        length = len(self.text)
        limits = self._limits
        # Judged when a word is complete: the latest one may be the connective to cut before.
        is_word_complete = self._gap_at == length - 1
        if limits.word_from is not None and length >= limits.word_from and is_word_complete:
            earliest = limits.clause_from or 1
            is_clause_long = self._clause_at >= earliest // 2 and self._clause_at > 0
            at = self._clause_at if is_clause_long else self._best_word_gap(earliest)
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
                if word_at(self.text, at) in known.CONNECTIVES:
                    return at
        return early[-1]

    def _hard_cut(self) -> int:
        """A cut where the text has no good one: at white space, else between whole characters."""
        text = self.text
        for at in range(len(text) - 1, len(text) // 2, -1):
            if is_blank(text[at - 1]) and not is_blank(text[at]):
                return at
        for at in range(len(text) - 1, max(len(text) - 32, 1), -1):
            if not is_dressing(text[at]) and text[at - 1] != "\u200d":
                return at
        return len(text)
