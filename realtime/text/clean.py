# ruff: noqa: RUF001
"""Removes what is not read aloud: control characters, emoji, markup, foreign scripts, symbols.

The first half works on single characters, the second on markdown and tags inside one segment. It
leaves numbers, abbreviations and addresses as written; `realtime.text.normalise` reads those.
"""

import re
import unicodedata
from functools import lru_cache

from realtime.text.alignment import AlignedText

# Typographic variants -> the form that the rules and the lexicon know.
_VARIANTS = {
    **dict.fromkeys("\t\n\v\f\r\x85\u2028\u2029", " "),
    **dict.fromkeys("‘’ʼ′＇`´", "'"),
    "`": "`",
    **dict.fromkeys("„‟«»″", '"'),
    **dict.fromkeys("‐‑‒−⁃﹣－", "-"),
    **dict.fromkeys("―⸺⸻", "—"),
    **dict.fromkeys("•‣◦▪●∙■◆►", "•"),
    **dict.fromkeys("。｡．", "."),
    **dict.fromkeys("，、､", ","),
    "！": "!",
    "？": "?",
    "：": ":",
    "；": ";",
    "؟": "?",
    "،": ",",
    "·": "•",
    "µ": "μ",
    "\u202f": " ",
    "⁄": "/",
    "∕": "/",
    "æ": "ae",
    "Æ": "Ae",
    "œ": "oe",
    "Œ": "Oe",
    "ß": "ss",
    "ø": "o",
    "Ø": "O",
    "ł": "l",
    "Ł": "L",
}
# Symbols that some rule reads; every other symbol, emoji among them, is dropped.
_READ_SYMBOLS = frozenset("¢£€¥₹₩₽₺₪₿฿₫₦₱°©±×÷→≤≥≠≈§√∞½¼¾⅓⅔⅛⅜⅝⅞²³–—…“”•")
# Format and control characters, marks without their letter, modifiers such as skin tones.
_INVISIBLE = frozenset(("Cf", "Cc", "Mn", "Me", "Mc", "Sk"))
_GREEK = range(0x370, 0x400)


@lru_cache(maxsize=4096)
def clean_character(character: str) -> str:
    """What one source character contributes: itself, a plain equivalent, a space or nothing."""
    if character in _VARIANTS:
        return _VARIANTS[character]
    if " " <= character <= "~" or character in _READ_SYMBOLS:
        return character
    category = unicodedata.category(character)
    if category == "Nd":
        return str(unicodedata.decimal(character))
    if category[0] == "L" or category in ("Nl", "No"):
        return _clean_letter(character)
    return "" if category in _INVISIBLE else " "


def count_unspoken(before: str, character: str) -> int:
    """Letters that are known to be left out once ``character`` is.

    Those of scripts that nobody has taught the voice; a Greek letter is read by its name, a Greek
    word is not.

    Args:
        before: the two characters before it, or as many as there are.
        character: the next one.
    """
    if character <= "\x7f" or not character.isalpha():
        return 0
    if ord(character) in _GREEK:
        run = [ord(letter) in _GREEK for letter in before[::-1]]
        return 0 if not run or not run[0] else 1 if all(run[1:]) and len(run) > 1 else 2
    return int(not clean_character(character).strip())


def _clean_letter(letter: str) -> str:
    if ord(letter) in _GREEK or ord(letter) < 0x250:
        return letter
    # Latin letters in other clothes: full width, mathematical, ligatures, stacked accents.
    plain = unicodedata.normalize("NFKC", letter)
    if plain.isascii():
        return plain
    base = unicodedata.normalize("NFKD", letter)[0]
    return base if base.isascii() else " "


_COMBINED = re.compile(r"[A-Za-z][\u0300-\u036f]+")
_POWER = re.compile(r"(?<=[\w)])[⁰¹²³⁴-⁹⁻⁺]*[⁰⁴-⁹⁻][⁰¹²³⁴-⁹⁻]*")
_PLAIN_POWER = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_SURROGATES = re.compile(r"[\ud800-\udfff]")
_SPACES = re.compile(r"\s+")


def _compose(match: re.Match[str]) -> str:
    composed = unicodedata.normalize("NFC", match.group())
    return composed if len(composed) == 1 else match.group()[0]


def clean_characters(text: AlignedText) -> None:
    """Leave only characters that some later rule or the lexicon knows."""
    text.sub(_SURROGATES, lambda _: " ")
    text.sub(_COMBINED, _compose)
    text.sub(_POWER, lambda match: "^" + match.group().translate(_PLAIN_POWER))
    text.map_characters(clean_character)


def squeeze_spaces(text: AlignedText) -> None:
    """One space between words."""
    text.sub(_SPACES, lambda _: " ")


