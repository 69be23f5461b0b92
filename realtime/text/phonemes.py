# ruff: noqa: RUF001
"""Words -> phonemes in the voice's alphabet, with the source span of every word.

Wraps the grapheme-to-phoneme part of hibari (misaki's American lexicon, a part-of-speech tagger and
a small network for unknown words); the synthesiser in that package is never loaded. The alphabet is
hibari's `vocab.json`; anything outside it is removed here. Knows nothing about streams.
"""

import json
import re
import threading
from functools import lru_cache
from importlib import resources
from typing import NamedTuple

import msgspec
from hibari.g2p import G2P
from hibari.g2p.oov import OOV

from realtime.errors import UnspeakableTextError
from realtime.text.alignment import AlignedText
from realtime.text.normalise import normalise

# The lexicon tries every sub-range of a word's parts: cost grows with the square of their number.
MAX_WORD_CHARS = 40
MAX_WORD_PARTS = 8
NUM_CACHED_WORDS = 4096

_LONG_WORD = re.compile(rf"\S{{{MAX_WORD_CHARS}}}(?=\S)")
_MANY_PARTS = re.compile(rf"(?:[^\s-]*+-){{{MAX_WORD_PARTS}}}(?=\S)|(?:[^\s']*+'){{4}}(?=\S)")
_SPEECH = re.compile(r"[^\W\d_]")
_SPELLED = re.compile(r"[A-Z](?:\.?[A-Z])+\.?\Z")
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
        try:
            text = normalise(source, offset)
            if not _SPEECH.search(text.text):
                return NOTHING
            text.sub(_LONG_WORD, lambda match: match.group() + " ")
            text.sub(_MANY_PARTS, lambda match: match.group() + " ")
            with self._lock:
                return self._phonemize(text)
        except Exception as error:
            raise UnspeakableTextError(
                f"no phonemes for the text at characters {offset} to {offset + len(source)}"
            ) from error

    def _phonemize(self, text: AlignedText) -> Reading:
        tokens = self._g2p.phonemize_tokens(self._g2p.tokenize(text.text))
        spoken: list[str] = []
        words: list[Word] = []
        phonemes, cursor = "", 0
        for token in tokens:
            said = "".join(c for c in token.phonemes or "" if c in self.alphabet)
            gap = " " if token.whitespace else ""
            at = text.text.find(token.text, cursor)
            if at >= 0:
                cursor = at + len(token.text)
                if _SPEECH.search(said):
                    words.append(Word(len(phonemes), *text.span(at, cursor)))
            spoken.append(self._spell(token.text, token.phonemes) + gap)
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
        if not _SPELLED.match(word):
            return word
        letters = self._g2p.lexicon.get_NNP(word)[0]
        is_spelled = letters is not None and phonemes in (letters, letters.replace("ɾ", "T"))
        return " ".join(word.replace(".", "")) if is_spelled or "." in word else word
