"""Two measurements of the same lines, figure by figure. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from realtime.quality import bootstrap
from realtime.quality.figures import FIGURES, terms_of
from realtime.quality.results import LineResult, Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A figure before and after, on the lines that both have.

    Attributes:
        difference: After less before.
        low: Of its 95 % interval, from a bootstrap over pairs of lines.
        high: Of the same.
        verdict: `better` or `worse` where the interval leaves out 0, else `open`.
    """

    name: str
    before: float
    after: float
    difference: float
    low: float
    high: float
    verdict: str


def compare_reports(before: Report, after: Report) -> dict[str, list[Difference]]:
    """Differences by voice, of the voices that both have.

    Where each has a single voice they are compared whatever their names.
    """
    voices = {voice: voice for voice in before.figures if voice in after.figures}
    if not voices and len(before.figures) == len(after.figures) == 1:
        voices = {next(iter(before.figures)): next(iter(after.figures))}
    return {
        old if old == new else f"{old} / {new}": _differences(
            [line for line in before.lines if line.voice == old],
            [line for line in after.lines if line.voice == new],
        )
        for old, new in voices.items()
    }


def _differences(old: Sequence[LineResult], new: Sequence[LineResult]) -> list[Difference]:
    common = {line.text for line in old} & {line.text for line in new}
    old_terms = terms_of(line for line in old if line.text in common)
    new_terms = terms_of(line for line in new if line.text in common)
    found: list[Difference] = []
    for name in FIGURES:
        pair = (old_terms.get(name, []), new_terms.get(name, []))
        values = [bootstrap.ratio(terms) for terms in pair]
        change = bootstrap.paired_difference(*pair)
        if change is not None and values[0] is not None and values[1] is not None:
            difference, low, high = change
            found.append(
                Difference(
                    name=name,
                    before=values[0],
                    after=values[1],
                    difference=difference,
                    low=low,
                    high=high,
                    verdict=_verdict(name, low, high),
                )
            )
    return found


def _verdict(name: str, low: float, high: float) -> str:
    is_better_low = FIGURES[name].is_better_low
    if low <= 0 <= high or is_better_low is None:
        return "open"
    return "better" if (high < 0) == is_better_low else "worse"
