"""Whether the engine can take one more request now: a pure decision over its latest report."""

from realtime.errors import CapacityError, EngineNotReadyError, SpeechError
from realtime.messages import CapacityReport, EngineReady

START_RETRY_AFTER_S = 2.0
FULL_RETRY_AFTER_S = 1.0


def refusal(
    ready: EngineReady | None, report: CapacityReport | None, *, max_waiting: int
) -> SpeechError | None:
    """Why a request has to be refused; `None` accepts it.

    Args:
        ready: The engine's facts; `None` while it starts.
        report: Its latest report; `None` before the first one.
        max_waiting: Requests that may wait for a slot.
    """
    if ready is None:
        return EngineNotReadyError("the engine is starting", retry_after_s=START_RETRY_AFTER_S)
    if report is None:
        return None
    is_full = report.num_running >= report.max_streams
    if is_full and report.num_waiting >= max_waiting:
        return CapacityError(
            f"{report.num_running} requests are spoken and {report.num_waiting} wait",
            retry_after_s=FULL_RETRY_AFTER_S,
        )
    return None
