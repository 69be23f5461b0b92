import pytest

from realtime.quality.words import compare, compare_words, words_of


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        (
            "Boarding begins in forty minutes at gate twenty two.",
            "boarding begins in 40 minutes at gate 22",
        ),
        ("It costs twenty five dollars.", "It costs $25."),
        ("The train leaves at three thirty.", "The train leaves at 3:30."),
        ("Founded in nineteen eighty seven.", "Founded in 1987."),
        ("She came in first.", "She came in 1st!"),
        ("One thousand and forty eight birds", "1,048 birds"),
        ("It\N{RIGHT SINGLE QUOTATION MARK}s ten percent off.", "It's 10% off"),
        ("three point one four", "3.14"),
        ("at two oh five", "at 2:05"),
        ("seven o'clock", "7:00"),
        ("thirty degrees", "30°"),
        ("Okay, it's gray.", "OK, it's grey"),
    ],
)
def test_two_ways_to_write_the_same_words_are_equal(said: str, heard: str):
    comparison = compare(said, heard)
    assert comparison.num_word_errors == comparison.num_char_errors == 0


def test_words_are_what_is_compared():
    assert words_of("Well, well - It's TEN o'clock!") == ["well", "well", "it's", "ten", "o'clock"]


@pytest.mark.parametrize(
    ("said", "heard", "errors"),
    [("a b c", "a b c", 0), ("a b c", "a c", 1), ("a b c", "a x c d", 2), ("a b", "", 2)],
)
def test_word_errors_count_insertions_deletions_substitutions(said, heard, errors):
    assert compare_words(said.split(), heard.split()).num_word_errors == errors


def test_errors_have_their_places():
    changed = compare("the red door is open", "the door door was open")
    assert (changed.missing, changed.changed, changed.added) == ((), (1, 3), ())
    missing = compare("the red door", "the door")
    assert (missing.missing, missing.changed, missing.added) == ((1,), (), ())
    added = compare("the red door", "the red red door")
    assert (added.missing, added.changed) == ((), ())
    assert [word for _, word in added.added] == ["red"]


@pytest.mark.parametrize(
    ("heard", "count"), [("a b c", 0), ("a b", 1), ("a", 2), ("", 3), ("a x", 1), ("c", 0)]
)
def test_words_not_heard_at_the_end_are_counted(heard, count):
    assert compare("a b c", heard).num_unheard_at_end == count


def test_characters_are_counted_over_normalised_words():
    comparison = compare("Red door", "red, floor!")
    assert (comparison.num_chars, comparison.num_char_errors) == (8, 2)
