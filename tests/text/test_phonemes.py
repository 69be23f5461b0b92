# ruff: noqa: RUF001
import threading
from pathlib import Path

import pytest
from hibari import Hibari
from hypothesis import example, given, settings
from hypothesis import strategies as st

from realtime.errors import UnspeakableTextError
from realtime.text.normalise import normalise
from realtime.text.phonemes import load_alphabet
from realtime.text.segment import SegmentPolicy, TextStream

SENTENCES = (Path(__file__).parents[1] / "data" / "sentences.txt").read_text().splitlines()


@pytest.fixture(scope="module")
def teacher():
    return Hibari()


def test_phonemes_are_those_of_the_voices_teacher(front_end, teacher):
    for line in SENTENCES:
        for sentence in Hibari.split_sentences(line):
            assert [front_end.read(sentence).phonemes] == teacher.phonemize(sentence)


@pytest.mark.parametrize("line", [line for line in SENTENCES if len(line) > 250][:5])
def test_streamed_sentences_have_the_teachers_phonemes(front_end, teacher, line):
    policy = SegmentPolicy(first_min_chars=400, first_max_chars=400, max_chars=400)
    stream = TextStream(front_end, policy)
    released = stream.push(line) + stream.end()
    assert [s.phonemes for s in released] == teacher.phonemize(line)
    assert all(s.ends_sentence for s in released)


def test_offsets_count_from_the_first_phoneme_behind_a_word_that_has_none(front_end):
    reading = front_end.read("È0A")
    last = reading.words[-1]
    assert reading.phonemes[last.phoneme_offset :] == "ɐ"


@example("È0A")
@given(st.text(max_size=80))
@settings(max_examples=150, deadline=None)
def test_any_text_gives_only_symbols_of_the_alphabet(front_end, text):
    reading = front_end.read(text, 10)
    assert set(reading.phonemes) <= load_alphabet()
    offsets = [word.phoneme_offset for word in reading.words]
    assert offsets == sorted(offsets)
    assert bool(reading.words) == bool(reading.phonemes)
    for word in reading.words:
        assert 0 <= word.phoneme_offset < len(reading.phonemes)
        assert 10 <= word.start < word.end <= 10 + len(text)


@pytest.mark.parametrize(
    "unit", ["a-", "a'", "A", "9", "a.", "é", "q/", "$1 ", "x", "\u0301a", "[a](/b/)"]
)
def test_hostile_segments_are_read(front_end, unit):
    reading = front_end.read(unit * (240 // len(unit)))
    assert set(reading.phonemes) <= front_end.alphabet


def test_phonemes_cannot_be_smuggled_in_by_markup(front_end):
    assert front_end.read("[word](/zzzz/)").phonemes == front_end.read("word").phonemes


def test_words_carry_their_phoneme_offset_and_span(front_end):
    source = "Pay $5 to Al."
    reading = front_end.read(source)
    pieces = [source[word.start : word.end] for word in reading.words]
    assert pieces == ["Pay", "$5", "$5", "to", "Al"]
    assert reading.phonemes[reading.words[1].phoneme_offset :].startswith("fˈIv")


def test_full_stop_of_an_abbreviation_still_closes_the_sentence(front_end):
    assert front_end.read("Be there at 5 p.m.").phonemes.endswith(".")


def test_failure_inside_the_lexicon_is_a_typed_error(front_end, monkeypatch):
    def fail(text):
        raise KeyError(text)

    monkeypatch.setattr(front_end._g2p, "tokenize", fail)
    with pytest.raises(UnspeakableTextError, match="characters 7 to 12"):
        front_end.read("Hello", 7)


def test_front_end_may_be_shared_by_threads(front_end):
    lines = SENTENCES[:20]
    expected = [front_end.read(line) for line in lines]
    results = {}

    def read(name):
        results[name] = [front_end.read(line) for line in lines]

    threads = [threading.Thread(target=read, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(results[name] == expected for name in range(4))


HOSTILE = ["1-1-1-", "<<<<", "-1", "1e1 ", "x<1>", "$1", "1.1.", "%%", "€", "W ", "9", "a-"]


@pytest.mark.parametrize("unit", HOSTILE)
def test_dense_text_is_read_once_in_parts_that_are_short_enough(front_end, monkeypatch, unit):
    tokenized = []
    tokenize = front_end._g2p.tokenize

    def counting(text):
        tokenized.append(len(text))
        return tokenize(text)

    monkeypatch.setattr(front_end._g2p, "tokenize", counting)
    source = (unit * 240)[:240]
    parts = front_end.read_parts(source, 100, 400)
    assert sum(tokenized) <= 1.1 * len(normalise(source).text) + 10
    offsets = [end for _, end in parts]
    assert offsets == sorted(offsets)
    assert not offsets or 100 < offsets[-1] <= 100 + len(source)
    for reading, end in parts:
        assert 0 < len(reading.phonemes) <= 400
        assert all(100 <= word.start <= word.end <= end for word in reading.words)


@pytest.mark.parametrize("unit", HOSTILE)
def test_words_looked_up_grow_no_faster_than_the_text(front_end, monkeypatch, unit):
    counts = []
    lexicon = front_end._g2p.lexicon

    class Counting:
        def __call__(self, *arguments, **named):
            counts[-1] += 1
            return lexicon(*arguments, **named)

        def __getattr__(self, name):
            return getattr(lexicon, name)

    monkeypatch.setattr(front_end._g2p, "lexicon", Counting())
    for length in (120, 240):
        counts.append(0)
        front_end.read_parts((unit * length)[:length], 0, 400)
    assert counts[1] <= 2.5 * counts[0] + 10


def test_parts_have_the_words_of_the_whole(front_end):
    source = "It cost $1,234,567.89 and then $7,654,321.98 and £3,333,333.33, " * 3
    whole = front_end.read(source)
    parts = front_end.read_parts(source, 0, 200)
    assert len(parts) > 3
    said = " ".join(reading.text for reading, _ in parts)
    assert said.replace(" ", "") == whole.text.replace(" ", "")
