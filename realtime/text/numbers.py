"""Number words: digits as written -> words as spoken in American English.

Takes and gives strings, knows no context (whether "1987" is a year is the caller's decision).
Word building comes from hibari's port of num2words; "and", commas and hyphens are dropped, because
the voice's own lexicon reads numbers that way.
"""

import re

from hibari.g2p import numbers as words

# Above this many digits nobody reads a cardinal; digit by digit is also what keeps the time linear.
MAX_CARDINAL_DIGITS = 15
_PUNCTUATION = re.compile(r"[-,]")
_SPACES = re.compile(r"\s+")
_ENDING_Y = re.compile(r"y$")


def _plain(number: str) -> str:
    spaced = _PUNCTUATION.sub(" ", number)
    return _SPACES.sub(" ", spaced.replace(" and ", " ")).strip()


def digits(number: str) -> str:
    """Each digit by itself: "911" -> "nine one one". Anything but ASCII digits is skipped."""
    return " ".join(words.ONES[ord(digit) - 48] for digit in number if "0" <= digit <= "9")


def cardinal(number: str) -> str:
    """Whole number, with or without thousands commas: "1,048" -> "one thousand forty eight"."""
    number = number.replace(",", "")
    if len(number) > MAX_CARDINAL_DIGITS or (len(number) > 1 and number[0] == "0"):
        return digits(number)
    return _plain(words.cardinal(int(number)))


def ordinal(number: str) -> str:
    """Ordinal of a whole number: "22" -> "twenty second"."""
    number = number.replace(",", "")
    if len(number) > MAX_CARDINAL_DIGITS:
        return digits(number)
    return _plain(words.ordinal(int(number)))


def decimal(number: str) -> str:
    """Decimal with every written place spoken: "3.10" -> "three point one zero"."""
    whole, _, places = number.partition(".")
    spoken = cardinal(whole) if whole else ""
    return f"{spoken} point {digits(places)}".strip() if places else spoken


def year(number: str) -> str:
    """Four-digit year: "1905" -> "nineteen oh five", "2005" -> "two thousand five"."""
    return _plain(words.year(int(number)))


def plural(spoken: str) -> str:
    """Plural of spoken number words: "nineteen ninety" -> "nineteen nineties"."""
    if spoken.endswith("y"):
        return _ENDING_Y.sub("ies", spoken)
    return spoken + ("es" if spoken.endswith("x") else "s")


def is_one(number: str) -> bool:
    """Whether the number takes a singular noun."""
    return number.lstrip("-") in ("1", "1.0", "one")


def number(text: str) -> str:
    """Whole or decimal number, optionally negative: "-7" -> "minus seven"."""
    if text.startswith("-"):
        return "minus " + number(text[1:])
    return decimal(text) if "." in text else cardinal(text)


def spaced_digits(groups: str) -> str:
    """Digit groups of a telephone number, a comma between groups: "555-0142"."""
    return ", ".join(digits(group) for group in re.split(r"\D+", groups) if group)
