"""Thresholds on figures, so that a measurement can be a gate: `word_error<=0.18`. Pure."""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from realtime.errors import RequestError
from realtime.quality.figures import FIGURES
from realtime.quality.results import Figure, Verdict

_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_FORM = re.compile(r"(?:(?P<voice>[^:<>=]+):)?(?P<name>\w+)\s*(?P<sign><=|>=|<|>)(?P<limit>.+)")


class BadRequirementError(RequestError):
    """A requirement has another form, or names no figure."""

    code = "bad_requirement"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A figure's limit; on every voice where `voice` is `None`."""

    text: str
    voice: str | None
    name: str
    sign: str
    limit: float

    def is_met(self, value: float) -> bool:
        """Whether a value is within the limit."""
        return _OPERATORS[self.sign](value, self.limit)


def parse(text: str) -> Requirement:
    """Read `[VOICE:]FIGURE<=NUMBER`; the signs are <=, >=, < and >. Ratios are in [0, 1].

    Raises:
        BadRequirementError: Saying what is wrong.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise BadRequirementError(f"--require {text}: want [VOICE:]FIGURE<=NUMBER")
    if match["name"] not in FIGURES:
        known = ", ".join(FIGURES)
        raise BadRequirementError(f"--require {text}: `{match['name']}` is none of {known}")
    try:
        limit = float(match["limit"])
    except ValueError as error:
        raise BadRequirementError(f"--require {text}: `{match['limit']}` is no number") from error
    return Requirement(
        text=text, voice=match["voice"], name=match["name"], sign=match["sign"], limit=limit
    )


def check(
    requirements: list[Requirement], figures: Mapping[str, Mapping[str, Figure]]
) -> tuple[Verdict, ...]:
    """A verdict for each requirement and voice; a figure that is not there does not meet it."""
    verdicts: list[Verdict] = []
    for requirement in requirements:
        voices = list(figures) if requirement.voice is None else [requirement.voice]
        for voice in voices:
            found = figures.get(voice, {}).get(requirement.name)
            verdicts.append(
                Verdict(
                    requirement=requirement.text,
                    figure=requirement.name,
                    voice=voice,
                    value=found and found.value,
                    is_met=found is not None and requirement.is_met(found.value),
                )
            )
    return tuple(verdicts)
