# ruff: noqa: RUF001
"""Words -> phonemes in the voice's alphabet, with the source span of every word.

Wraps the grapheme-to-phoneme part of hibari (misaki's American lexicon, a part-of-speech tagger and
a small network for unknown words); the synthesiser in that package is never loaded. The alphabet is
hibari's `vocab.json`; anything outside it is removed here. Knows nothing about streams.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import resources
from typing import NamedTuple

import msgspec
from hibari.g2p import G2P
from hibari.g2p.oov import OOV

from realtime.errors import UnspeakableTextError
from realtime.text.alignment import AlignedText
from realtime.text.heteronyms import pronounce
from realtime.text.normalise import normalise

# The lexicon tries every sub-range of a word's parts: cost grows with the square of their number.
MAX_WORD_CHARS = 40
MAX_WORD_PARTS = 5
NUM_CACHED_WORDS = 4096

_LONG_WORD = re.compile(rf"\S{{{MAX_WORD_CHARS}}}(?=\S)")
_MANY_PARTS = re.compile(rf"(?:[^\s-]*+-){{{MAX_WORD_PARTS}}}(?=\S)|(?:[^\s']*+'){{4}}(?=\S)")
_SPEECH = re.compile(r"[^\W\d_]")
_SPELLED = re.compile(r"[A-Z](?:\.?[A-Z])+\.?\Z")
_PLURAL_INITIALS = re.compile(r"[A-Z]{2,5}s\Z")
_FULL_STOP = re.compile(r"\.[\"'”’)]*\Z")
_SPACES = re.compile(r" {2,}")


class Word(NamedTuple):
    """One spoken word of a segment.

    Attributes:
        phoneme_offset: index of its first phoneme in the segment's phonemes.
        start: offset of its first character in the caller's text, in code points.
        end: offset behind its last character there. Several words may share one span ("$3").
    """

    phoneme_offset: int
    start: int
    end: int


class Reading(msgspec.Struct, frozen=True):
    """How one piece of text is spoken.

    Attributes:
        text: the words as spoken, initialisms letter by letter.
        phonemes: symbols of the voice's alphabet; empty when there is nothing to say.
        words: where each word starts in ``phonemes`` and what it stands for, in order.
    """

    text: str
    phonemes: str
    words: tuple[Word, ...]


NOTHING = Reading(text="", phonemes="", words=())


def load_alphabet() -> frozenset[str]:
    """The symbols that phonemes may consist of, the space and punctuation among them."""
    vocab = resources.files("hibari").joinpath("assets", "vocab.json").read_text(encoding="utf-8")
    return frozenset(json.loads(vocab))


class FrontEnd:
    """Reads text aloud on paper. One per process; safe to call from several threads.

    Attributes:
        alphabet: every symbol that can occur in phonemes.
    """

    def __init__(self) -> None:
        """Load lexicon, tagger and the network for unknown words (about a second)."""
        self.alphabet = load_alphabet()
        # A name that the lexicon lacks costs a millisecond, and the same ones come again.
        self._g2p = G2P(oov=lru_cache(maxsize=NUM_CACHED_WORDS)(OOV()))
        # hibari promises nothing about threads, and the interpreter lock leaves little to gain.
        self._lock = threading.Lock()

    def read(self, source: str, offset: int = 0) -> Reading:
        """Speak one segment of text.

        Args:
            source: the segment as the caller wrote it; at most a few hundred characters.
            offset: offset of its first character in the caller's text.

        Returns:
            Its reading; an empty one when nothing in the segment is to be said.

        Raises:
            UnspeakableTextError: the phonemes of this text could not be found.
        """
        with _told_as_unspeakable(source, offset):
            return self._read(normalise(source, offset))

    def read_parts(self, source: str, offset: int, max_phonemes: int) -> list[tuple[Reading, int]]:
        """Speak a segment in parts of at most so many phonemes, reading every word once.

        Numbers and symbols are read at many times their written length.

        Args:
            source: as for `read`.
            offset: as for `read`.
            max_phonemes: where a part ends, at a word gap if there is one; at least 64.

        Returns:
            The readings that are not empty, each with the offset behind it in the caller's text.

        Raises:
            UnspeakableTextError: the phonemes of this text could not be found.
        """
        with _told_as_unspeakable(source, offset):
            text = normalise(source, offset)
            parts: list[tuple[Reading, int]] = []
            for first, behind in _parts_of(text.text, max_phonemes):
                reading = self._read(text.part(first, behind))
                if reading.phonemes:
                    start, end = text.source_offset(first), text.source_offset(behind)
                    words = tuple(_clipped(word, start, end) for word in reading.words)
                    parts.append((msgspec.structs.replace(reading, words=words), end))
            return parts

    def _read(self, text: AlignedText) -> Reading:
        if not _SPEECH.search(text.text):
            return NOTHING
        text.sub(_LONG_WORD, lambda match: match.group() + " ")
        text.sub(_MANY_PARTS, lambda match: match.group() + " ")
        with self._lock:
            return self._phonemize(text)

    def _phonemize(self, text: AlignedText) -> Reading:
        tokens = self._g2p.phonemize_tokens(self._g2p.tokenize(text.text))
        spoken: list[str] = []
        words: list[Word] = []
        phonemes, cursor = "", 0
        for index, token in enumerate(tokens):
            before = tokens[index - 1].text if index else ""
            behind = tokens[index + 1].text if index + 1 < len(tokens) else ""
            heard = pronounce(token.text, before, behind) or token.phonemes
            said = "".join(c for c in heard or "" if c in self.alphabet)
            gap = " " if token.whitespace else ""
            at = text.text.find(token.text, cursor)
            if at >= 0:
                cursor = at + len(token.text)
                if _SPEECH.search(said):
                    words.append(Word(len(phonemes), *text.span(at, cursor)))
            spoken.append(self._spell(token.text, heard) + gap)
            # A token without phonemes would leave two spaces, or one in front, which the voice
            # never saw; cut here, because the words' offsets count from the first phoneme.
            if said or not phonemes.endswith(" "):
                phonemes = (phonemes + said + gap).lstrip()
        phonemes = phonemes.rstrip()
        if not words:
            return NOTHING
        # "at 5 p.m." ends a sentence too, but the lexicon takes its last stop for part of the word.
        if _FULL_STOP.search(text.text) and _SPEECH.match(phonemes[-1]):
            phonemes += "."
        return Reading(text="".join(spoken).strip(), phonemes=phonemes, words=tuple(words))

    def _spell(self, word: str, phonemes: str | None) -> str:
        """The word, or its letters one by one where that is what its phonemes say."""
        if _PLURAL_INITIALS.match(word):
            letters = self._g2p.lexicon.get_NNP(word[:-1])[0]
            is_plural = letters is not None and (phonemes or "").startswith(letters[:-1])
            return " ".join(word[:-1]) + "s" if is_plural else word
        if not _SPELLED.match(word):
            return word
        letters = self._g2p.lexicon.get_NNP(word)[0]
        is_spelled = letters is not None and phonemes in (letters, letters.replace("ɾ", "T"))
        return " ".join(word.replace(".", "")) if is_spelled or "." in word else word


@contextmanager
def _told_as_unspeakable(source: str, offset: int) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise UnspeakableTextError(
            f"no phonemes for the text at characters {offset} to {offset + len(source)}"
        ) from error


def _parts_of(text: str, max_phonemes: int) -> Iterator[tuple[int, int]]:
    """Ranges of ``text`` that have at most so many phonemes by the longest they can be."""
    first, last_gap, length = 0, 0, 0.0
    for at, character in enumerate(text):
        length += _most_phonemes(character)
        if length > max_phonemes:
            behind = last_gap if last_gap > first else at
            yield first, behind
            first, length = behind, sum(map(_most_phonemes, text[behind : at + 1]))
        if character == " ":
            last_gap = at + 1
    if first < len(text):
        yield first, len(text)


def _most_phonemes(character: str) -> float:
    """How many one letter has at most on average: words like "exact", letters said by name."""
    return 10.0 if character.isupper() else 1.6


def _clipped(word: Word, start: int, end: int) -> Word:
    """A word whose written form ("1000000") is spoken in two parts belongs to both in part."""
    return Word(
        word.phoneme_offset, min(max(word.start, start), end), min(max(word.end, start), end)
    )
