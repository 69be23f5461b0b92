import pytest

from realtime.quality.figures import (
    FIGURES,
    figures_of,
    loudness_offsets,
    show_figure,
    show_value,
    terms_of,
)
from realtime.quality.results import Figure
from tests.quality.make import line


def test_lines_are_added_up():
    lines = [
        line(text="a", num_word_errors=1, num_words=10, similarity=0.8),
        line(text="b", num_word_errors=0, num_words=30, leading_silence_s=0.04),
        line(text="c", num_word_errors=0, num_words=10, faults=("runaway", "click")),
        line(text="d", num_word_errors=0, num_words=0, spoken_s=0.0, faults=("failed",)),
    ]
    figures = figures_of(lines)
    values = {name: figure.value for name, figure in figures.items()}
    assert values["word_error"] == pytest.approx(1 / 50)
    assert values["exact"] == 0.75
    assert values["runaway"] == values["click"] == values["failed"] == 0.25
    assert values["runaway_or_early_stop"] == 0.25
    assert values["early_stop"] == 0.0
    assert values["similarity"] == 0.8
    assert values["leading_silence_ms"] == pytest.approx(40)
    assert values["words_per_s"] == pytest.approx(50 / 5.7)
    assert "dnsmos_overall" not in values
    assert figures["word_error"].low <= values["word_error"] <= figures["word_error"].high


def test_a_voice_leads_where_it_is_nearest_to_itself():
    lines = [line(similarity=0.9, similarity_to_other=0.6), line(similarity=0.8)]
    assert figures_of(lines)["similarity_lead"].value == pytest.approx(0.3)


def test_loudness_is_held_against_the_mean_of_the_voices():
    figures = {
        name: {"loudness_lufs": Figure(value=level)} for name, level in (("a", -24.0), ("b", -26.0))
    }
    offsets = loudness_offsets(figures | {"silent": {}})
    assert {voice: offset.value for voice, offset in offsets.items()} == {"a": 1.0, "b": -1.0}
    assert loudness_offsets({"a": figures["a"]}) == {}


def test_words_nobody_heard_make_no_figure():
    assert not {"word_error", "char_error", "exact", "words_per_s"} & set(
        figures_of([line(heard=None, num_words=0)])
    )


def test_every_figure_has_a_meaning():
    terms = terms_of([line()])
    assert set(terms) <= set(FIGURES)


@pytest.mark.parametrize(
    ("name", "figure", "shown"),
    [
        ("word_error", Figure(value=0.125, low=0.1, high=0.15), "12.5 % [10.0, 15.0]"),
        ("dnsmos_overall", Figure(value=3.0), "3.00"),
        ("leading_silence_ms", Figure(value=22.4), "22 ms"),
        ("similarity", None, "-"),
    ],
)
def test_a_figure_is_shown_in_its_unit(name, figure, shown):
    assert show_figure(name, figure) == shown


def test_a_missing_value_is_shown_as_such():
    assert show_value("word_error", None) == "-"
