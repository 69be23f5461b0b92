import re
from pathlib import Path

import pytest

from realtime.text.normalise import normalise

ROWS = (
    (Path(__file__).parents[1] / "data" / "normalise.tsv").read_text(encoding="utf-8").splitlines()
)
# The share reached; it may only rise.
MIN_MATCHING_ROWS = 119


def canonical(text):
    return " ".join(re.sub(r"[^\w' ]", " ", text.lower().replace("-", " ")).split())


def test_rows_of_the_shared_evaluation_are_read_as_expected(front_end):
    misses = []
    for row in ROWS:
        source, _, expected = row.partition("\t")
        said = canonical(front_end.read(source).text)
        if said not in [canonical(reading) for reading in expected.split(" | ")]:
            misses.append((source, said, expected))
    assert len(ROWS) - len(misses) >= MIN_MATCHING_ROWS, misses


@pytest.mark.parametrize(
    "text", ["Well, it's a twenty-one year old dog.", "“Don't go,” she said; really?", "(Maybe.)"]
)
def test_plain_prose_is_left_alone(text):
    assert normalise(text).text == text


def test_every_word_leads_back_to_what_was_written():
    source = "Dr. Lee paid $3.50, then left."
    text = normalise(source, offset=100)
    at = text.text.index("dollars")
    start, end = text.span(at, at + len("dollars"))
    assert source[start - 100 : end - 100] == "$3.50"
    at = text.text.index("left")
    start, end = text.span(at, at + 4)
    assert source[start - 100 : end - 100] == "left"


@pytest.mark.parametrize("digits", ["9" * 5000, "1," * 300, "0." * 300, "1:" * 300, "٣" * 50])
def test_absurd_numbers_are_read_without_error(digits):
    assert not re.search(r"\d", normalise(digits).text)


@pytest.mark.parametrize(
    "text", ["😀", "\x00\x07", "\u202e\u200f", "漢字", "Привет", "```\n```", "<p></p>", "***"]
)
def test_unspoken_text_leaves_no_letters(text):
    assert not re.search(r"\w", normalise(text).text)
