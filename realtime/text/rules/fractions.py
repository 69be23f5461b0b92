"""Fractions, scores and mixed numbers, with a unit behind them where there is one."""

import re

from realtime.text import numbers, tables
from realtime.text.alignment import Replace

_UNIT = r"tsp|tbsp|oz|lbs?|in|mi|km|gal|kg"
_FIXED = {
    ("24", "7"): "twenty four seven",
    ("9", "11"): "nine eleven",
    ("50", "50"): "fifty fifty",
    ("20", "20"): "twenty twenty",
}


def _words(top: str, bottom: str) -> str:
    ordinal = numbers.ordinal(bottom)
    one, many = tables.DENOMINATORS.get(bottom, (ordinal, ordinal + "s"))
    return f"{numbers.cardinal(top)} {one if top == '1' else many}"


def _vulgar(match: re.Match[str]) -> str:
    whole, sign = match.group(1), tables.VULGAR_FRACTIONS[match.group(2)]
    return f"{whole} {sign}" if whole else sign


def _mixed(match: re.Match[str]) -> str | None:
    whole, top, bottom, unit = match.groups()
    if not 0 < int(top) < int(bottom):
        return None
    spoken = _words(top, bottom)
    if top == "1":
        spoken = ("an " if bottom in ("8", "11", "18") else "a ") + spoken.removeprefix("one ")
    noun = f" {tables.UNITS[unit][1]}" if unit else ""
    return f"{numbers.cardinal(whole)} and {spoken}{noun}"


def _fraction(match: re.Match[str]) -> str | None:
    top, bottom, unit = match.groups()
    if (top, bottom) in _FIXED:
        return _FIXED[top, bottom]
    if 0 < int(top) < int(bottom) <= 100 or (bottom in "234568" and int(top) > 0):
        noun = f" of {_article(tables.UNITS[unit][0])}" if unit else ""
        return _words(top, bottom) + noun
    return f"{numbers.cardinal(top)} out of {numbers.cardinal(bottom)}" + (
        f" {tables.UNITS[unit][1]}" if unit else ""
    )


def _article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeio' else 'a'} {noun}"


def _score(match: re.Match[str]) -> str:
    return f"{numbers.number(match.group(1))} out of {numbers.number(match.group(2))}"


RULES: tuple[tuple[re.Pattern[str], Replace], ...] = (
    (re.compile(r"(?<!\d)(\d++)?([½¼¾⅓⅔⅛⅜⅝⅞])"), _vulgar),
    (
        re.compile(
            rf"(?<![\w./])(\d{{1,4}}) (\d{{1,2}})/(\d{{1,3}})(?: ?({_UNIT})\b)?(?![\w/]|\.\d)"
        ),
        _mixed,
    ),
    (re.compile(r"(?<![\w./])(\d{1,3}\.\d{1,3})/(\d{1,3})(?![\w/]|\.\d)"), _score),
    (re.compile(rf"(?<![\w./])(\d{{1,3}})/(\d{{1,3}})(?: ?({_UNIT})\b)?(?![\w/]|\.\d)"), _fraction),
)
