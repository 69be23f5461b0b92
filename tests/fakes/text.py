"""A text front end without pronunciation: a segment per sentence, its letters for phonemes."""

import msgspec

from realtime.errors import UnspeakableTextError


class FakeSegment(msgspec.Struct, frozen=True):
    index: int
    start: int
    end: int
    phonemes: str
    ends_sentence: bool

    def character_at(self, phoneme_offset: float) -> int:
        return min(self.end, self.start + round(phoneme_offset))


class FakeTextSource:
    """Sentences end at `.`; `;` releases a segment inside a sentence; `#` cannot be spoken, `~` is
    not, and what is not ASCII is left out by its own count.
    """

    def __init__(self, first_min_chars: int | None = None) -> None:
        self.num_unspoken = 0
        self._text = ""
        self._start = 0
        self._count = 0

    def push(self, piece: str) -> list[FakeSegment]:
        if "#" in piece:
            raise UnspeakableTextError("no phonemes for '#'")
        self.num_unspoken += sum(not character.isascii() for character in piece)
        self._text += piece
        segments = []
        while (cut := min((i for i in map(self._text.find, ".;") if i >= 0), default=-1)) >= 0:
            segments.append(self._cut(cut + 1))
        return segments

    def flush(self) -> list[FakeSegment]:
        return [self._cut(len(self._text))] if self._text.strip(" \n~") else []

    def end(self) -> list[FakeSegment]:
        return self.flush()

    def _cut(self, length: int) -> FakeSegment:
        source, self._text = self._text[:length], self._text[length:]
        segment = FakeSegment(
            self._count, self._start, self._start + length, source, not source.endswith(";")
        )
        self._start += length
        self._count += 1
        return segment
