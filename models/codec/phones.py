"""The sounds that the codes of the finest level name, each in several variants.

A code that says which sound is being made keeps speech intelligible at 738 bits a second, and
makes the codes easy to predict from phonemes; the coarser levels carry pitch, level and colour.
(Supervised tokens in the sense of CosyVoice.)
"""

# ruff: noqa: RUF001  phonetic symbols

PAUSE = 0
# every symbol of the phoneme alphabet that sounds by itself; the class of a symbol is its index + 1
PHONES = "əɹntsɪdlkiðɛæzmʌpɔfvbwIAɑhOuᵊɐŋjɡTʃɜʤʊWʧθᵻYʒɾʔx"
VARIANTS = 10  # codes of each sound
PHONE_SIZE = 48  # width of the decoder's table of sounds
NUM_PHONES = len(PHONES) + 1

_CLASSES = {symbol: i + 1 for i, symbol in reversed(list(enumerate(PHONES)))}


def phone_class(symbol: str) -> int | None:
    """Class of a phoneme symbol; None for stress marks, spaces and punctuation."""
    if symbol in _CLASSES:
        return _CLASSES[symbol]
    return _CLASSES["ə"] if symbol.isalpha() and symbol not in "ˈˌːʰʲ" else None
