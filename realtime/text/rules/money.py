# ruff: noqa: RUF001
"""Amounts of money."""

import re

from realtime.text import numbers, tables
from realtime.text.alignment import Replace

_SIGN = r"(?:US|AU|CA|NZ|HK|[ACRS])\$|[$£€¥₹₩₽₺₪₿฿₫₦₱]"
_CODE = r"USD|EUR|GBP|JPY|AUD|CAD|CHF|CNY|RMB|INR|KRW|MXN|SEK|NOK|DKK|BTC"
AMOUNT = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+"
_MAGNITUDE = r"hundred|thousand|million|billion|trillion|(?:[kKmMbBtT]|[bB]n|[mM]n|tn|MM)(?![\w'])"


def _amount(currency: str, amount: str, magnitude: str | None) -> str:
    one, many, one_cent, cents = tables.CURRENCIES[currency]
    if magnitude:
        return f"{numbers.number(amount)} {tables.MAGNITUDES[magnitude.lower()]} {many}"
    whole, _, places = amount.replace(",", "").partition(".")
    if len(places) != 2 or not cents:
        return f"{numbers.number(amount)} {one if numbers.is_one(amount) else many}"
    small = str(int(places))
    coins = f"{numbers.cardinal(small)} {one_cent if small == '1' else cents}"
    whole = str(int(whole or "0")) if len(whole) < numbers.MAX_CARDINAL_DIGITS else whole
    notes = f"{numbers.cardinal(whole)} {one if whole == '1' else many}"
    if small == "0":
        return notes
    return coins if whole == "0" else f"{notes} and {coins}"


def _signed(match: re.Match[str]) -> str:
    minus, sign, amount, magnitude = match.groups()
    return ("minus " if minus else "") + _amount(sign, amount, magnitude)


def _adjective(match: re.Match[str]) -> str:
    """The currency in front of a noun is singular: "a $20 bill"."""
    article, sign, amount, magnitude = match.groups()
    spoken = _amount(sign, amount, magnitude)
    one, many, one_cent, cents = tables.CURRENCIES[sign]
    for plural, singular in ((many, one), (cents, one_cent)):
        if plural and spoken.endswith(" " + plural):
            spoken = spoken.removesuffix(plural) + singular
    return f"{article} {spoken}"


def _coded(match: re.Match[str]) -> str:
    return _amount(match.group(1), match.group(2), match.group(3))


def _amount_coded(match: re.Match[str]) -> str:
    return _amount(match.group(3), match.group(1), match.group(2))


def _range(match: re.Match[str]) -> str:
    sign, low, magnitude_low, high, magnitude = match.groups()
    first = numbers.number(low)
    if magnitude_low and magnitude_low != magnitude:
        first += " " + tables.MAGNITUDES[magnitude_low.lower()]
    return f"{first} to {_amount(sign, high, magnitude)}"


def _cents(match: re.Match[str]) -> str:
    amount = match.group(1)
    return f"{numbers.number(amount)} {'cent' if numbers.is_one(amount) else 'cents'}"


RULES: tuple[tuple[re.Pattern[str], Replace], ...] = (
    (
        re.compile(
            rf"(?<!\w)({_SIGN}) ?({AMOUNT})({_MAGNITUDE})? ?[-–—] ?(?:{_SIGN})?({AMOUNT})"
            rf"(?: ?({_MAGNITUDE}))?(?![\w])"
        ),
        _range,
    ),
    (
        re.compile(
            rf"\b([Aa]n?|[Tt]he|[Tt]his|[Mm]y|[Yy]our) ({_SIGN})({AMOUNT})(?:[ -]?({_MAGNITUDE}))?"
            r"(?= (?!(?:and|in|of|for|to|or|on|from|is|was|you|per|that|at|with)\b)[a-z])"
        ),
        _adjective,
    ),
    (re.compile(rf"(?<!\w)(?:(-) ?)?({_SIGN}) ?({AMOUNT})(?:[ -]?({_MAGNITUDE}))?(?!\d)"), _signed),
    (re.compile(rf"(?<!\w)({_CODE}) ?({AMOUNT})(?: ?({_MAGNITUDE}))?(?![\w])"), _coded),
    (
        re.compile(rf"(?<![\w.,])({AMOUNT})(?: ?({_MAGNITUDE}))? ?({_SIGN}|{_CODE})(?![\w])"),
        _amount_coded,
    ),
    (re.compile(rf"(?<![\w.,])({AMOUNT}) ?¢"), _cents),
)
