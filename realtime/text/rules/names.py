# ruff: noqa: RUF001
"""Titles, streets, initials, abbreviations, Roman numerals and the symbols that are left."""

import re
from collections.abc import Iterable
from itertools import pairwise

from realtime.text import numbers, tables
from realtime.text.alignment import Replace


def _alternatives(words: Iterable[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


_SHORT_MONTH = _alternatives(
    {short.capitalize() for short in tables.MONTH_BY_ABBREVIATION} - {"May"}
)
# Up to 399; a single L or C is more often a letter ("Section C").
_ROMAN = r"(?=[IVX]|[LC][IVXLC])(C{0,3}(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3}))"
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
_VERB = re.compile(r" (?!of\b|was\b|is\b|and\b|ruled\b|had\b|who\b)[a-z]")
_NAME = r"[A-Z][a-z]+"


def roman_value(numeral: str) -> int:
    """Value of a Roman numeral below four hundred."""
    values = [_ROMAN_VALUES[letter] for letter in numeral] + [0]
    return sum(-v if v < following else v for v, following in pairwise(values))


def _keep_stop(match: re.Match[str], words: str) -> str:
    """Abbreviation's words, with the full stop that also ends the text."""
    ends_text = not match.string[match.end() :].strip(" \"'”’)")
    return words + "." if match.group().endswith(".") and ends_text else words


def _capitalised_like(match: re.Match[str], words: str) -> str:
    return words.capitalize() if match.group()[0].isupper() else words


def _title(match: re.Match[str]) -> str:
    return tables.TITLES[match.group(1)].capitalize()


def _street(match: re.Match[str]) -> str:
    return _keep_stop(match, f"{match.group(1)} {tables.STREETS[match.group(2)].capitalize()}")


def _abbreviation(match: re.Match[str]) -> str:
    return _keep_stop(match, _capitalised_like(match, tables.ABBREVIATIONS[match.group()]))


def _numbered(match: re.Match[str]) -> str:
    return _capitalised_like(match, tables.NUMBERED[match.group(1).lower()]) + " "


def _month(match: re.Match[str]) -> str:
    return _keep_stop(match, tables.MONTH_BY_ABBREVIATION[match.group(1).lower()])


def _initials(match: re.Match[str]) -> str:
    return match.group().replace(".", "")


def _dotted(match: re.Match[str]) -> str:
    letters = match.group().replace(".", "")
    return _keep_stop(match, ".".join(letters.upper()))


def _roman_cardinal(match: re.Match[str]) -> str | None:
    if match.group(1).lower() not in tables.ROMAN_CARDINAL:
        return None
    return f"{match.group(1)} {numbers.cardinal(str(roman_value(match.group(2))))}"


def _roman_ordinal(match: re.Match[str]) -> str | None:
    name, numeral = match.groups()
    is_pronoun = numeral == "I" and _VERB.match(match.string, match.end())
    if name not in tables.ROMAN_ORDINAL or is_pronoun:
        return None
    return f"{name} the {numbers.ordinal(str(roman_value(numeral)))}"


def _roman_century(match: re.Match[str]) -> str:
    return numbers.ordinal(str(roman_value(match.group(1))))


def _small_roman(match: re.Match[str]) -> str | None:
    if match.group(1).lower() not in tables.ROMAN_CARDINAL:
        return None
    return f"{match.group(1)} {numbers.cardinal(str(roman_value(match.group(2).upper())))}"


def _letters(match: re.Match[str]) -> str:
    return ".".join(match.group().upper())


def _shouting(match: re.Match[str]) -> str:
    return match.group().lower()


def _or(match: re.Match[str]) -> str:
    return ("he" if len(match.group(1)) == 1 else match.group(1)) + " or "


def _per(match: re.Match[str]) -> str:
    return " per " + tables.PERIODS[match.group(1)]


def _symbol(match: re.Match[str]) -> str:
    return f" {tables.SYMBOLS[match.group()]} "


def _greek(match: re.Match[str]) -> str:
    if len(match.group()) > 1:
        return " "
    return " " + tables.GREEK.get(match.group().lower(), "") + " "


NAME_RULES: tuple[tuple[re.Pattern[str], Replace], ...] = (
    (
        re.compile(rf"(?<=\d )({_NAME}(?: {_NAME})?) ({_alternatives(tables.STREETS)})\b\.?"),
        _street,
    ),
    (re.compile(rf"\b({_alternatives(tables.TITLES)})\.?(?= [A-Z])"), _title),
    (re.compile(r"\b(Mr|Mrs|Ms|Dr)\.(?= and | or )"), _title),
    (
        re.compile(rf"({_NAME}(?:'s)?) ({_alternatives(tables.STREETS)})\b\.?(?! [A-Z])"),
        _street,
    ),
    (
        re.compile(rf"(?<![\w.])(?<!\d )(?:{_alternatives(tables.ABBREVIATIONS)})(?!\w)"),
        _abbreviation,
    ),
    (re.compile(rf"\b({_alternatives(tables.NUMBERED)})\. ?(?=\d)", re.IGNORECASE), _numbered),
    (re.compile(r"\b([Vv]ol|[Cc]h|[Ff]ig|[Ss]ec|[Aa]rt)\. ?(?=(?:[IVXLC]{2,}|[VX])\b)"), _numbered),
    (re.compile(rf"\b({_SHORT_MONTH})\.(?!\w)"), _month),
    (re.compile(r"(?<![\w.])[A-Z]\.(?: ?[A-Z]\.){0,5} (?=[A-Z][a-z])"), _initials),
    (re.compile(r"(?<![\w.])(?:[A-Za-z]\.){2,}(?!\w)"), _dotted),
    (re.compile(rf"\b{_ROMAN}(?<=\w)(?= [Cc]entur(?:y|ies)\b)"), _roman_century),
    (re.compile(rf"\b([A-Za-z]+) {_ROMAN}(?<=\w)\b(?![.-]\w|'(?!s\b)\w)"), _roman_cardinal),
    (re.compile(rf"\b([A-Z][a-z]+) {_ROMAN}(?<=\w)\b(?![.-]\w|'(?!s\b)\w)"), _roman_ordinal),
    (re.compile(r"\b([A-Za-z]+) (ii|iii|iv|vi{1,3}|ix|xi{0,3}|xiv|xv)\b(?!['-])"), _small_roman),
    (re.compile(r"\bPh\. ?D\b\.?"), lambda match: _keep_stop(match, "P.H.D")),
    (re.compile(r"\b(?:[PM]h|[BM])D(?!\w)|\b(?:MSc|BSc|LLC|LLM)(?!\w)"), _letters),
    # "CO2", "PM2.5", "GPT-4": letters in front of a number are a name, not a word.
    (re.compile(r"(?<!\w)[A-Z]{2,3}(?=-?\d)"), _letters),
)
SYMBOL_RULES: tuple[tuple[re.Pattern[str], Replace], ...] = (
    (re.compile(r"\bw/o\b"), lambda _: "without "),
    (re.compile(r"\bw/ ?"), lambda _: "with "),
    (re.compile(r"\bc/o\b"), lambda _: "care of"),
    (re.compile(r"\band/or\b"), lambda _: "and or"),
    (
        re.compile(r"\b([Hh]e|[Ss]he|[Hh]is|[Hh]im|[Hh]ers?|[Ss])/(?=s?he\b|hers?\b|his\b|him\b)"),
        _or,
    ),
    (re.compile(r"\b[Vv]s\b\.?"), lambda _: "versus"),
    (re.compile(r"\b([A-G])#(?!\w)"), lambda match: match.group(1) + " sharp"),
    (re.compile(r"(?<!\S)\.(?=[A-Za-z]{2})"), lambda _: "dot "),
    (re.compile(r" ?/ ?(?=(?:day|night|week|month|year|hour|minute|person)\b)"), lambda _: " per "),
    (re.compile(r"(?<=\w) ?/ ?(hr|h|mo|yr|wk|min|sec)\b\.?"), _per),
    (re.compile(r"(?<=[A-Za-z])/(?=[A-Za-z])"), lambda _: " slash "),
    (re.compile(r"(?<![\w~])~ ?(?=\w)"), lambda _: "about "),
    (re.compile(r"[\u0370-\u03ff]+"), _greek),
    (re.compile(f"[{re.escape(''.join(tables.SYMBOLS))}]"), _symbol),
    (re.compile(r"(?<![\w'])[A-Z]{2,}(?: [A-Z]{2,}){2,}(?![\w'])"), _shouting),
)
