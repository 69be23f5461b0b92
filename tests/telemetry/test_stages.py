"""Each figure is computed from the stamps that define it."""

import pytest

from realtime.telemetry.stages import RequestStages


def stages(**changes) -> RequestStages:
    stamps = {
        "opened_at": 10.0,
        "released_at": 10.5,
        "first_segment_at": 10.6,
        "scheduled_at": 10.7,
        "first_token_at": 10.8,
        "first_audio_at": 11.0,
        "audible_at": 11.2,
        "first_sentence_at": 12.0,
        "last_token_at": 14.8,
        "starved_s": 1.0,
        "parked_s": 2.0,
        "done_at": 15.0,
        "num_tokens": 101,
        "num_samples": 48_000,
    }
    return RequestStages(**(stamps | changes))


def test_figures_follow_their_definitions():
    figures = stages().figures(24_000)
    expected = {
        "text_wait_s": 0.5,
        "queue_s": 0.1,
        "ttft_s": 0.3,
        "ttfb_s": 0.5,
        "audible_s": 0.7,
        "first_sentence_s": 1.5,
        "total_s": 5.0,
        "tokens": 101,
        "tpot_s": 0.01,
        "tokens_per_s": 100.0,
        "audio_s": 2.0,
        "real_time_factor": 0.55,
        "underrun_s": 0.0,
        "underruns": 0,
        "text_underrun_s": 0.0,
        "text_underruns": 0,
        "text_resume_s": None,
        "slot_free_s": None,
    }
    assert figures == pytest.approx(expected)


def test_stage_that_never_came_gives_no_figure():
    figures = RequestStages(opened_at=1.0).figures(24_000)
    assert {name for name, value in figures.items() if value is not None} == {
        "tokens",
        "audio_s",
        "underrun_s",
        "underruns",
        "text_underrun_s",
        "text_underruns",
    }


def test_single_token_has_no_time_between_tokens():
    figures = stages(num_tokens=1).figures(24_000)
    assert figures["tpot_s"] is None
    assert figures["tokens_per_s"] is None


def test_slot_that_was_free_before_the_cancel_took_no_time():
    assert stages(cancelled_at=14.0, freed_at=13.9).figures(24_000)["slot_free_s"] == 0.0
    assert stages(cancelled_at=14.0, freed_at=14.25).figures(24_000)["slot_free_s"] == 0.25
