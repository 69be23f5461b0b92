import pytest

from realtime.quality.requirements import BadRequirementError, check, parse
from realtime.quality.results import Figure

FIGURES = {"a": {"word_error": Figure(value=0.1)}, "b": {"word_error": Figure(value=0.2)}}


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("word_error<=0.2", [True, True]),
        ("word_error < 0.2", [True, False]),
        ("word_error>=0.1", [True, True]),
        ("word_error>0.1", [False, True]),
        ("b:word_error<=0.15", [False]),
        ("nobody:word_error<=1", [False]),
        ("dnsmos_overall>=1", [False, False]),
    ],
)
def test_a_requirement_holds_for_every_voice_it_means(text, met):
    assert [verdict.is_met for verdict in check([parse(text)], FIGURES)] == met


def test_what_was_not_measured_has_no_value():
    verdict = check([parse("a:dnsmos_overall>=1")], FIGURES)[0]
    assert (verdict.voice, verdict.figure, verdict.value) == ("a", "dnsmos_overall", None)


@pytest.mark.parametrize(
    "text", ["word_error", "word_error=1", "word_errors<1", "word_error<=x", ""]
)
def test_another_form_or_figure_is_refused(text):
    with pytest.raises(BadRequirementError, match="--require"):
        parse(text)
