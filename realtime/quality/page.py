"""The report as one HTML page that needs nothing beside it: tables, plots, recordings."""

import base64
import html
import io
import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import soundfile

from realtime.quality import joins, judging
from realtime.quality.figures import FIGURES, show_figure, show_value
from realtime.quality.results import Join, LineResult, LongResult, Report
from realtime.quality.sound import Samples
from realtime.quality.speakers import read_audio

NUM_WORST = 6
NUM_RANDOM = 6
LONG_EXCERPT_S = 60.0
STYLE = """
body{font:15px/1.45 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;margin:.6rem 0 1.4rem}
td,th{border-bottom:1px solid #ddd;padding:.25rem .7rem;text-align:left;vertical-align:top}
td.n{text-align:right;white-space:nowrap}.bad{color:#b00020;font-weight:600}.good{color:#1b6e2d}
.plots{display:flex;flex-wrap:wrap;gap:1rem}figure{margin:0}svg{max-width:100%;height:auto}
figcaption{font-weight:600}audio{height:2rem;width:17rem}small{color:#666}
"""


def page_of(report: Report, folder: Path, plots: Sequence[tuple[str, str]]) -> str:
    """The whole page.

    Args:
        report: What was found.
        folder: Where its recordings are.
        plots: Title and SVG of each.
    """
    parts = [
        "<h1>Quality of the speech</h1>",
        _settings(report),
        _verdicts(report),
        _figures(report),
        _plots(plots),
        *(_long(long, folder) for long in report.long),
        _recordings(report, folder),
        _definitions(),
    ]
    return document("Quality of the speech", "\n".join(parts))


def document(title: str, body: str, script: str = "") -> str:
    """A page around a body."""
    code = f"<script>{script}</script>" if script else ""
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style>\n<body>{body}\n{code}</body></html>\n"
    )


def escape(text: str) -> str:
    """Text as it stands in HTML."""
    return html.escape(text)


def audio_uri(samples: Samples, rate_hz: int) -> str:
    """A recording as an Ogg Vorbis data URI."""
    data = io.BytesIO()
    with soundfile.SoundFile(data, "w", rate_hz, 1, format="OGG", subtype="VORBIS") as file:
        # libsndfile encodes a write at once on its stack, which a long one overflows
        for start in range(0, len(samples), rate_hz):
            file.write(samples[start : start + rate_hz])
    return "data:audio/ogg;base64," + base64.b64encode(data.getvalue()).decode()


def _player(samples: Samples, rate_hz: int) -> str:
    return f'<audio controls preload="none" src="{audio_uri(samples, rate_hz)}"></audio>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already."""
    lines = ["".join(f"<td>{cell}</td>" for cell in row) for row in rows]
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    return f"<table><tr>{titles}</tr>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def _settings(report: Report) -> str:
    settings = "; ".join(f"{name}: {value}" for name, value in report.settings.items())
    notes = "".join(f"<li>{escape(note)}</li>" for note in report.notes)
    return f"<p>{escape(settings)}</p>" + (f"<ul>{notes}</ul>" if notes else "")


def _verdicts(report: Report) -> str:
    if not report.verdicts:
        return ""
    rows = [
        (
            escape(verdict.requirement),
            escape(verdict.voice),
            show_value(verdict.figure, verdict.value),
            f'<span class="{"good" if verdict.is_met else "bad"}">'
            f"{'met' if verdict.is_met else 'not met'}</span>",
        )
        for verdict in report.verdicts
    ]
    return "<h2>Requirements</h2>" + table(("requirement", "voice", "value", ""), rows)


def _figures(report: Report) -> str:
    rows = [
        (
            f"<b>{name}</b><br><small>{escape(meaning.meaning)}</small>",
            *(escape(show_figure(name, values.get(name))) for values in report.figures.values()),
        )
        for name, meaning in FIGURES.items()
        if any(name in values for values in report.figures.values())
    ]
    heading = "<h2>Figures</h2><p>In brackets: 95 % interval, bootstrap over lines of text.</p>"
    return heading + table(("figure", *report.figures), rows)


