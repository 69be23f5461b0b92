import pytest

from realtime.quality.comparison import compare_reports
from tests.quality.make import line, report


def _report(voice: str, errors: int, **changes):
    lines = [
        line(voice=voice, text=f"text {number}", num_word_errors=number % 3 + errors, num_words=10)
        for number in range(30)
    ]
    return report(*lines, **changes)


def test_a_change_in_every_line_is_told():
    found = compare_reports(_report("default", 2), _report("default", 1))["default"]
    change = next(item for item in found if item.name == "word_error")
    assert (change.before, change.after) == (pytest.approx(0.3), pytest.approx(0.2))
    assert change.difference == pytest.approx(-0.1)
    assert change.verdict == "better"
    back = compare_reports(_report("default", 1), _report("default", 2))["default"]
    assert next(item for item in back if item.name == "word_error").verdict == "worse"


def test_no_change_is_open():
    found = compare_reports(_report("default", 1), _report("default", 1))["default"]
    assert {item.verdict for item in found} == {"open"}


def test_lines_that_one_side_lacks_do_not_count():
    after = _report("default", 1)
    extra = line(text="harder", num_word_errors=10, num_words=10)
    after = report(*after.lines, extra)
    found = compare_reports(_report("default", 1), after)["default"]
    assert next(item for item in found if item.name == "word_error").difference == 0.0


def test_single_voices_are_compared_whatever_their_names():
    assert list(compare_reports(_report("old", 1), _report("new", 1))) == ["old / new"]
    two = report(line(voice="a"), line(voice="b"))
    assert compare_reports(_report("old", 1), two) == {}
