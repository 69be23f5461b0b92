"""A growing text -> segments to speak, released as early as they are certain.

One `TextStream` per utterance. The same text gives the same segments however it was split into
pieces, because every decision is taken as if the text had come one character at a time. Offsets are
Python code points in the whole text the caller has sent, surrogates that arrived alone included.
"""

from bisect import bisect_right
from typing import Annotated

import msgspec
from msgspec import Meta

from realtime.text.clean import count_unspoken
from realtime.text.phonemes import FrontEnd, Word
from realtime.text.scanner import Cut, Limits, Scanner


class SegmentPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long segments are, in characters of the caller's text.

    Attributes:
        first_min_chars: the first segment ends at the first clause end past this length.
        first_max_chars: past this length it ends at a word gap that suits.
        max_chars: no segment is longer; over-long sentences are cut at a clause, else at a word.
        max_phonemes: no segment has more phonemes (digits are read at ten times their length).
    """

    first_min_chars: Annotated[int, Meta(ge=1)] = 40
    first_max_chars: Annotated[int, Meta(ge=1)] = 80
    max_chars: Annotated[int, Meta(ge=16)] = 240
    max_phonemes: Annotated[int, Meta(ge=64)] = 400

    def __post_init__(self) -> None:
        if not self.first_min_chars <= self.first_max_chars <= self.max_chars:
            raise ValueError("expected first_min_chars <= first_max_chars <= max_chars")


class Segment(msgspec.Struct, frozen=True):
    """What the engine speaks in one go.

    Attributes:
        index: position among the utterance's segments, from 0.
        text: the words as spoken.
        start: offset in the caller's text; the end of the segment before, or 0.
        end: offset behind the segment, white space and unspoken characters included.
        phonemes: symbols of the voice's alphabet, never empty.
        ends_sentence: whether a sentence, or the utterance, is complete with this segment.
        words: where each spoken word starts in ``phonemes`` and its span in the caller's text.
    """

    index: int
    text: str
    start: int
    end: int
    phonemes: str
    ends_sentence: bool
    words: tuple[Word, ...] = ()

    def character_at(self, phoneme_offset: float) -> int:
        """Offset in the caller's text that speech has reached after so many phonemes.

        The end of the last word begun, so that a word cut in half counts as spoken.
        """
        if phoneme_offset >= len(self.phonemes):
            return self.end
        begun = bisect_right(self.words, phoneme_offset, key=lambda word: word.phoneme_offset)
        if phoneme_offset <= 0 or begun == 0:
            return self.start
        return self.words[begun - 1].end


class TextStream:
    """The text of one utterance as it arrives. Not thread-safe; bounded by ``policy.max_chars``.

    Attributes:
        num_unspoken: letters so far that are left out because nobody has taught the voice their
            script.

    Every method raises `UnspeakableTextError` when a segment has no phonemes though it should; the
    utterance is then over.
    """

    def __init__(self, front_end: FrontEnd, policy: SegmentPolicy) -> None:
        self._front_end = front_end
        self._policy = policy
        self.num_unspoken = 0
        self._last_two = ""
        self._next_index = 0
        self._covered = 0  # end of the last released segment
        self._base = 0  # offset of the scanner's first character
        self._scanner = self._new_scanner()

    def push(self, piece: str) -> list[Segment]:
        """Add text, joined verbatim to what came before; gives the segments it completes."""
        released: list[Segment] = []
        for character in piece:
            self.num_unspoken += count_unspoken(self._last_two, character)
            self._last_two = self._last_two[-1:] + character
            cut = self._scanner.add(character)
            if cut is not None:
                released += self._take(cut)
        return released

    def flush(self) -> list[Segment]:
        """Release all text so far; a word that is cut here is read as two."""
        return self._release_rest(ends_utterance=False)

    def end(self) -> list[Segment]:
        """Release the rest; the last segment ends a sentence whatever it closes with."""
        return self._release_rest(ends_utterance=True)

    def _release_rest(self, *, ends_utterance: bool) -> list[Segment]:
        released: list[Segment] = []
        while (cut := self._scanner.finish()) is not None:
            released += self._take(cut)
        ends_sentence = ends_utterance or self._scanner.ends_like_sentence()
        released += self._take(Cut(len(self._scanner.text), ends_sentence))
        return released

    def _new_scanner(self) -> Scanner:
        policy, is_first = self._policy, self._next_index == 0
        return Scanner(
            Limits(
                clause_from=policy.first_min_chars if is_first else None,
                word_from=policy.first_max_chars if is_first else None,
                longest=policy.max_chars,
            )
        )

    def _take(self, cut: Cut) -> list[Segment]:
        """Cut the scanner's text, and again where the remainder decides further cuts."""
        released: list[Segment] = []
        pending: Cut | None = cut
        while pending is not None:
            text = self._scanner.text
            released += self._read(text[: pending.at], ends_sentence=pending.ends_sentence)
            self._scanner = self._new_scanner()
            pending = self._rescan(text[pending.at :])
        return released

    def _rescan(self, text: str) -> Cut | None:
        for index, character in enumerate(text):
            cut = self._scanner.add(character)
            if cut is not None:
                assert index == len(text) - 1 or cut.at <= index + 1
                self._scanner.text += text[index + 1 :]
                return cut
        return None

    def _read(self, source: str, *, ends_sentence: bool) -> list[Segment]:
        released: list[Segment] = []
        parts = self._front_end.read_parts(source, self._base, self._policy.max_phonemes)
        self._base += len(source)
        for number, (reading, read_until) in enumerate(parts, start=1):
            is_last = number == len(parts)
            end = self._base if is_last else read_until
            released.append(
                Segment(
                    index=self._next_index,
                    text=reading.text,
                    start=self._covered,
                    end=end,
                    phonemes=reading.phonemes,
                    ends_sentence=ends_sentence and is_last,
                    words=reading.words,
                )
            )
            self._next_index += 1
            self._covered = end
        return released
