"""What the rows of a load test say, as values and as a table."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from loadtest.recorder import Row
from loadtest.scenario import Scenario

PERCENTILES = (50, 90, 99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Figures over all utterances; percentiles are recorded values, not interpolated.

    Attributes:
        wall_s: Length of the test.
        num_utterances: That spoke to their end.
        num_streams: Callers.
        num_gap_free_streams: Callers none of whose utterances had a gap or an error.
        gap_free_ratio: Share of utterances without a gap.
        num_underruns: Gaps in all.
        underrun_s: Their length in all.
        num_text_underruns: Gaps that the service puts down to text that came too late.
        text_underrun_s: Their length in all.
        ttfb_s: Percentile -> seconds.
        audible_s: Percentile -> seconds.
        longest_wait_s: Longest time between two chunks.
        least_lead_s: Smallest reserve of any listener.
        audio_s: Audio received in all.
        speed: Audio received per second of the test.
        real_time_factor: Percentile -> the service's compute time per second of audio.
        tokens_per_s: Speech tokens per second of the test, over all streams.
        reasons: How utterances ended.
        errors: Error code -> count.
    """

    wall_s: float
    num_utterances: int
    num_streams: int
    num_gap_free_streams: int
    gap_free_ratio: float
    num_underruns: int
    underrun_s: float
    num_text_underruns: int
    text_underrun_s: float
    ttfb_s: dict[int, float]
    audible_s: dict[int, float]
    longest_wait_s: float
    least_lead_s: float | None
    audio_s: float
    speed: float
    real_time_factor: dict[int, float]
    tokens_per_s: float
    reasons: dict[str, int]
    errors: dict[str, int]


def summarise(rows: Sequence[Row], *, num_streams: int, wall_s: float) -> Summary:
    """Figures of a finished test."""
    spoken = [row for row in rows if row.error is None]
    services = [row.service for row in spoken if row.service is not None]
    leads = [row.least_lead_s for row in spoken if row.least_lead_s is not None]
    flawed = {row.stream for row in rows if row.error is not None or row.num_underruns}
    silent = set(range(num_streams)) - {row.stream for row in spoken}
    audio_s = sum(row.audio_s for row in spoken)
    return Summary(
        wall_s=wall_s,
        num_utterances=len(spoken),
        num_streams=num_streams,
        num_gap_free_streams=num_streams - len(flawed | silent),
        gap_free_ratio=(
            sum(not row.num_underruns for row in spoken) / len(spoken) if spoken else 0.0
        ),
        num_underruns=sum(row.num_underruns for row in spoken),
        underrun_s=sum(row.underrun_s for row in spoken),
        num_text_underruns=sum(metrics.text_underruns for metrics in services),
        text_underrun_s=sum(metrics.text_underrun_s for metrics in services),
        ttfb_s=percentiles([row.ttfb_s for row in spoken]),
        audible_s=percentiles([row.audible_s for row in spoken]),
        longest_wait_s=max((row.longest_wait_s for row in spoken), default=0.0),
        least_lead_s=min(leads, default=None),
        audio_s=audio_s,
        speed=audio_s / wall_s,
        real_time_factor=percentiles([metrics.real_time_factor for metrics in services]),
        tokens_per_s=sum(metrics.tokens for metrics in services) / wall_s,
        reasons=dict(Counter(row.reason for row in spoken if row.reason is not None)),
        errors=dict(Counter(row.error for row in rows if row.error is not None)),
    )


def percentiles(values: Sequence[float | None]) -> dict[int, float]:
    """p50, p90 and p99 of what is not `None`; empty where nothing is."""
    known = [value for value in values if value is not None]
    if not known:
        return {}
    levels = np.percentile(known, PERCENTILES, method="inverted_cdf")
    return {name: float(level) for name, level in zip(PERCENTILES, levels, strict=True)}


def show(summary: Summary, scenario: Scenario, console: Console) -> None:
    """Print the figures."""
    pace = "as soon as everything was heard" if scenario.listens else "without pause"
    table = Table(title=f"{summary.num_streams} streams, {summary.wall_s:.1f} s, {pace}")
    table.add_column("figure")
    table.add_column("value", justify="right")
    for name, value in _lines(summary):
        table.add_row(name, value)
    console.print(table)


def _lines(summary: Summary) -> list[tuple[str, str]]:
    lead = summary.least_lead_s
    return [
        ("utterances", str(summary.num_utterances)),
        ("streams without gap or error", f"{summary.num_gap_free_streams}/{summary.num_streams}"),
        ("utterances without gap", f"{100 * summary.gap_free_ratio:.1f} %"),
        ("gaps", f"{summary.num_underruns} ({summary.underrun_s:.3f} s)"),
        (
            "gaps for want of text, by the service's word",
            f"{summary.num_text_underruns} ({summary.text_underrun_s:.3f} s)",
        ),
        ("smallest reserve of a listener", "-" if lead is None else f"{lead:.3f} s"),
        ("longest wait for a chunk", f"{summary.longest_wait_s:.3f} s"),
        ("first byte p50 / p90 / p99", _seconds(summary.ttfb_s)),
        ("audible p50 / p90 / p99", _seconds(summary.audible_s)),
        ("real-time factor p50 / p90 / p99", _seconds(summary.real_time_factor, "")),
        ("audio per second of test", f"{summary.speed:.2f} s"),
        ("tokens/s, all streams", f"{summary.tokens_per_s:.0f}"),
        ("ends", _counts(summary.reasons)),
        ("errors", _counts(summary.errors)),
    ]


def _seconds(levels: dict[int, float], unit: str = " s") -> str:
    return " / ".join(f"{value:.3f}" for value in levels.values()) + unit if levels else "-"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"
