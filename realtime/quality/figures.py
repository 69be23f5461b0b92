"""Lines added up to figures, each with its 95 % interval over lines of text."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from realtime.quality import bootstrap, judging
from realtime.quality.bootstrap import Term
from realtime.quality.results import Figure, LineResult


@dataclass(frozen=True, slots=True)
class Meaning:
    """How a figure is shown.

    Attributes:
        meaning: In words.
        unit: Behind the number; `%` shows a ratio as a percentage.
        digits: Behind the point.
        is_better_low: Whether less is better; `None` where neither is.
    """

    meaning: str
    unit: str = ""
    digits: int = 2
    is_better_low: bool | None = True


FIGURES: Mapping[str, Meaning] = {
    "word_error": Meaning("word errors over words, as the recogniser hears it", "%", 1),
    "char_error": Meaning("character errors over characters", "%", 1),
    "exact": Meaning("lines heard without any error", "%", 1, is_better_low=False),
    "dnsmos_overall": Meaning("DNSMOS, 1 to 5: overall", is_better_low=False),
    "dnsmos_signal": Meaning("DNSMOS: the speech itself", is_better_low=False),
    "dnsmos_background": Meaning("DNSMOS: absence of noise", is_better_low=False),
    "similarity": Meaning("cosine of the speaker to its reference", "", 3, is_better_low=False),
    "similarity_to_other": Meaning("cosine to the nearest other reference", "", 3),
    "similarity_lead": Meaning("the first less the second", "", 3, is_better_low=False),
    "runaway_or_early_stop": Meaning("lines that are far too long or too short", "%", 2),
    "runaway": Meaning(judging.FAULTS[judging.RUNAWAY], "%", 2),
    "early_stop": Meaning(judging.FAULTS[judging.EARLY_STOP], "%", 2),
    "long_silence": Meaning(judging.FAULTS[judging.LONG_SILENCE], "%", 2),
    "late_start": Meaning(judging.FAULTS[judging.LATE_START], "%", 2),
    "click": Meaning("lines in which " + judging.FAULTS[judging.CLICK], "%", 2),
    "failed": Meaning("lines without audible speech", "%", 2),
    "leading_silence_ms": Meaning("longest silence before the first sound", "ms", 0),
    "words_per_s": Meaning("words a second, silence at both ends left out", "", 2, None),
    "length_ratio": Meaning(
        "first to last sound, over the teacher's at the same speed", "", 2, None
    ),
    "level_dbfs": Meaning("level of the speech without its pauses", "dBFS", 1, None),
    "loudness_lufs": Meaning("integrated loudness, ITU-R BS.1770", "LUFS", 1, None),
    "loudness_offset_lu": Meaning("loudness less the mean of all voices", "LU", 1, None),
    "real_time_factor": Meaning("compute time over audio time, by the service", "", 3),
    "long_word_error": Meaning("long text: word errors over words", "%", 1),
    "long_drift": Meaning("long text: word error of its last minute less its first", "%", 1),
    "long_similarity_drift": Meaning(
        "long text: speaker similarity of its last minute less its first",
        "",
        3,
        is_better_low=False,
    ),
    "long_join_faults": Meaning("long text: joins with a click, no word or a word twice", "%", 2),
    "long_missing_at_joins": Meaning("long text: words beside a join that were not heard", "%", 1),
    "long_missing_elsewhere": Meaning("long text: other words that were not heard", "%", 1, None),
    "long_clicks": Meaning("long text: clicks in the whole recording", "", 0),
    "long_pause_s": Meaning("long text: longest pause at a join", "s", 2),
    "long_memory_mib": Meaning("long text: growth of the engine's memory", "MiB", 1),
}


def figures_of(lines: Sequence[LineResult]) -> dict[str, Figure]:
    """All figures of one voice that its lines allow."""
    figures = {name: figure(terms) for name, terms in terms_of(lines).items()}
    spoken = [line for line in lines if line.spoken_s > 0]
    if spoken:
        longest = max(line.leading_silence_s for line in spoken)
        figures["leading_silence_ms"] = Figure(value=1000 * longest)
    return {name: value for name, value in figures.items() if value is not None}


def loudness_offsets(figures: Mapping[str, Mapping[str, Figure]]) -> dict[str, Figure]:
    """How much louder than the mean of all voices each one is; empty for a single voice."""
    levels = {
        voice: values["loudness_lufs"].value
        for voice, values in figures.items()
        if "loudness_lufs" in values
    }
    if len(levels) < 2:
        return {}
    mean = sum(levels.values()) / len(levels)
    return {voice: Figure(value=level - mean) for voice, level in levels.items()}


def figure(terms: Sequence[Term]) -> Figure | None:
    """A ratio with its interval; `None` where it is not defined."""
    value = bootstrap.ratio(terms)
    if value is None:
        return None
    low, high = bootstrap.interval(terms) or (None, None)
    return Figure(value=value, low=low, high=high)


def terms_of(lines: Iterable[LineResult]) -> dict[str, list[Term]]:
    """What each figure is a ratio of, line by line; clusters are the texts."""
    lines = list(lines)
    heard = [line for line in lines if line.heard is not None]
    spoken = [line for line in lines if line.spoken_s > 0]
    terms: dict[str, list[Term]] = {
        "word_error": [(line.text, line.num_word_errors, line.num_words) for line in heard],
        "char_error": [(line.text, line.num_char_errors, line.num_chars) for line in heard],
        "exact": [(line.text, line.num_word_errors == 0, 1) for line in heard],
        "runaway_or_early_stop": _share(
            lines, lambda line: {judging.RUNAWAY, judging.EARLY_STOP} & {*line.faults}
        ),
        "failed": _share(lines, lambda line: {judging.FAILED, judging.SILENT} & {*line.faults}),
        "words_per_s": [
            (line.text, line.num_words, line.spoken_s) for line in spoken if line.heard is not None
        ],
        "length_ratio": [
            (line.text, line.spoken_s, line.expected_s) for line in spoken if line.expected_s
        ],
    }
    terms["similarity_lead"] = [
        (line.text, line.similarity - line.similarity_to_other, 1)
        for line in spoken
        if line.similarity is not None and line.similarity_to_other is not None
    ]
    for fault in ("runaway", "early_stop", "long_silence", "late_start", "click"):
        terms[fault] = _share(lines, lambda line, fault=fault: fault in line.faults)
    for name in _MEANS:
        values = [(line.text, getattr(line, name)) for line in spoken]
        terms[name] = [(text, value, 1) for text, value in values if value is not None]
    return terms


_MEANS = (
    "dnsmos_overall",
    "dnsmos_signal",
    "dnsmos_background",
    "similarity",
    "similarity_to_other",
    "level_dbfs",
    "loudness_lufs",
    "real_time_factor",
)


def _share(lines: Sequence[LineResult], test: Callable[[LineResult], object]) -> list[Term]:
    return [(line.text, bool(test(line)), 1) for line in lines]


def show_value(name: str, value: float | None) -> str:
    """A figure's value for a person."""
    meaning = FIGURES[name]
    if value is None:
        return "-"
    scaled = 100 * value if meaning.unit == "%" else value
    return f"{scaled:.{meaning.digits}f} {meaning.unit}".strip()


def show_figure(name: str, shown: Figure | None) -> str:
    """A figure with its interval for a person."""
    if shown is None:
        return "-"
    text = show_value(name, shown.value)
    if shown.low is None or shown.high is None:
        return text
    scale = 100 if FIGURES[name].unit == "%" else 1
    digits = FIGURES[name].digits
    return f"{text} [{scale * shown.low:.{digits}f}, {scale * shown.high:.{digits}f}]"
