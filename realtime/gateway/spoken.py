"""Which character of the caller's text a number of samples reaches. Pure."""

from dataclasses import dataclass
from typing import Protocol

DEFAULT_SAMPLES_PER_PHONEME = 0.075 * 24_000


class SpokenSegment(Protocol):
    """What the text front end's `Segment` says of a piece of text to speak."""

    @property
    def index(self) -> int:
        """0, 1, 2, ... within the context."""
        ...

    @property
    def start(self) -> int:
        """First character in the caller's text, a code point offset."""
        ...

    @property
    def end(self) -> int:
        """One past its last character."""
        ...

    @property
    def phonemes(self) -> str:
        """In the voice's phoneme alphabet."""
        ...

    @property
    def ends_sentence(self) -> bool:
        """Whether a sentence ends here."""
        ...

    def character_at(self, phoneme_offset: float) -> int:
        """Character of the caller's text (code point offset) spoken at this place in `phonemes`."""
        ...


@dataclass(frozen=True, slots=True)
class SentenceSpan:
    """A finished sentence: its place in the caller's text and in the context's samples."""

    index: int
    start_char: int
    end_char: int
    start_sample: int
    end_sample: int


class SpokenText:
    """The segments of one context and where in its audio each of them ends."""

    def __init__(self) -> None:
        self._segments: list[SpokenSegment] = []
        self._end_samples: list[int] = []
        self._sentence_index = 0
        self._sentence_start: tuple[int, int] | None = None

    @property
    def num_segments(self) -> int:
        """Segments released so far."""
        return len(self._segments)

    @property
    def num_unspoken(self) -> int:
        """Segments released whose audio is not complete."""
        return len(self._segments) - len(self._end_samples)

    def append(self, segment: SpokenSegment) -> None:
        """A segment was given to the engine."""
        self._segments.append(segment)

    def spoken(self, index: int, end_sample: int) -> SentenceSpan | None:
        """The audio of segment `index` is complete before `end_sample`; returns the sentence that
        this completes, if any.
        """
        if index != len(self._end_samples) or index >= len(self._segments):
            return None
        segment = self._segments[index]
        if self._sentence_start is None:
            previous_end = self._end_samples[-1] if self._end_samples else 0
            self._sentence_start = (segment.start, previous_end)
        self._end_samples.append(end_sample)
        return self._close_sentence() if segment.ends_sentence else None

    def last_sentence(self) -> SentenceSpan | None:
        """A sentence that the text's end completes, as no mark did; `None` if there is none."""
        return None if self._sentence_start is None else self._close_sentence()

    def _close_sentence(self) -> SentenceSpan:
        assert self._sentence_start is not None
        start_char, start_sample = self._sentence_start
        index = len(self._end_samples) - 1
        self._sentence_start = None
        self._sentence_index += 1
        end_char = self._segments[index].end
        return SentenceSpan(
            self._sentence_index - 1, start_char, end_char, start_sample, self._end_samples[index]
        )

    def char_at(self, samples: int) -> int:
        """Character (code point offset) that the first `samples` samples reach.

        Exact at the ends of finished segments and linear within one; in a segment still being
        spoken, by the pace of those before it.
        """
        start_sample, char = 0, 0
        for segment, end_sample in zip(self._segments, self._end_samples, strict=False):
            if samples < end_sample:
                return _within(
                    segment, (samples - start_sample) / max(1, end_sample - start_sample)
                )
            start_sample, char = end_sample, segment.end
        if self.num_unspoken and samples > start_sample:
            segment = self._segments[len(self._end_samples)]
            expected_samples = self._samples_per_phoneme() * max(1, len(segment.phonemes))
            return _within(segment, min(1.0, (samples - start_sample) / expected_samples))
        return char

    def _samples_per_phoneme(self) -> float:
        if not self._end_samples:
            return DEFAULT_SAMPLES_PER_PHONEME
        num_phonemes = sum(
            len(segment.phonemes) for segment in self._segments[: len(self._end_samples)]
        )
        return self._end_samples[-1] / num_phonemes if num_phonemes else DEFAULT_SAMPLES_PER_PHONEME


def _within(segment: SpokenSegment, ratio: float) -> int:
    return segment.character_at(ratio * len(segment.phonemes))
