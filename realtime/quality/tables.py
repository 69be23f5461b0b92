"""A report, and a comparison of two, as tables for a terminal."""

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from realtime.quality.comparison import Difference
from realtime.quality.figures import FIGURES, show_figure, show_value
from realtime.quality.results import Report


def show_report(report: Report, console: Console) -> None:
    """Print figures, notes and verdicts."""
    table = Table(title="in brackets: 95 % interval over lines", title_justify="left")
    table.add_column("figure")
    for voice in report.figures:
        table.add_column(voice, justify="right", no_wrap=True)
    for name in FIGURES:
        if any(name in values for values in report.figures.values()):
            cells = [show_figure(name, values.get(name)) for values in report.figures.values()]
            table.add_row(name, *cells)
    console.print(table)
    for note in report.notes:
        console.print(note, soft_wrap=True, markup=False)
    for verdict in report.verdicts:
        value = "not measured" if verdict.value is None else f"{verdict.value:.4g}"
        outcome = "met" if verdict.is_met else "[bold red]not met[/bold red]"
        console.print(f"{verdict.requirement} ({verdict.voice}: {value}): {outcome}")


def show_differences(differences: Mapping[str, Sequence[Difference]], console: Console) -> None:
    """Print one table a voice."""
    for voice, found in differences.items():
        table = Table(title=f"{voice}: paired over common lines", title_justify="left")
        for title in ("figure", "before", "after", "difference [95 %]", ""):
            table.add_column(title, justify="left" if title in ("figure", "") else "right")
        for item in found:
            scale = 100 if FIGURES[item.name].unit == "%" else 1
            low, high = scale * item.low, scale * item.high
            digits = FIGURES[item.name].digits + 1
            table.add_row(
                item.name,
                show_value(item.name, item.before),
                show_value(item.name, item.after),
                f"{scale * item.difference:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]",
                item.verdict,
            )
        console.print(table)
