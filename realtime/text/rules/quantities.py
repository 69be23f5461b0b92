# ruff: noqa: RUF001
"""Telephone numbers, units, fractions, ranges, arithmetic, ordinals and plain numbers."""

import re

from realtime.text import numbers, tables
from realtime.text.alignment import Replace
from realtime.text.rules.money import AMOUNT

_UNIT = "|".join(re.escape(unit) for unit in sorted(tables.UNITS, key=len, reverse=True))
_POWERS = {"²": "square", "2": "square", "³": "cubic", "3": "cubic"}
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
_TEMPERATURE = {"C": " Celsius", "F": " Fahrenheit", "K": " Kelvin", None: ""}


def _phone(match: re.Match[str]) -> str:
    spoken = numbers.spaced_digits(match.group().lstrip("+"))
    return "plus " + spoken if match.group().startswith("+") else spoken


def _dial(match: re.Match[str]) -> str:
    return f"{match.group(1)} {numbers.digits(match.group(2))}"


def _degrees(match: re.Match[str]) -> str:
    number, scale = match.groups()
    noun = "degree" if numbers.is_one(number) else "degrees"
    return f"{_signed(number)} {noun}{_TEMPERATURE[scale]}"


def _feet_inches(match: re.Match[str]) -> str:
    feet, inches = match.groups()
    spoken = f"{numbers.cardinal(feet)} {'foot' if feet == '1' else 'feet'}"
    if not inches:
        return spoken
    return f"{spoken} {numbers.cardinal(inches)} {'inch' if inches == '1' else 'inches'}"


def _unit(match: re.Match[str]) -> str | None:
    number, space, unit, power = match.groups()
    if space and unit in tables.GLUED_UNITS - tables.SPACED_TOO:
        return None
    one, many = tables.UNITS[unit]
    noun = one if numbers.is_one(number) else many
    if power:
        noun = f"{_POWERS[power]} {noun}"
    return f"{_signed(number)} {noun}"


def _signed(number: str) -> str:
    return numbers.number(number.replace("−", "-"))


def _percent_range(match: re.Match[str]) -> str:
    low, high = match.groups()
    return f"{numbers.number(low)} to {numbers.number(high)} percent"


def _percent(match: re.Match[str]) -> str:
    return f"{_signed(match.group(1))} percent"


def _fraction_words(top: str, bottom: str) -> str:
    one, many = tables.DENOMINATORS.get(bottom) or (
        numbers.ordinal(bottom),
        numbers.ordinal(bottom) + "s",
    )
    return f"{numbers.cardinal(top)} {one if top == '1' else many}"


def _vulgar(match: re.Match[str]) -> str:
    whole, sign = match.group(1), tables.VULGAR_FRACTIONS[match.group(2)]
    return f"{whole} {sign}" if whole else sign


def _mixed(match: re.Match[str]) -> str | None:
    whole, top, bottom = match.groups()
    if not 0 < int(top) < int(bottom):
        return None
    spoken = _fraction_words(top, bottom)
    if top == "1":
        spoken = ("an " if bottom in ("8", "11", "18") else "a ") + spoken.removeprefix("one ")
    return f"{numbers.cardinal(whole)} and {spoken}"


def _fraction(match: re.Match[str]) -> str | None:
    top, bottom = match.groups()
    if top == "24" and bottom == "7":
        return "twenty four seven"
    if top == "9" and bottom == "11":
        return "nine eleven"
    if 0 < int(top) < int(bottom) <= 100 or (bottom in "234568" and int(top) > 0):
        return _fraction_words(top, bottom)
    return f"{numbers.cardinal(top)} out of {numbers.cardinal(bottom)}"


def _plain(number: str) -> str:
    """A number by itself: four digits in the range of years are read as one."""
    if re.fullmatch(r"(?:1[1-9]|20)\d{2}", number):
        return numbers.year(number)
    return numbers.number(number)


def _range(match: re.Match[str]) -> str | None:
    low, high = match.groups()
    return f"{_plain(low)} to {_plain(high)}"


def _times_faster(match: re.Match[str]) -> str:
    return numbers.number(match.group(1)) + " times"


def _dimensions(match: re.Match[str]) -> str:
    return " by ".join(numbers.number(side) for side in re.split(r" ?[x×] ?", match.group()))


def _operation(match: re.Match[str]) -> str:
    return f" {_OPERATORS[match.group(1)]} "


def _comparison(match: re.Match[str]) -> str:
    return f"{match.group(1)} {_OPERATORS[match.group(2)]} "


def _ordinal(match: re.Match[str]) -> str:
    return numbers.ordinal(match.group(1))


def _number(match: re.Match[str]) -> str:
    sign, number = match.groups()
    return ("minus " if sign else "") + _plain(number)


