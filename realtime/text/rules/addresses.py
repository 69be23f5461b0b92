"""E-mail addresses, URLs, domains, file names, versions, hashtags and handles."""

import re

from realtime.text import numbers, tables
from realtime.text.alignment import Replace

_DOMAINS = "|".join(tables.TOP_LEVEL_DOMAINS)
_EXTENSIONS = "|".join(tables.FILE_EXTENSIONS)
_PIECE = re.compile(r"[A-Za-zÀ-ɏ]+|[0-9]+|[^\sA-Za-zÀ-ɏ0-9]")
_CAMEL = re.compile(r"(?<=[a-zß-ÿ])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_VOWEL = re.compile(r"[aeiouyAEIOUY]")
_HOST = re.compile(r"[^A-Z/?#]+(?:[/?#]|\Z)")  # "End.In" is no address
_TRAILING = re.compile(r"[.,;:!?)\]'\"]+\Z")


def initials(letters: str) -> str:
    """Letters to be said one by one, in the form that the lexicon spells: "py" -> "P.Y"."""
    return ".".join(letters.upper())


def _say_letters(letters: str, *, is_last: bool) -> str:
    if letters.lower() == "www":
        return "W W W"
    label = letters.lower()
    spelled = len(letters) > 1 and (
        not _VOWEL.search(letters) or (is_last and label in tables.SPELLED_ENDINGS)
    )
    return initials(letters) if spelled else _CAMEL.sub(" ", letters)


def _say_digits(digits: str) -> str:
    return numbers.cardinal(digits) if len(digits) <= 2 else numbers.digits(digits)


def spell_address(address: str) -> str:
    """Words for an address: letters as words, digits in ones and twos, symbols by name."""
    pieces = _PIECE.findall(address)
    spoken: list[str] = []
    for index, piece in enumerate(pieces):
        if piece[0].isalpha():
            spoken.append(_say_letters(piece, is_last=index == len(pieces) - 1 and index > 0))
        elif piece[0].isdecimal():
            spoken.append(_say_digits(piece))
        else:
            spoken.append(tables.ADDRESS_SYMBOLS.get(piece, ""))
    return " ".join(word for word in spoken if word)


def _address(match: re.Match[str]) -> str:
    whole = match.group()
    trailing = _TRAILING.search(whole)
    behind = trailing.group() if trailing else ""
    address = whole[: len(whole) - len(behind)]
    address = re.sub(r"\A[A-Za-z]{2,6}://", "", address).rstrip("/")
    return spell_address(address) + behind


def _version(match: re.Match[str]) -> str:
    parts = match.group("parts").split(".")
    separator = " dot " if len(parts) > 3 else " point "
    spoken = separator.join(numbers.cardinal(part) for part in parts)
    return f"version {spoken}" if match.group("v") else spoken


def _hashtag(match: re.Match[str]) -> str:
    return "hashtag " + spell_address(match.group(1))


def _handle(match: re.Match[str]) -> str:
    return "at " + spell_address(match.group(1))


RULES: tuple[tuple[re.Pattern[str], Replace], ...] = (
    (re.compile(r"\b(?:https?|ftp)://[^\s<>\"]++|(?<![\w.@])www\.[^\s<>\"]++"), _address),
    (re.compile(r"\blocalhost(?::\d{2,5})?(?:/[^\s<>\"]*+)?"), _address),
    (re.compile(r"(?<![\w.+-])[\w.+-]++@[A-Za-z0-9-]++(?:\.[A-Za-z0-9-]++)+"), _address),
    (
        re.compile(
            rf"(?<![\w.@-])(?:[A-Za-z0-9-]++\.)+(?:{_DOMAINS})\b(?:[/?#][^\s<>\"]*+)?(?![\w@])"
        ),
        lambda match: _address(match) if _HOST.match(match.group()) else None,
    ),
    (
        re.compile(rf"(?<![\w./-])(?:~?/)?(?:[\w-]++[./])*?[\w-]++\.(?:{_EXTENSIONS})\b(?![\w@])"),
        lambda match: spell_address(match.group()),
    ),
    (
        re.compile(
            r"(?<![\w./-])(?P<v>[vV]\.? ?)?(?!\d{3}\.\d{3}\.\d{4}\b)"
            r"(?P<parts>\d{1,6}(?:\.\d{1,6}){2,})(?![\w.]\w)\b"
        ),
        _version,
    ),
    (re.compile(r"(?<![\w./-])(?P<v>[vV])(?P<parts>\d{1,6}(?:\.\d{1,6})?)\b(?!\.\d)"), _version),
    (re.compile(r"(?<![\w&#])#([A-Za-z]\w*)"), _hashtag),
    (re.compile(r"(?<![\w.])@([A-Za-z]\w*)"), _handle),
)
