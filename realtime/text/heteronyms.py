# ruff: noqa: RUF001, SIM905
"""Words that are spelled alike and said differently, where their neighbours tell which.

The grapheme-to-phoneme library chooses by part of speech; here is what it gets wrong: meanings that
share a part of speech ("a lead pipe") and verbs it takes for nouns ("I object"). American English.
"""

from collections.abc import Callable

Rule = Callable[[str, str], bool]  # of the words before and behind, lower case

_DETERMINERS = frozenset(
    ("the a an this that these those my your his her its our their no some any each every").split()
)
_BEFORE_VERBS = frozenset(
    (
        "i you we they to will would can could shall should may might must not never don't "
        "doesn't didn't won't wouldn't can't couldn't i'll you'll we'll they'll he'll she'll "
        "let's"
    ).split()
)
_BEFORE_PAST = frozenset(("i you he she it we they who and had has have was were been be").split())
_BEFORE_STATES = frozenset(
    (
        "am are was were be been being is i'm you're we're they're he's she's feel feels felt "
        "feeling seem seems seemed quite very perfectly"
    ).split()
)
_METAL = frozenset(
    (
        "pipe pipes poisoning paint paints acid bullet bullets shot weight weights apron glass "
        "ore mine mines battery batteries solder dust crystal exposure contamination oxide roof"
    ).split()
)
_TINY = frozenset(
    (
        "detail details amount amounts quantity quantities particle particles difference "
        "differences trace traces change changes fraction cracks"
    ).split()
)
_WOUND_ALONG = frozenset(("up", "down", "around", "along", "through", "its", "it"))
_WOUND_THINGS = frozenset(("the", "your", "my", "his", "her", "our", "it", "up"))


def _is_verb(before: str, behind: str) -> bool:
    return before in _BEFORE_VERBS


def _is_state(before: str, behind: str) -> bool:
    return before in _BEFORE_STATES


def _winds(before: str, behind: str) -> bool:
    starts = before in ("", "and", "then", "please")
    return before in _BEFORE_VERBS or (starts and behind in _WOUND_THINGS)


def _has_wound(before: str, behind: str) -> bool:
    return before in _BEFORE_PAST and behind in _WOUND_ALONG


_RULES: dict[str, tuple[tuple[Rule, str], ...]] = {
    "lead": ((lambda before, behind: behind in _METAL, "lˈɛd"),),
    "wind": ((_winds, "wˈInd"),),
    "wound": ((_has_wound, "wˈWnd"),),
    "object": ((_is_verb, "əbʤˈɛkt"),),
    "desert": ((_is_verb, "dəzˈɜɹt"),),
    "content": ((_is_state, "kəntˈɛnt"),),
    "minute": ((lambda before, behind: behind in _TINY, "mInˈut"),),
    "resume": ((lambda before, behind: before in _DETERMINERS, "ɹˈɛzəmˌA"),),
    "bow": (
        (lambda before, behind: behind in ("down", "before", "out"), "bˈW"),
        (_is_verb, "bˈW"),
    ),
    "sow": ((lambda before, behind: before not in _DETERMINERS, "sˈO"),),
}


def pronounce(word: str, before: str, behind: str) -> str | None:
    """Phonemes of ``word`` between its neighbours; `None` leaves it to the library.

    Args:
        word: in any case.
        before: the word before it, empty at the beginning.
        behind: the word behind it, empty at the end.
    """
    for applies, phonemes in _RULES.get(word.lower(), ()):
        if applies(before.lower(), behind.lower()):
            return phonemes
    return None
