"""Numbers that are read digit by digit: telephone numbers, codes, order numbers."""

import re

from realtime.text import numbers
from realtime.text.alignment import Replace


def _phone(match: re.Match[str]) -> str:
    spoken = numbers.spaced_digits(match.group().lstrip("+"))
    return "plus " + spoken if match.group().startswith("+") else spoken


def _behind_word(match: re.Match[str]) -> str:
    return f"{match.group(1)} {numbers.digits(match.group(2))}"


def _digits(match: re.Match[str]) -> str:
    return numbers.digits(match.group())


def _order(match: re.Match[str]) -> str:
    return "number " + numbers.digits(match.group(1))


_DIALLED = r"[Dd]ial(?:ed|ing)?|[Cc]all(?:ed|ing)?|[Tt]ext|[Ee]xt(?:ension)?\.?"
_CODED = r"(?:[Cc]ode|PIN|ZIP|[Zz]ip|[Pp]asscode|[Pp]assword|[Cc]onfirmation(?: number)?)(?: is|:)?"


def _extension(match: re.Match[str]) -> str:
    return f"extension {numbers.digits(match.group(1))}"


RULES: tuple[tuple[re.Pattern[str], Replace], ...] = (
    (re.compile(r"(?<![\w.])\+\d{1,3}(?:[ .-]\(?\d{1,8}\)?){1,5}(?![\w-])"), _phone),
    (re.compile(r"(?<![\w.+-])(?:\+?1[ .-])?\(\d{3}\) ?\d{3}[ .-]\d{4}(?![\w-])"), _phone),
    (re.compile(r"(?<![\w.+-])(?:1[- ])?\d{3}([-. ])\d{3}\1\d{4}(?![\w-]|[., ]\d)"), _phone),
    (re.compile(r"(?<![\w.+-])\d{3}-\d{4}(?![\w-])"), _phone),
    (re.compile(rf"\b({_DIALLED}|{_CODED}) (\d{{3,12}})\b(?![.,]\d)"), _behind_word),
    (re.compile(r"\b[Ee]xt\.? ?(\d{1,6})\b"), _extension),
    (re.compile(r"(?<![\w.,])[49]11\b(?![.,]\d)"), _digits),
    (re.compile(r"(?<![\w.])#(\d{4,})\b"), _order),
)
