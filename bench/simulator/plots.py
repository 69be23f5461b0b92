"""A study as a picture."""

import math
from collections import defaultdict
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.simulator.policies import POLICIES
from bench.simulator.studies import Row
from bench.simulator.tables import gap_free_ratio, grouped, mean

_COLOURS = dict(zip(POLICIES, ("#0b6e4f", "#c8553d", "#4a6fa5", "#9db4c0", "#d9a441"), strict=True))


def plot(rows: list[Row], title: str, path: Path) -> None:
    """Gap-free share, time to first sound and refusals over the offered load, a line a policy."""
    mpl.rcParams["svg.hashsalt"] = "speech"
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    panels = figure.subplots(1, 3)
    lines: dict[str, list[tuple[float, float, float, float]]] = defaultdict(list)
    for row, figures in grouped(rows):
        lines[row.policy].append(
            (
                row.load,
                100 * gap_free_ratio(figures),
                mean(figures, lambda f: f.first_sound_s[1] if f.first_sound_s else math.nan),
                100 * sum(f.num_refused for f in figures) / sum(f.num_calls for f in figures),
            )
        )
    for policy, points in lines.items():
        loads, *columns = zip(*sorted(points), strict=True)
        for panel, values in zip(panels, columns, strict=True):
            panel.plot(
                [100 * load for load in loads],
                values,
                marker="o",
                markersize=4,
                color=_COLOURS[policy],
                linewidth=2.4 if policy == "ours" else 1.4,
                label=POLICIES[policy].title,
            )
    panels[0].set(title="admitted streams without a gap, %", ylim=(-3, 103))
    panels[1].set(title="time to first sound, p95, s", yscale="log")
    panels[2].set(title="calls told to come back, %", ylim=(-3, 103))
    for panel in panels:
        panel.set_xlabel("offered load, % of what admission lets in")
        panel.axvline(100, color="#bbbbbb", linewidth=0.8, zorder=0)
        panel.grid(alpha=0.25)
    panels[0].legend(fontsize=8, loc="lower left")
    figure.suptitle(title, fontsize=11)
    figure.savefig(path, metadata={"Date": None})
