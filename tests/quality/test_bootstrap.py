import pytest

from realtime.quality.bootstrap import interval, paired_difference, ratio, unpaired_difference


def _lines(count: int, *pattern: tuple[float, float]):
    return [(line, *pattern[line % len(pattern)]) for line in range(count)]


def test_the_interval_holds_the_ratio_and_narrows_with_more_lines():
    few, many = (_lines(count, (0, 10), (5, 10)) for count in (10, 400))
    for lines in (few, many):
        low, high = interval(lines)
        assert low <= ratio(lines) == 0.25 <= high
    assert interval(many)[1] < interval(few)[1]


def test_lines_without_any_denominator_have_no_ratio():
    assert ratio([]) is None
    assert ratio([("a", 0, 0)]) is None
    assert interval([("a", 1, 2)]) is None


def test_seeds_of_a_line_are_no_further_evidence():
    once = _lines(20, (0, 10), (5, 10))
    assert interval(once * 3) == pytest.approx(interval(once))


def test_a_difference_is_seen_in_pairs_that_hides_in_the_spread_of_the_lines():
    before = [(line, line % 10, 10) for line in range(40)]
    after = [(line, max(0, line % 10 - 1), 10) for line in range(40)]
    difference, low, high = paired_difference(before, after)
    assert difference == pytest.approx(-0.09)
    assert low < difference < high < 0
    _, wide_low, wide_high = unpaired_difference(before, after)
    assert wide_low < 0 < wide_high


def test_pairs_are_the_common_lines():
    before = [("a", 1, 10), ("b", 2, 10), ("only before", 10, 10)]
    after = [("b", 1, 10), ("a", 1, 10), ("only after", 10, 10)]
    assert paired_difference(before, after)[0] == pytest.approx(-0.05)
    assert paired_difference(before[:1], after) is None
