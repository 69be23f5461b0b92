"""Phoneme strings to token ids. Knows the symbols of one voice; nothing about text."""

# ruff: noqa: RUF001  phonetic symbols

from collections.abc import Iterable

PAD_ID = 0
# the misaki / Kokoro alphabet as hibari speaks it, in its order
PHONEME_SYMBOLS = (
    ';:,.!?—…"()“” ̃ʣʥʦʨᵝꭧAIOQSTWYᵊabcdefhijklmnopqrstuvwxyzɑɐ'
    "ɒæβɔɕçɖðʤəɚɛɜɟɡɥɨɪʝɯɰŋɳɲɴøɸθœɹɾɻʁɽʂʃʈʧʊʋʌɣɤχʎʒʔˈˌːʰʲ↓→↗↘ᵻ"
)


class UnknownSymbolError(ValueError):
    """A phoneme string holds a symbol that the voice was not trained on."""

    def __init__(self, symbol: str) -> None:
        super().__init__(f"the voice knows no phoneme symbol {symbol!r} (U+{ord(symbol):04X})")
        self.symbol = symbol


class PhonemeTokenizer:
    """Maps each symbol of a phoneme string to one id; ids start at 1 in the order of `symbols`."""

    def __init__(self, symbols: str = PHONEME_SYMBOLS) -> None:
        self.symbols = symbols
        self._ids = {symbol: i + 1 for i, symbol in enumerate(symbols)}

    @property
    def num_ids(self) -> int:
        """Ids in use, padding included."""
        return len(self.symbols) + 1

    def encode(self, phonemes: str) -> list[int]:
        """Return one id per symbol.

        Raises:
            UnknownSymbolError: A symbol is not in the alphabet.
        """
        try:
            return [self._ids[symbol] for symbol in phonemes]
        except KeyError as error:
            raise UnknownSymbolError(error.args[0]) from None

    def known(self, phonemes: Iterable[str]) -> str:
        """Return `phonemes` without the symbols that the voice does not know."""
        return "".join(symbol for symbol in phonemes if symbol in self._ids)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the phoneme string of `ids`."""
        return "".join(self.symbols[i - 1] for i in ids)
