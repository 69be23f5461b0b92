# ruff: noqa: RUF001
"""Units, percentages, dimensions, ranges, ordinals and plain numbers."""

import re

from realtime.text import numbers, tables
from realtime.text.alignment import Replace
from realtime.text.rules.money import AMOUNT

_UNIT = "|".join(re.escape(unit) for unit in sorted(tables.UNITS, key=len, reverse=True))
_POWERS = {"²": "square", "2": "square", "³": "cubic", "3": "cubic"}
_TEMPERATURE = {"C": " Celsius", "F": " Fahrenheit", "K": " Kelvin", None: ""}


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
    number, space, unit, power, per = match.groups()
    if space and unit in tables.GLUED_UNITS - tables.SPACED_TOO:
        return None
    one, many = tables.UNITS[unit]
    noun = one if numbers.is_one(number) else many
    if power and "/" in unit:
        noun += " squared" if power in "²2" else " cubed"  # an acceleration, not an area
    elif power:
        noun = f"{_POWERS[power]} {noun}"
    if per:
        noun += " per " + tables.UNITS[per][0]
    return f"{_signed(number)} {noun}"


def _low_end(match: re.Match[str]) -> str:
    """The low end of a range with a unit: "5-10 km"."""
    return f"{_signed(match.group(1))} to "


def _inches(match: re.Match[str]) -> str:
    number = match.group(1)
    return f"{numbers.number(number)} {'inch' if numbers.is_one(number) else 'inches'}"


def _millions(match: re.Match[str]) -> str:
    return f"{numbers.number(match.group(1))} {tables.MAGNITUDES[match.group(2).lower()]}"


def _signed(number: str) -> str:
    return numbers.number(number.replace("−", "-"))


def _percent_range(match: re.Match[str]) -> str:
    low, high = match.groups()
    return f"{numbers.number(low)} to {numbers.number(high)} percent"


def _percent(match: re.Match[str]) -> str:
    return f"{_signed(match.group(1))} percent"


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


def _spaced_thousands(match: re.Match[str]) -> str:
    return match.group().replace(" ", "")


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
    if "." in number:
        return numbers.decimal(number)
    is_round = len(number) == 3 and number.endswith("00")
    if len(number) < 3 or is_round:
        return numbers.cardinal(number)
    return (
        numbers.year(number)
        if re.fullmatch(r"(?:1[1-9]|20)\d{2}", number)
        else numbers.digits(number)
    )


RULES: tuple[tuple[re.Pattern[str], Replace], ...] = (
    (re.compile(r"(?<![\w.,-])(\+)(?=\d)"), lambda _: "plus "),
    (re.compile(r"(?<![\w.,])(?<!\d )(\d{1,3})((?: 000){1,4})(?![\w.,]\w)\b"), _spaced_thousands),
    (re.compile(r"(?<![\w.])(\d{1,2})' ?(?:(\d{1,2})(?:\"|''|”))"), _feet_inches),
    (re.compile(r"(?<![\w.])([3-7])'(\d|1[01])(?![\w'])"), _feet_inches),
    (re.compile(r"(?<=[A-Za-z]) [x×] (?=\d)"), lambda _: " by "),
    (
        re.compile(
            rf"(?<![\w.,/-])(-?(?:{AMOUNT})) ?[-–—] ?"
            rf"(?=(?:{AMOUNT}) ?(?:°|º|(?:{_UNIT})(?![\w'-])))"
        ),
        _low_end,
    ),
    (re.compile(rf"(?<![\w.,])(-?(?:{AMOUNT})) ?(?:°|º) ?([CFK])?(?!\w)"), _degrees),
    (re.compile(rf"(?<![\w.,])({AMOUNT})%? ?[-–—] ?({AMOUNT}) ?%"), _percent_range),
    (re.compile(rf"(?<![\w.,])(-?(?:{AMOUNT})) ?%"), _percent),
    (re.compile(rf"(?<![\w.,])({AMOUNT}) in\.(?= [a-z]| ?\Z)"), _inches),
    (re.compile(rf"(?<![\w.,])({AMOUNT})(M|B|bn)\b(?= [a-z])"), _millions),
    (
        re.compile(
            rf"(?<![\w.,/])(-?(?:{AMOUNT}))( ?)({_UNIT})([²³23])?(?:/({_UNIT}))?(?![\w²³/°'])"
            r"(?:\.(?= [a-z]))?"
        ),
        _unit,
    ),
    (
        re.compile(rf"(?<![\w.,])({AMOUNT})[x×](?! ?[-+=*/^])(?= ?[a-z]|[.,;!?]?(?:\s|\Z))"),
        _times_faster,
    ),
    (re.compile(r"(?<![\w.,])\d{1,5}(?: ?[x×] ?\d{1,5})(?! ?[=+*/×x\d-])"), _dimensions),
)
# Behind fractions and arithmetic, which take the numbers that are part of something larger.
NUMBER_RULES: tuple[tuple[re.Pattern[str], Replace], ...] = (
    (re.compile(r"(?<![\w.,-])(\d{1,4}) ?[-–—] ?(\d{1,4})(?![\w-]|[.,]\d)"), _range),
    (re.compile(r"(?<![\w.,])(\d{1,2}):(\d{1,2})(?![\d:])"), _range),
    (re.compile(r"(?<![\w.])(\d{1,3}(?:,\d{3})+|\d+)(?:st|nd|rd|th)\b"), _ordinal),
    (re.compile(r"(?<![\w.])#(?=\d)"), lambda _: "number "),
    (re.compile(rf"(?<![\w.,])(-)?({AMOUNT})(?!\w)"), _number),
    (re.compile(r"\d+(?:\.\d+)?"), _glued),
)