def _plots(plots: Sequence[tuple[str, str]]) -> str:
    figures = "".join(
        f"<figure><figcaption>{escape(title)}</figcaption>{svg}</figure>" for title, svg in plots
    )
    return f'<h2>Plots</h2><div class="plots">{figures}</div>' if plots else ""


def _long(long: LongResult, folder: Path) -> str:
    samples, rate_hz = read_audio(folder / long.audio)
    size = int(LONG_EXCERPT_S * rate_hz)
    players = f"<p>First minute: {_player(samples[:size], rate_hz)}"
    if len(samples) > size:
        players += f" last minute: {_player(samples[-size:], rate_hz)}"
    faulty = [join for join in long.joins if join.faults]
    worst = sorted(long.joins, key=lambda join: -join.jump_ratio)[:3]
    shown = [*faulty, *(join for join in worst if join not in faulty)]
    rows = [(*_join_cells(join), _join_sound(join, samples, rate_hz)) for join in shown]
    return (
        f"<h2>Long text, {escape(long.voice)}</h2>"
        f"<p>{long.audio_s:.0f} s of speech, {len(long.joins)} joins, {len(faulty)} with a fault; "
        f"ended with {escape(long.reason)}.</p>{players}</p>"
        f"<h3>Joins with a fault, and the three largest jumps</h3>"
        + table(("at", "between", "pause", "jump", "words", "faults", ""), rows)
    )


def _join_cells(join: Join) -> tuple[str, ...]:
    words = [f"missing {word}" for word in join.missing] + [f"twice {w}" for w in join.doubled]
    return (
        f"{join.at_s:.1f} s",
        f"{escape(join.before)} | {escape(join.after)}",
        f"{join.pause_s:.2f} s",
        f"{join.jump_ratio:.1f}",
        escape(", ".join(words)),
        f'<span class="bad">{escape(", ".join(join.faults))}</span>',
    )


def _join_sound(join: Join, samples: Samples, rate_hz: int) -> str:
    start = max(0, int((join.at_s - 2.0) * rate_hz))
    return _player(samples[start : start + 4 * rate_hz], rate_hz)


def _recordings(report: Report, folder: Path) -> str:
    parts = ["<h2>Recordings</h2>"]
    for voice in report.figures:
        lines = [line for line in report.lines if line.voice == voice and line.audio]
        parts += [f"<h3>{escape(voice)}</h3>", _lines_table(_chosen(lines), folder)]
    return "".join(parts)


def _chosen(lines: Sequence[LineResult]) -> list[LineResult]:
    """The worst, then some at random, the same ones each time."""
    worst = sorted(lines, key=lambda line: (-len(line.faults), -line.num_word_errors))[:NUM_WORST]
    others = [line for line in lines if line not in worst]
    return worst + random.Random(0).sample(others, min(NUM_RANDOM, len(others)))


def _lines_table(lines: Sequence[LineResult], folder: Path) -> str:
    rows = []
    for line in lines:
        samples, rate_hz = read_audio(folder / line.audio)
        errors = "-" if line.heard is None else f"{line.num_word_errors} of {line.num_words}"
        rows.append(
            (
                f"{line.index} / {line.seed}",
                escape(line.text) + f"<br><small>{escape(line.heard or '')}</small>",
                errors,
                f'<span class="bad">{escape(", ".join(line.faults))}</span>',
                _player(samples.astype(np.float32), rate_hz),
            )
        )
    return table(("line / seed", "text, and what was heard", "word errors", "faults", ""), rows)


def _definitions() -> str:
    rows = [(f"<b>{name}</b>", escape(text)) for name, text in judging.FAULTS.items()]
    at_joins = [(f"<b>{name}</b>", escape(text)) for name, text in joins.FAULTS.items()]
    return "<h2>Faults</h2>" + table(("of a line", ""), rows) + table(("of a join", ""), at_joins)