def _glued(match: re.Match[str]) -> str:
    """Digits that touch letters: "MP3", "A4", "COVID19"."""
    before = match.string[max(match.start() - 1, 0) : match.start()]
    behind = match.string[match.end() : match.end() + 1]
    left = " " if before.isalpha() else ""
    return left + _digits_in_word(match.group()) + (" " if behind.isalpha() else "")


def _digits_in_word(number: str) -> str:
    is_round = len(number) == 3 and number.endswith("00")
    if len(number) < 3 or is_round:
        return numbers.cardinal(number)
    return (
        numbers.year(number)
        if re.fullmatch(r"(?:1[1-9]|20)\d{2}", number)
        else numbers.digits(number)
    )


RULES: tuple[tuple[re.Pattern[str], Replace], ...] = (
    (re.compile(r"(?<![\w.])\+\d{1,3}(?:[ .-]\(?\d{1,5}\)?){1,5}(?![\w-])"), _phone),
    (re.compile(r"(?<![\w.+-])(?:\+?1[ .-])?\(\d{3}\) ?\d{3}[ .-]\d{4}(?![\w-])"), _phone),
    (re.compile(r"(?<![\w.+-])(?:1-)?\d{3}[-.]\d{3}[-.]\d{4}(?![\w-])"), _phone),
    (re.compile(r"(?<![\w.+-])\d{3}-\d{4}(?![\w-])"), _phone),
    (re.compile(r"(?<![\w.,-])(\+)(?=\d)"), lambda _: "plus "),
    (
        re.compile(
            r"\b([Dd]ial(?:ed|ing)?|[Cc]all(?:ed|ing)?|[Tt]ext|[Ee]xt(?:ension)?\.?|[Cc]ode|PIN)"
            r" (\d{3,8})\b(?![.,]\d)"
        ),
        _dial,
    ),
    (
        re.compile(r"(?<![\w.,])()(911|411)\b(?![.,]\d)"),
        lambda match: numbers.digits(match.group(2)),
    ),
    (re.compile(r"(\d+)?([½¼¾⅓⅔⅛⅜⅝⅞])"), _vulgar),
    (re.compile(r"(?<![\w.])(\d{1,2})['′] ?(?:(\d{1,2})(?:\"|″|''|”))"), _feet_inches),
    (re.compile(rf"(?<![\w.,])(-?(?:{AMOUNT})) ?(?:°|º) ?([CFK])?(?!\w)"), _degrees),
    (re.compile(rf"(?<![\w.,])({AMOUNT})%? ?[-–—] ?({AMOUNT}) ?%"), _percent_range),
    (re.compile(rf"(?<![\w.,])(-?(?:{AMOUNT})) ?%"), _percent),
    (re.compile(rf"(?<![\w.,/])(-?(?:{AMOUNT}))( ?)({_UNIT})([²³23])?(?![\w²³/°'])"), _unit),
    (re.compile(rf"(?<![\w.,])({AMOUNT})[x×](?= ?[a-z]|[.,;!?]?(?:\s|\Z))"), _times_faster),
    (re.compile(r"(?<![\w.,])\d{1,5}(?: ?[x×] ?\d{1,5})(?! ?[=+*/×x\d-])"), _dimensions),
    (re.compile(r"(?<![\w./])(\d{1,4}) (\d{1,2})/(\d{1,3})(?![\w/]|\.\d)"), _mixed),
    (re.compile(r"(?<=[\d)]) ?([+*×÷=]) ?(?=[\d(.-])"), _operation),
    (re.compile(r"(?<=\d) ([-/]) (?=\d+ ?=)"), _operation),
    (re.compile(r"(?<![\w./])(\d{1,3})/(\d{1,3})(?![\w/]|\.\d)"), _fraction),
    (re.compile(r"([A-Za-z0-9)]) ?([<>=]) ?(?=[A-Za-z0-9(-])"), _comparison),
    (re.compile(r"(?<![\w.,-])(\d{1,4}) ?[-–—] ?(\d{1,4})(?![\w-]|[.,]\d)"), _range),
    (
        re.compile(r"(?<![\w.,])(\d{1,2}):(\d{1,2})(?![\d:])"),
        lambda match: f"{numbers.cardinal(match.group(1))} to {numbers.cardinal(match.group(2))}",
    ),
    (re.compile(r"(?<![\w.])(\d{1,3}(?:,\d{3})+|\d+)(?:st|nd|rd|th)\b"), _ordinal),
    (re.compile(r"(?<![\w.])#(?=\d)"), lambda _: "number "),
    (re.compile(rf"(?<![\w.,])(-)?({AMOUNT})(?!\w)"), _number),
    (re.compile(r"\d+"), _glued),
)
