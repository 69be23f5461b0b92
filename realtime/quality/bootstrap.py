"""Intervals by resampling whole lines of text (Efron's bootstrap, percentile method).

A figure is a ratio of sums: errors over words, or a sum of values over their count. All recordings
of a line, such as those with different seeds, are drawn together, because they share its
difficulty.
"""

from collections.abc import Hashable, Iterable

import numpy as np
from numpy.typing import NDArray

NUM_RESAMPLES = 2000
LEVEL = 0.95

Term = tuple[Hashable, float, float]
"""(line, numerator, denominator) of one recording."""


def ratio(terms: Iterable[Term]) -> float | None:
    """Sum of numerators over sum of denominators; `None` where the latter is 0."""
    sums = _sums_by_line(terms)
    return _ratio(sums.sum(axis=0)) if len(sums) else None


def interval(
    terms: Iterable[Term], *, seed: int = 0, num_resamples: int = NUM_RESAMPLES
) -> tuple[float, float] | None:
    """95 % interval of `ratio`; `None` where there are fewer than two lines."""
    sums = _sums_by_line(terms)
    if len(sums) < 2:
        return None
    drawn = _draw(len(sums), seed, num_resamples)
    return _percentiles(_ratios(sums[drawn].sum(axis=1)))


def paired_difference(
    before: Iterable[Term],
    after: Iterable[Term],
    *,
    seed: int = 0,
    num_resamples: int = NUM_RESAMPLES,
) -> tuple[float, float, float] | None:
    """`ratio(after) - ratio(before)` over the lines that both have, and its 95 % interval.

    Each resample takes the same lines from both sides, so that a line's difficulty cancels out.

    Returns:
        (difference, low, high); `None` where there are fewer than two common lines.
    """
    old, new = list(before), list(after)
    common = {line for line, _, _ in old} & {line for line, _, _ in new}
    a = _sums_by_line(term for term in old if term[0] in common)
    b = _sums_by_line(term for term in new if term[0] in common)
    whole_a, whole_b = (_ratio(sums.sum(axis=0)) if len(sums) else None for sums in (a, b))
    if len(a) < 2 or whole_a is None or whole_b is None:
        return None
    drawn = _draw(len(a), seed, num_resamples)
    low, high = _percentiles(_ratios(b[drawn].sum(axis=1)) - _ratios(a[drawn].sum(axis=1)))
    return whole_b - whole_a, low, high


def unpaired_difference(
    before: Iterable[Term],
    after: Iterable[Term],
    *,
    seed: int = 0,
    num_resamples: int = NUM_RESAMPLES,
) -> tuple[float, float, float] | None:
    """As `paired_difference`, of two sets of different lines, each resampled by itself."""
    a, b = _sums_by_line(before), _sums_by_line(after)
    if len(a) < 2 or len(b) < 2:
        return None
    whole_a, whole_b = _ratio(a.sum(axis=0)), _ratio(b.sum(axis=0))
    if whole_a is None or whole_b is None:
        return None
    first = _ratios(a[_draw(len(a), seed, num_resamples)].sum(axis=1))
    second = _ratios(b[_draw(len(b), seed + 1, num_resamples)].sum(axis=1))
    low, high = _percentiles(second - first)
    return whole_b - whole_a, low, high


def _sums_by_line(terms: Iterable[Term]) -> NDArray[np.float64]:
    """Numerator and denominator of each line `[L, 2]`, ordered by the line's text form."""
    sums: dict[Hashable, list[float]] = {}
    for line, numerator, denominator in terms:
        pair = sums.setdefault(line, [0.0, 0.0])
        pair[0] += numerator
        pair[1] += denominator
    return np.array([sums[line] for line in sorted(sums, key=str)], np.float64).reshape(-1, 2)


def _draw(num_lines: int, seed: int, num_resamples: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(num_lines, size=(num_resamples, num_lines))


def _ratio(sums: NDArray[np.float64]) -> float | None:
    return float(sums[0] / sums[1]) if sums[1] else None


def _ratios(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of `[R, 2]` sums; a resample whose denominators are all 0 counts as 0."""
    return np.divide(sums[:, 0], sums[:, 1], out=np.zeros(len(sums)), where=sums[:, 1] != 0)


def _percentiles(values: NDArray[np.float64]) -> tuple[float, float]:
    tail = 100 * (1 - LEVEL) / 2
    low, high = np.percentile(values, [tail, 100 - tail])
    return float(low), float(high)
