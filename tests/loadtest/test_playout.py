import numpy as np
import pytest

from loadtest.playout import Playout

SECOND = np.full(1000, 9000, dtype="<i2").tobytes()
QUIET = np.zeros(1000, dtype="<i2").tobytes()


def _listener() -> Playout:
    return Playout(sample_rate_hz=1000, audible_dbfs=-45.0)


def test_audio_ahead_of_the_listener_has_no_gap():
    listener = _listener()
    for at in (10.0, 10.1, 10.2):
        listener.receive(SECOND, at)
    assert listener.gaps == []
    assert listener.ends_at == pytest.approx(13.0)
    assert listener.audio_s == pytest.approx(3.0)
    assert listener.least_lead_s == pytest.approx(0.9)
    assert listener.longest_wait_s == pytest.approx(0.1)


def test_late_audio_is_a_gap_and_shifts_what_follows():
    listener = _listener()
    for at in (10.0, 11.25, 12.0):
        listener.receive(SECOND, at)
    assert listener.gaps == [(11.0, 0.25)]
    assert listener.ends_at == pytest.approx(13.25)
    assert listener.least_lead_s == pytest.approx(-0.25)


def test_audio_just_in_time_is_no_gap():
    listener = _listener()
    listener.receive(SECOND, 10.0)
    listener.receive(SECOND, 11.0)
    assert listener.gaps == []


def test_the_first_audible_sample_is_timed_as_it_is_heard():
    listener = _listener()
    listener.receive(QUIET, 10.0)
    listener.receive(QUIET[:1000] + SECOND[:1000], 10.1)
    assert listener.audible_at == pytest.approx(11.5)


def test_an_empty_closing_chunk_changes_nothing():
    listener = _listener()
    listener.receive(SECOND, 10.0)
    listener.receive(b"", 99.0)
    assert listener.gaps == []
    assert listener.arrivals == [(10.0, 1000)]


def test_nothing_received_is_nothing_heard():
    listener = _listener()
    assert listener.started_at is None
    assert listener.least_lead_s is None
    assert listener.longest_wait_s == 0.0
