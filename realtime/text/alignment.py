"""A text that remembers where each of its characters came from while rules rewrite it.

Knows nothing about language: it only keeps, for every character, the span of source characters it
stands for, so that a position in the rewritten text leads back to the caller's own text.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable

Replace = Callable[[re.Match[str]], str | None]


class AlignedText:
    """Rewritable text with a source span per character.

    Attributes:
        text: the text as rewritten so far.
        starts: source offset at which character ``i`` of ``text`` starts, in code points.
        ends: source offset behind the last source character that ``i`` stands for.
    """

    __slots__ = ("ends", "starts", "text")

    def __init__(self, source: str, offset: int = 0) -> None:
        """Align ``source`` with itself; its first character has the source offset ``offset``."""
        self.text = source
        self.starts = list(range(offset, offset + len(source)))
        self.ends = list(range(offset + 1, offset + len(source) + 1))

    def sub(self, pattern: re.Pattern[str], replace: Replace) -> None:
        """Replace every match by ``replace(match)``; ``None`` leaves the match as it is.

        All characters of a replacement stand for the whole match: a reading such as "three dollars"
        has no finer correspondence with "$3".
        """
        text, last = self.text, 0
        parts: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        for match in pattern.finditer(text):
            first, behind = match.span()
            new = replace(match)
            if new is None or first == behind or new == match.group():
                continue
            parts += text[last:first], new
            starts += self.starts[last:first] + [self.starts[first]] * len(new)
            ends += self.ends[last:first] + [self.ends[behind - 1]] * len(new)
            last = behind
        if not parts:
            return
        self.text = "".join([*parts, text[last:]])
        self.starts = starts + self.starts[last:]
        self.ends = ends + self.ends[last:]

    def map_characters(self, convert: Callable[[str], str]) -> None:
        """Replace each character by ``convert(character)``, which may be empty or longer."""
        pieces = [convert(character) for character in self.text]
        self.starts = [at for at, piece in zip(self.starts, pieces, strict=True) for _ in piece]
        self.ends = [at for at, piece in zip(self.ends, pieces, strict=True) for _ in piece]
        self.text = "".join(pieces)

    def part(self, first: int, behind: int) -> "AlignedText":
        """A copy of ``text[first:behind]`` that still leads back to the same source."""
        piece = AlignedText(self.text[first:behind])
        piece.starts, piece.ends = self.starts[first:behind], self.ends[first:behind]
        return piece

    def source_offset(self, at: int) -> int:
        """Source offset of the gap before character ``at``.

        Where both sides stand for the same written characters, their share of these.
        """
        if at >= len(self.text):
            return self.ends[-1] if self.ends else 0
        start, end = self.starts[at], self.ends[at]
        if at == 0 or self.starts[at - 1] != start:
            return start
        first, behind = bisect_left(self.starts, start), bisect_right(self.starts, start)
        return start + (end - start) * (at - first) // (behind - first)

    def span(self, first: int, behind: int) -> tuple[int, int]:
        """Source span of ``text[first:behind]``, a non-empty range inside the text."""
        return self.starts[first], self.ends[behind - 1]
