"""Pictures of a report, as SVG text to stand in a page."""

import io
from collections.abc import Callable, Sequence
from typing import Any

from realtime.quality.judging import TOO_LONG_RATIO, TOO_SHORT_RATIO
from realtime.quality.packages import load
from realtime.quality.results import LineResult, LongResult, Report

_SIZE_INCHES = (5.2, 3.0)
_BINS = ((1, 5), (6, 10), (11, 15), (16, 20), (21, 30), (31, 60))


def plots_of(report: Report) -> list[tuple[str, str]]:
    """Title and SVG of each picture that the report has data for.

    Raises:
        MissingPackageError: `matplotlib` is not installed.
    """
    figure = load("matplotlib.figure", "plots").Figure
    pictures: list[tuple[str, str]] = []

    def draw(title: str, paint: Callable[[Any], None]) -> None:
        canvas = figure(figsize=_SIZE_INCHES, layout="constrained")
        paint(canvas.subplots())
        pictures.append((title, _svg(canvas)))

    if any(line.heard is not None for line in report.lines):
        draw("Word error by length of the line", lambda axes: _error_by_length(axes, report))
    if any(line.expected_s for line in report.lines):
        draw("Length over the teacher's", lambda axes: _length_ratios(axes, report))
    if any(line.similarity is not None for line in report.lines):
        draw("Speaker similarity", lambda axes: _similarities(axes, report))
    for long in report.long:
        draw(f"{long.voice}, long text: by minute", lambda axes, long=long: _by_minute(axes, long))
        if long.joins:
            draw(f"{long.voice}, long text: joins", lambda axes, long=long: _joins(axes, long))
    return pictures


def _svg(canvas: Any) -> str:
    matplotlib = load("matplotlib", "plots")
    text = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "quality"}):
        canvas.savefig(text, format="svg", metadata={"Date": None}, transparent=True)
    svg = text.getvalue()
    return svg[svg.index("<svg") :]


def _voices(report: Report) -> dict[str, list[LineResult]]:
    return {
        voice: [line for line in report.lines if line.voice == voice] for voice in report.figures
    }


def _error_by_length(axes: Any, report: Report) -> None:
    for voice, lines in _voices(report).items():
        rates = [_rate([line for line in lines if low <= line.num_words <= high])
                 for low, high in _BINS]  # fmt: skip
        known = [(place, rate) for place, rate in enumerate(rates) if rate is not None]
        axes.plot([place for place, _ in known], [rate for _, rate in known], "o-", label=voice)
    axes.set_xticks(range(len(_BINS)), [f"{low}-{high}" for low, high in _BINS])
    axes.set_xlabel("words")
    axes.set_ylabel("word error, %")
    axes.set_ylim(bottom=0)
    axes.legend()


def _rate(lines: Sequence[LineResult]) -> float | None:
    num_words = sum(line.num_words for line in lines)
    return 100 * sum(line.num_word_errors for line in lines) / num_words if num_words else None


def _length_ratios(axes: Any, report: Report) -> None:
    for voice, lines in _voices(report).items():
        ratios = [line.spoken_s / line.expected_s for line in lines if line.expected_s]
        axes.hist([min(ratio, 2.5) for ratio in ratios], bins=50, range=(0, 2.5),
                  histtype="step", label=voice)  # fmt: skip
    for limit in (TOO_SHORT_RATIO, TOO_LONG_RATIO):
        axes.axvline(limit, color="crimson", linestyle=":")
    axes.set_xlabel("ratio")
    axes.set_ylabel("lines")
    axes.legend()


def _similarities(axes: Any, report: Report) -> None:
    for voice, lines in _voices(report).items():
        for name, style in (("similarity", "-"), ("similarity_to_other", ":")):
            values = [getattr(line, name) for line in lines if getattr(line, name) is not None]
            if values:
                label = voice if style == "-" else f"{voice} to another"
                axes.hist(values, bins=40, range=(0.3, 1), histtype="step", linestyle=style,
                          label=label)  # fmt: skip
    axes.set_xlabel("cosine to the reference")
    axes.set_ylabel("lines")
    axes.legend()


def _by_minute(axes: Any, long: LongResult) -> None:
    minutes = [minute.minute + 1 for minute in long.minutes]
    rates = [100 * minute.num_word_errors / max(1, minute.num_words) for minute in long.minutes]
    axes.bar(minutes, rates, color="lightsteelblue", label="word error, %")
    axes.set_xticks(minutes)
    axes.set_xlabel("minute")
    axes.set_ylabel("word error, %")
    similar = [minute.similarity for minute in long.minutes]
    if all(value is not None for value in similar):
        other = axes.twinx()
        other.plot(minutes, similar, "o-", color="darkorange")
        other.set_ylim(0, 1)
        other.set_ylabel("speaker similarity")


def _joins(axes: Any, long: LongResult) -> None:
    good = [join for join in long.joins if not join.faults]
    bad = [join for join in long.joins if join.faults]
    for joins, color, label in ((good, "steelblue", "good"), (bad, "crimson", "with a fault")):
        axes.plot([join.pause_s for join in joins], [join.jump_ratio for join in joins], "o",
                  color=color, alpha=0.6, label=label)  # fmt: skip
    axes.set_xlabel("pause, s")
    axes.set_ylabel("step over the usual step")
    axes.legend()
