"""A long text through one context: does it drift, do its joins hold, does memory stay?

The recording is heard in pieces of whole sentences, cut where the service says that sentences
begin, each short enough for one look of the recogniser.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from realtime.quality import bootstrap, joins, sound
from realtime.quality.bootstrap import Term
from realtime.quality.figures import figure
from realtime.quality.joins import Sentence
from realtime.quality.judging import Judges
from realtime.quality.results import Figure, Join, LongResult, Minute
from realtime.quality.sound import Samples
from realtime.quality.speakers import read_audio
from realtime.quality.speaking import Spoken
from realtime.quality.words import Comparison, compare_words, words_of

PIECE_S = 25.0
MINUTE_S = 60.0
WORDS_PER_MINUTE = 180
_MIB = 1024 * 1024


def text_of_minutes(lines: Sequence[str], minutes: float) -> str:
    """Lines joined to a text of about this length, from the first on again where there are few."""
    wanted, words, chosen = minutes * WORDS_PER_MINUTE, 0, list[str]()
    while words < wanted:
        line = lines[len(chosen) % len(lines)]
        chosen.append(line)
        words += max(1, len(line.split()))
    return " ".join(chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recording:
    """A long text as it was spoken and heard; `words` is `None` where nothing listened."""

    spoken: Spoken
    samples: Samples
    rate_hz: int
    sentences: Sequence[Sentence]
    words: Comparison | None


def judge_long_text(
    spoken: Spoken,
    judges: Judges,
    *,
    folder_name: str,
    memory_bytes: tuple[float | None, float | None] = (None, None),
) -> LongResult:
    """Listen to a long text.

    Args:
        spoken: The text and its recording.
        judges: Who listens.
        folder_name: Of the recordings, as the report names it.
        memory_bytes: Of the engine before and after; `None` where not known.
    """
    recording = _listen(spoken, judges)
    samples, rate_hz = recording.samples, recording.rate_hz
    found = joins.find_joins(samples, rate_hz, recording.sentences, recording.words)
    minutes = _minutes(recording, judges)
    num_clicks = len(sound.clicks(samples, rate_hz))
    before, after = memory_bytes
    figures = _join_figures(found) | _word_figures(recording)
    figures["long_clicks"] = Figure(value=num_clicks)
    if before is not None and after is not None:
        figures["long_memory_mib"] = Figure(value=(after - before) / _MIB)
    similar = [minute.similarity for minute in minutes if minute.similarity is not None]
    if len(similar) > 1:
        figures["long_similarity_drift"] = Figure(value=similar[-1] - similar[0])
    return LongResult(
        voice=spoken.voice,
        audio=f"{folder_name}/{spoken.path.name}",
        reason=spoken.reason,
        audio_s=len(samples) / rate_hz,
        minutes=tuple(minutes),
        joins=tuple(found),
        num_clicks=num_clicks,
        memory_before_bytes=before,
        memory_after_bytes=after,
        figures=figures,
    )


def place_sentences(spoken: Spoken) -> list[Sentence]:
    """The sentences that the service reported, with the places of their words in the text."""
    placed: list[Sentence] = []
    first_word = 0
    for span in spoken.sentences:
        text = spoken.job.text[span.start_char : span.end_char].strip()
        num_words = len(words_of(text))
        placed.append(
            Sentence(
                text=text,
                first_word=first_word,
                num_words=num_words,
                start_sample=span.start_sample,
                end_sample=span.end_sample,
            )
        )
        first_word += num_words
    return placed


def pieces(sentences: Sequence[Sentence], rate_hz: int) -> list[list[Sentence]]:
    """Neighbouring sentences, together at most 25 s; a longer sentence stands alone."""
    groups: list[list[Sentence]] = []
    for sentence in sentences:
        if groups and sentence.end_sample - groups[-1][0].start_sample <= PIECE_S * rate_hz:
            groups[-1].append(sentence)
        else:
            groups.append([sentence])
    return groups


def _listen(spoken: Spoken, judges: Judges) -> _Recording:
    samples, rate_hz = read_audio(spoken.path)
    sentences = place_sentences(spoken)
    words = None
    if judges.hear is not None:
        parts: list[Comparison] = []
        for group in pieces(sentences, rate_hz):
            said = [word for sentence in group for word in words_of(sentence.text)]
            heard = judges.hear(samples[group[0].start_sample : group[-1].end_sample], rate_hz)
            parts.append(compare_words(said, words_of(heard)))
        end = spoken.sentences[-1].end_char if spoken.sentences else 0
        unspoken = compare_words(words_of(spoken.job.text[end:]), [])
        words = merge([*parts, unspoken])
    return _Recording(
        spoken=spoken, samples=samples, rate_hz=rate_hz, sentences=sentences, words=words
    )


def merge(parts: Sequence[Comparison]) -> Comparison:
    """Comparisons of the pieces of a text as one of the whole."""
    starts = np.cumsum([0, *(part.num_words for part in parts)]).tolist()
    placed = list(zip(starts, parts, strict=False))
    return Comparison(
        said=tuple(word for part in parts for word in part.said),
        heard=tuple(word for part in parts for word in part.heard),
        missing=tuple(start + index for start, part in placed for index in part.missing),
        changed=tuple(start + index for start, part in placed for index in part.changed),
        added=tuple((start + index, word) for start, part in placed for index, word in part.added),
        num_chars=sum(part.num_chars for part in parts),
        num_char_errors=sum(part.num_char_errors for part in parts),
    )


def errors_by_sentence(sentences: Sequence[Sentence], words: Comparison) -> list[Term]:
    """(number of the sentence, word errors, words); an added word counts where it stands."""
    places = np.array([*words.missing, *words.changed, *(index for index, _ in words.added)], int)
    return [
        (
            number,
            int(((places >= sentence.first_word) & (places < sentence.end_word)).sum()),
            sentence.num_words,
        )
        for number, sentence in enumerate(sentences)
    ]


def _word_figures(recording: _Recording) -> dict[str, Figure]:
    sentences, words = recording.sentences, recording.words
    if words is None or not words.num_words:
        return {}
    errors = errors_by_sentence(sentences, words)
    spoken = figure(errors)  # its interval is of the sentences that were spoken
    value = words.num_word_errors / words.num_words
    figures = {
        "long_word_error": Figure(
            value=value, low=spoken and spoken.low, high=spoken and spoken.high
        )
    }
    drift = _drift(recording, errors)
    if drift is not None:
        figures["long_drift"] = drift
    near, elsewhere = joins.missing_ratios(sentences, words)
    shares = {"long_missing_at_joins": near, "long_missing_elsewhere": elsewhere}
    return figures | {
        name: Figure(value=share) for name, share in shares.items() if share is not None
    }


def _drift(recording: _Recording, errors: Sequence[Term]) -> Figure | None:
    """Word error of the last minute less the first; `None` under two minutes."""
    num_samples, minute = len(recording.samples), MINUTE_S * recording.rate_hz
    if num_samples < 2 * minute:
        return None
    pairs = list(zip(recording.sentences, errors, strict=True))
    first = [term for sentence, term in pairs if sentence.start_sample < minute]
    last = [term for sentence, term in pairs if sentence.start_sample >= num_samples - minute]
    drift = bootstrap.unpaired_difference(first, last)
    return drift and Figure(value=drift[0], low=drift[1], high=drift[2])


def _join_figures(found: Sequence[Join]) -> dict[str, Figure]:
    share = figure([(number, bool(join.faults), 1) for number, join in enumerate(found)])
    if share is None:
        return {}
    return {
        "long_join_faults": share,
        "long_pause_s": Figure(value=max(join.pause_s for join in found)),
    }


def _minutes(recording: _Recording, judges: Judges) -> list[Minute]:
    sentences, rate_hz = recording.sentences, recording.rate_hz
    errors = errors_by_sentence(sentences, recording.words) if recording.words else []
    starts = [int(sentence.start_sample / rate_hz // MINUTE_S) for sentence in sentences]
    found: list[Minute] = []
    for minute in sorted(set(starts)):
        chosen = [number for number, start in enumerate(starts) if start == minute]
        part = recording.samples[
            sentences[chosen[0]].start_sample : sentences[chosen[-1]].end_sample
        ]
        if not np.any(part):
            continue
        num_words = sum(sentences[number].num_words for number in chosen)
        opinion = judges.opinion(part, rate_hz) if judges.opinion else None
        found.append(
            Minute(
                minute=minute,
                num_words=num_words,
                num_word_errors=sum(int(errors[number][1]) for number in chosen) if errors else 0,
                words_per_s=num_words * rate_hz / len(part),
                level_dbfs=sound.speech_level_dbfs(part, rate_hz),
                dnsmos_overall=opinion and opinion.overall,
                similarity=judges.similarities(recording.spoken.voice, part, rate_hz)[0],
            )
        )
    return found
