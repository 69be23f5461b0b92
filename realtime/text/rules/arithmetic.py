# ruff: noqa: RUF001
"""Operators, comparisons, powers and scientific notation between numbers and names."""

import re

from realtime.text import numbers
from realtime.text.alignment import Replace

_OPERATORS = {
    "+": "plus",
    "-": "minus",
    "*": "times",
    "×": "times",
    "x": "times",
    "÷": "divided by",
    "/": "divided by",
    "=": "equals",
    "<": "is less than",
    ">": "is greater than",
}


def _operation(match: re.Match[str]) -> str:
    return f" {_OPERATORS[match.group(1)]} "


def _scientific(match: re.Match[str]) -> str:
    number, exponent = match.groups()
    return f"{numbers.number(number)} times ten to the {numbers.number(exponent.lstrip('+'))}"


RULES: tuple[tuple[re.Pattern[str], Replace], ...] = (
    (re.compile(r"(?<![\w.,])(\d{1,15}(?:\.\d{1,15})?)[eE]([+-]?\d{1,3})\b"), _scientific),
    (re.compile(r"(?<=[\w)])\^(?=[\w(-])"), lambda _: " to the power of "),
    (re.compile(r"(?<=\d) ([-/x]) (?=\d+(?: [-+*/×÷x] \d+){0,5} ?=)"), _operation),
    (re.compile(r"(?<=[\d)]) ?([+*×÷=]) ?(?=[\d(.-])"), _operation),
    (re.compile(r"(?<=[A-Za-z0-9)]) ?([<>=]) ?(?=[A-Za-z0-9(-])"), _operation),
)
