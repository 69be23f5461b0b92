"""Rows of a study as a table in Markdown."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator

from bench.simulator.figures import Figures
from bench.simulator.policies import POLICIES
from bench.simulator.studies import Row

_COLUMNS = (
    "policy",
    "load",
    "admitted",
    "gap-free",
    "first sound p50 / p95 / p99, ms",
    "wait p95, ms",
    "refused, longest answer",
    "retries served",
    "callers served",
    "orphaned frames",
    "mean rows",
)


def table(rows: list[Row]) -> Iterator[str]:
    """Lines; seeds of the same run are put together: sums of counts, worst of times."""
    yield f"| {' | '.join(_COLUMNS)} |"
    yield f"|{'---|' * len(_COLUMNS)}"
    for row, figures in grouped(rows):
        load = f"{row.load:.0%}" + (f" after {row.after:.0%}" if row.after is not None else "")
        cells = [POLICIES[row.policy].title, load, *_cells(figures)]
        yield f"| {' | '.join(cells)} |"


def grouped(rows: list[Row]) -> Iterator[tuple[Row, list[Figures]]]:
    """A first row and the figures of all seeds, for each policy and load."""
    groups: dict[tuple[str, float, float | None], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.policy, row.load, row.after].append(row)
    for same in groups.values():
        yield same[0], [row.figures for row in same]


def gap_free_ratio(figures: list[Figures]) -> float:
    """Of all seeds together."""
    return 1.0 - _sum(figures, "num_with_gap") / max(1, _sum(figures, "num_admitted"))


def mean(figures: list[Figures], value: Callable[[Figures], float]) -> float:
    """Over the seeds that have the value."""
    values = [v for v in map(value, figures) if not math.isnan(v)]
    return sum(values) / len(values) if values else math.nan


def _cells(figures: list[Figures]) -> list[str]:
    first = " / ".join(_ms(figures, lambda f, i=i: f.first_sound_s[i]) for i in range(3))
    num_refused = _sum(figures, "num_refused")
    answer = _ms([f for f in figures if f.answer_s], lambda f: f.answer_s[-1])
    num_expired = _sum(figures, "num_expired")
    refused = f"{num_refused}, {answer} ms" if num_refused else "0"
    if num_expired:
        refused += f" ({num_expired} after a wait)"
    return [
        str(_sum(figures, "num_admitted")),
        f"{gap_free_ratio(figures):.2%}",
        first,
        _ms(figures, lambda f: f.wait_s[1]),
        refused,
        _percent(mean(figures, lambda f: f.retry_success_ratio)),
        _percent(mean(figures, lambda f: f.caller_success_ratio)),
        f"{mean(figures, lambda f: f.orphaned_frames):.1f}",
        f"{mean(figures, lambda f: f.mean_rows):.1f}",
    ]


def _sum(figures: list[Figures], name: str) -> int:
    return sum(getattr(f, name) for f in figures)


def _ms(figures: list[Figures], value: Callable[[Figures], float]) -> str:
    return f"{1e3 * max(map(value, figures)):.0f}" if figures else "-"


def _percent(ratio: float) -> str:
    return "-" if math.isnan(ratio) else f"{ratio:.1%}"
