"""The simulated listener and the reader that stopped."""

import pytest

from realtime.gateway.pacing import PlaybackClock, WriteProgress


def test_listener_in_time_never_waits():
    clock = PlaybackClock(1000)
    assert clock.sent(500, at=10.0) == 10.0
    assert clock.sent(500, at=10.2) == 10.5
    assert clock.lead_s(10.2) == pytest.approx(0.8)
    assert (clock.underrun_s, clock.num_underruns) == (0.0, 0)


def test_late_chunk_is_silence_and_shifts_what_follows():
    clock = PlaybackClock(1000)
    clock.sent(500, at=10.0)
    assert clock.sent(100, at=10.8) == 10.8
    assert clock.sent(100, at=10.8) == pytest.approx(10.9)
    assert clock.underrun_s == pytest.approx(0.3)
    assert clock.num_underruns == 1
    assert clock.lead_s(20.0) == 0.0


def test_lateness_that_no_one_hears_is_not_counted():
    clock = PlaybackClock(1000)
    clock.sent(500, at=10.0)
    clock.sent(500, at=10.5005)
    assert clock.num_underruns == 0


def test_report_of_the_listener_is_bounded_by_what_was_sent_and_never_goes_back():
    clock = PlaybackClock(1000)
    assert clock.played_samples is None
    clock.sent(500, at=1.0)
    clock.played(9999)
    assert clock.played_samples == 500
    clock.played(3)
    assert clock.played_samples == 500


def test_stall_is_measured_from_the_last_progress():
    progress = WriteProgress()
    assert progress.stalled_s(given_bytes=100, unsent_bytes=100, at=0.0) == 0.0
    assert progress.stalled_s(given_bytes=200, unsent_bytes=200, at=5.0) == 5.0
    assert progress.stalled_s(given_bytes=200, unsent_bytes=190, at=6.0) == 0.0
    assert progress.stalled_s(given_bytes=200, unsent_bytes=190, at=8.0) == 2.0
    assert progress.stalled_s(given_bytes=200, unsent_bytes=0, at=90.0) == 0.0


def test_silence_that_begins_before_the_text_is_there_is_the_texts():
    clock = PlaybackClock(1000)
    clock.sent(500, at=10.0)  # dry at 10.5
    clock.sent(100, at=13.2, text_at=13.0)
    assert (clock.num_underruns, clock.underrun_s) == (0, 0.0)
    assert (clock.num_text_underruns, clock.text_underrun_s) == (1, pytest.approx(2.7))
    assert clock.text_resume_s == pytest.approx(0.2)


def test_text_that_came_in_time_leaves_the_silence_to_the_service():
    clock = PlaybackClock(1000)
    clock.sent(500, at=10.0)  # dry at 10.5
    clock.sent(100, at=11.0, text_at=10.4)
    assert (clock.num_text_underruns, clock.text_underrun_s) == (0, 0.0)
    assert (clock.num_underruns, clock.underrun_s) == (1, pytest.approx(0.5))


def test_text_that_was_waited_for_while_the_listener_had_enough_is_no_silence():
    clock = PlaybackClock(1000)
    clock.sent(500, at=10.0)
    clock.sent(100, at=10.4, text_at=10.3)
    assert clock.num_underruns == clock.num_text_underruns == 0
    assert clock.text_resume_s is None