_STAGE_WORDS = (
    r"(?:(?:laugh|sigh|gasp|cough|chuckl|giggl|whisper|paus|sob|groan|yawn|sniff|shout|cry|sing|smil)"
    r"(?:s|es|ing)?|whispered|laughter|pause|giggle|chuckle|smile|cries|applause|music|beat|silence"
    r"|clears throat|softly|quietly|loudly|sarcastically|nervously|excitedly|angrily|sadly)"
)
# (pattern, what stays): in this order, over one segment.
_MARKUP: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"<!--[^<>]{0,500}-->|</?[A-Za-z][^<>]{0,500}>"), " "),
    (re.compile(r"!?\[([^\[\]]{0,300})\](?:\([^()\s]{0,500}\)|\[[^\[\]]{0,100}\])"), r"\1"),
    (re.compile(rf"\[(?:[a-z]+ )?(?:{_STAGE_WORDS}|[a-z]+(?:ing|ly))(?: [a-z]+)?\]"), " "),
    (
        re.compile(
            rf"(?<!\S)\({_STAGE_WORDS}(?: [a-z]+ly)?\)"
            rf"|(?<!\S)\*{_STAGE_WORDS}(?: [a-z]+ly)?\*(?!\S)"
        ),
        " ",
    ),
    (re.compile(r"&nbsp;|&#160;"), " "),
    (re.compile(r"&amp;"), "&"),
    (re.compile(r"&lt;"), "<"),
    (re.compile(r"&gt;"), ">"),
    (re.compile(r"&quot;"), '"'),
    (re.compile(r"[-=]>"), "→"),
    (re.compile(r"!=|<>"), "≠"),
    (re.compile(r"<="), "≤"),
    (re.compile(r">="), "≥"),
    (re.compile(r"(?<!=)==(?!=)"), "="),
    (re.compile(r"\A\s*#{1,6} +|\A\s*(?:[-*+•–—>]\s+)+(?:\[[ xX]\] )?"), ""),
    (re.compile(r"`+(?:(?<=```)[a-z]+(?=\s))?"), ""),
    (re.compile(r"\\(?=[^\w\s])"), ""),
    (re.compile(r"(?<![\w*])\*{1,3}(?=[^\s*])|(?<=[^\s*])\*{1,3}(?![\w*])|~~"), ""),
    (
        re.compile(
            r"(?<![\w.])_{1,3}(?=[^\W_])|(?<=[^\W_])_{1,3}(?!\w)|(?<=[.!?,])_{1,3}(?=\s|\Z)"
        ),
        "",
    ),
    (re.compile(r"[-*_=~]{3,}|([#%&@^|+<>×€£¥$])\1{2,}"), " "),  # rules and decoration
    (re.compile(r"\|[\s|]*+"), ", "),
    (re.compile(r"•"), ", "),
)


def clean_markup(text: AlignedText) -> None:
    """Remove markdown, tags and stage directions, keeping the words they dress."""
    for pattern, stays in _MARKUP:
        text.sub(pattern, lambda match, stays=stays: match.expand(stays))


_PUNCTUATION_RUN = re.compile(r"[.!?,;:…—–](?:[ ]?[.!?,;:…—–])+")
_NOT_READ = re.compile(r"[^A-Za-zÀ-ɏ0-9 ;:,.!?—…\"“”()'\-]")
_EMPTY_BRACKETS = re.compile(r"\([ ,.]*\)|\"[ ]*\"|“[ ]*”")
_LOOSE_HYPHEN = re.compile(r"(?<=\s)-+(?=\s)|–|--+")
_EDGE_HYPHEN = re.compile(r"(?<![A-Za-zÀ-ɏ0-9.,])-+|-+(?![A-Za-zÀ-ɏ0-9])")
_LOOSE_QUOTE = re.compile(r"(?<![A-Za-zÀ-ɏ0-9])'+(?![A-Za-zÀ-ɏ0-9])")
# A quotation in single marks; "'em" and "'tis" are words, "dogs'" and "goin'" have no opening one.
_OPENING_QUOTE = re.compile(
    r"(?<![\w'])'(?!(?:em|tis|twas|til|cause|cuz|bout|round|n)\b)(?=\w(?:[^'\n]|'(?=\w)){0,120}'(?!\w))",
    re.IGNORECASE,
)
_CLOSING_QUOTE = re.compile(r"(?<=[\w.,!?])'(?!\w)")
_APOSTROPHE = re.compile("'")
_SPACED_STOP = re.compile(r" (?=[,.;:!?…])")
_LEADING = re.compile(r"\A[\s,;:.!?…—\-)]+")


def _join_punctuation(match: re.Match[str]) -> str:
    """One mark for a run: the strongest wins, two or more full stops are an ellipsis."""
    run = match.group().replace(" ", "")
    for mark in "?!":
        if mark in run:
            return mark
    if "…" in run or ".." in run:
        return "…"
    return next((mark for mark in ".—;:," if mark in run), "—")


def _drop_single_quotes(text: AlignedText) -> None:
    """The marks around a quotation, which would else be read as part of its first and last word."""
    marks: set[int] = set()
    for opening in _OPENING_QUOTE.finditer(text.text):
        closing = _CLOSING_QUOTE.search(text.text, opening.end())
        if closing is not None:
            marks |= {opening.start(), closing.start()}
    if marks:
        text.sub(_APOSTROPHE, lambda match: "" if match.start() in marks else None)


def clean_leftovers(text: AlignedText) -> None:
    """After all readings: only letters, digits and the marks that shape prosody remain."""
    text.sub(_NOT_READ, lambda match: "—" if match.group() == "–" else " ")
    squeeze_spaces(text)
    text.sub(_LOOSE_HYPHEN, lambda _: "—")
    text.sub(_EDGE_HYPHEN, lambda _: " ")
    text.sub(_LOOSE_QUOTE, lambda _: " ")
    _drop_single_quotes(text)
    text.sub(_EMPTY_BRACKETS, lambda _: " ")
    squeeze_spaces(text)
    text.sub(_SPACED_STOP, lambda _: "")
    text.sub(_PUNCTUATION_RUN, _join_punctuation)
    text.sub(_LEADING, lambda _: "")
