"""Phoneme strings to ids."""

# ruff: noqa: RUF001  phonetic symbols

import pytest

from models.tokenizer import PAD_ID, PHONEME_SYMBOLS, PhonemeTokenizer, UnknownSymbolError


def test_every_symbol_has_its_own_id_above_padding() -> None:
    ids = PhonemeTokenizer().encode(PHONEME_SYMBOLS)
    assert ids == list(range(1, len(PHONEME_SYMBOLS) + 1))
    assert PAD_ID not in ids


def test_ids_turn_back_into_the_string() -> None:
    tokenizer = PhonemeTokenizer()
    said = "həlˈO, wˈɜɹld!"
    assert tokenizer.decode(tokenizer.encode(said)) == said


def test_an_unknown_symbol_is_named() -> None:
    with pytest.raises(UnknownSymbolError, match="U\\+0416") as caught:
        PhonemeTokenizer().encode("həlЖ")
    assert caught.value.symbol == "Ж"


def test_unknown_symbols_can_be_dropped() -> None:
    assert PhonemeTokenizer().known("həЖl") == "həl"
