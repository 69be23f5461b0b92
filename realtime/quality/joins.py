"""The places of a long text where one sentence ends and the next begins. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from realtime.quality import sound
from realtime.quality.results import Join
from realtime.quality.sound import Samples
from realtime.quality.words import Comparison

REACH_WORDS = 2
LONGEST_PAUSE_S = 1.5
CLICK = "click"
MISSING = "missing_word"
DOUBLED = "doubled_word"
PAUSE = "long_pause"
FAULTS = {
    CLICK: "the wave jumps within 2 ms of the join as speech does not",
    MISSING: f"one of the {REACH_WORDS} words on either side was not heard",
    DOUBLED: "a word beside the join was heard twice",
    PAUSE: f"a pause of over {LONGEST_PAUSE_S} s",
}
_CLICK_REACH_S = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A sentence of the long text, in its recording and in a comparison.

    Attributes:
        first_word: Index of its first word in the comparison's `said`.
        num_words: How many it has.
        start_sample: Where its audio begins.
        end_sample: One past its last sample.
    """

    text: str
    first_word: int
    num_words: int
    start_sample: int
    end_sample: int

    @property
    def end_word(self) -> int:
        """One past its last word."""
        return self.first_word + self.num_words


def find_joins(
    samples: Samples, rate_hz: int, sentences: Sequence[Sentence], words: Comparison | None
) -> list[Join]:
    """Measure every join.

    Args:
        samples: The whole recording.
        rate_hz: Samples per second.
        sentences: In their order.
        words: The whole text against what was heard of it; `None` where nothing listened.
    """
    level = sound.speech_level_dbfs(samples, rate_hz)
    clicks = sound.clicks(samples, rate_hz)
    joins: list[Join] = []
    for last, following in pairwise(sentences):
        place = following.start_sample
        near = (place - _CLICK_REACH_S * rate_hz, place + _CLICK_REACH_S * rate_hz)
        pause_s = sound.pause_around(samples, place, rate_hz, level)
        missing = _missing_words(last, following, words) if words else ()
        doubled = _doubled_words(following.first_word, words) if words else ()
        tests = {
            CLICK: bool(((clicks >= near[0]) & (clicks <= near[1])).any()),
            MISSING: bool(missing),
            DOUBLED: bool(doubled),
            PAUSE: pause_s > LONGEST_PAUSE_S,
        }
        joins.append(
            Join(
                at_s=place / rate_hz,
                before=" ".join(last.text.split()[-4:]),
                after=" ".join(following.text.split()[:4]),
                jump_ratio=sound.jump_ratio(samples, place, rate_hz),
                pause_s=pause_s,
                missing=missing,
                doubled=doubled,
                faults=tuple(name for name, is_so in tests.items() if is_so),
            )
        )
    return joins


def _missing_words(last: Sentence, following: Sentence, words: Comparison) -> tuple[str, ...]:
    first = max(last.first_word, last.end_word - REACH_WORDS)
    end = min(following.end_word, following.first_word + REACH_WORDS)
    return tuple(words.said[index] for index in words.missing if first <= index < end)


def _doubled_words(join: int, words: Comparison) -> tuple[str, ...]:
    """Added words that repeat a neighbour, within reach of the join before word `join`."""
    return tuple(
        word
        for index, word in words.added
        if abs(index - join) <= REACH_WORDS and word in words.said[max(0, index - 1) : index + 1]
    )


def missing_ratios(
    sentences: Sequence[Sentence], words: Comparison
) -> tuple[float | None, float | None]:
    """Share of words not heard within reach of a join, and elsewhere; `None` without such words.

    A recogniser misses words everywhere; joins are at fault only where it misses more of them.
    """
    near = {
        index
        for last, following in pairwise(sentences)
        for index in (
            *range(max(last.first_word, last.end_word - REACH_WORDS), last.end_word),
            *range(
                following.first_word, min(following.end_word, following.first_word + REACH_WORDS)
            ),
        )
    }
    missing = set(words.missing)
    num_elsewhere = words.num_words - len(near)
    return (
        len(missing & near) / len(near) if near else None,
        len(missing - near) / num_elsewhere if num_elsewhere else None,
    )
