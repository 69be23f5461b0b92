"""Who is let in."""

from realtime.errors import CapacityError, EngineNotReadyError
from realtime.gateway.admission import refusal
from realtime.messages import CapacityReport
from tests.gateway.driver import READY


def report(num_running: int, num_waiting: int) -> CapacityReport:
    return CapacityReport(
        at=0.0,
        num_running=num_running,
        num_waiting=num_waiting,
        max_streams=2,
        free_blocks=0,
        num_blocks=1,
        num_tokens_total=0,
        num_steps_total=0,
        step_s=0.0,
        codec_s=0.0,
        resident_bytes=0,
    )


def test_starting_engine_takes_nobody():
    error = refusal(None, None, max_waiting=3)
    assert isinstance(error, EngineNotReadyError)
    assert error.retry_after_s


def test_request_is_taken_while_a_slot_or_a_waiting_place_is_free():
    assert refusal(READY, None, max_waiting=0) is None
    assert refusal(READY, report(1, 0), max_waiting=0) is None
    assert refusal(READY, report(2, 2), max_waiting=3) is None


def test_full_engine_refuses_and_says_when_to_retry():
    error = refusal(READY, report(2, 3), max_waiting=3)
    assert isinstance(error, CapacityError)
    assert error.retry_after_s
