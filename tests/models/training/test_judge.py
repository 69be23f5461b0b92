"""Word errors, with what whisper writes differently from the corpus made equal."""

import pytest

pytest.importorskip("faster_whisper")

from models.training.judge import normalize, word_errors


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("It costs $25.", "it costs twenty five dollars"),
        ("At 7:30, please.", "at seven thirty please"),
        ("The 3rd of May", "the third of may"),
        ("A 20% chance", "a twenty percent chance"),
        ("3,400 people", "three thousand four hundred people"),
        ("Okay, it's grey", "ok it's gray"),
    ],
)
def test_numbers_and_spellings_are_made_equal(written: str, spoken: str) -> None:
    assert normalize(written) == normalize(spoken)


@pytest.mark.parametrize(
    ("heard", "errors"),
    [("the red door", 0), ("the red floor", 1), ("the door", 1), ("the very red door", 1), ("", 3)],
)
def test_errors_are_counted_over_the_reference(heard: str, errors: int) -> None:
    assert word_errors("The red door.", heard) == (errors, 3)
