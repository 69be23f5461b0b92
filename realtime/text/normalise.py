"""Text as people write it -> words to say, with a way back to the written characters.

Works on one segment at a time and knows nothing of streams: `realtime.text.scanner` never ends a
segment inside something that these rules would read as one. American English.
"""

from realtime.text import clean
from realtime.text.alignment import AlignedText
from realtime.text.rules import (
    addresses,
    arithmetic,
    dates,
    fractions,
    money,
    names,
    quantities,
    telephone,
)

_READINGS = (
    *addresses.RULES,
    *dates.RULES,
    *money.RULES,
    *names.NAME_RULES,
    *telephone.RULES,
    *quantities.RULES,
    *fractions.RULES,
    *arithmetic.RULES,
    *quantities.NUMBER_RULES,
    *names.SYMBOL_RULES,
)


def normalise(source: str, offset: int = 0) -> AlignedText:
    """Rewrite ``source`` into words, apostrophes, hyphens and the marks that shape prosody.

    Args:
        source: one segment of the caller's text.
        offset: offset of its first character in the caller's whole text, in code points.

    Returns:
        The words with the source span of each character; its text is empty when nothing is to be
        said. Initialisms stay as the lexicon spells them ("FBI", "P.M").
    """
    text = AlignedText(source, offset)
    clean.clean_characters(text)
    clean.clean_markup(text)
    clean.squeeze_spaces(text)
    for pattern, reading in _READINGS:
        text.sub(pattern, reading)
    clean.clean_leftovers(text)
    return text
