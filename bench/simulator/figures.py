"""What a run amounts to."""

import math
from collections.abc import Iterable

import msgspec

from bench.simulator.listener import Call
from bench.simulator.world import Totals


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """A run's outcome, over the calls that were offered within a window.

    Attributes:
        num_calls: First attempts and retries.
        num_admitted: Calls that got a slot.
        num_with_gap: Admitted calls with silence in the middle that the engine is to blame for.
        num_text_gaps: Admitted calls with silence because their text came late.
        gap_free_ratio: Share of the admitted calls without a gap.
        mean_gap_s: Silence of those with gaps.
        first_sound_s: Time from the first segment to the first sound: p50, p95, p99.
        wait_s: Time from the first segment to the slot: p50, p95, p99.
        num_refused: Calls told to come back: at once, or after a wait that led to nothing.
        num_expired: Those of them that waited.
        answer_s: Time to an immediate refusal: p50, p99, longest.
        retry_success_ratio: Share of the retries that got a slot.
        num_retries: Calls of someone who was refused before.
        caller_success_ratio: Share of the callers who were served in the end.
        orphaned_frames: Mean frames made but not heard, of interrupted calls.
        carried_load: Speech made in the window, as a share of the admissible load.
        mean_running: Requests with a slot.
        mean_rows: Rows of a step.
        num_steps: Steps.
        num_preempted: Times that a sequence lost its blocks.
    """

    num_calls: int
    num_admitted: int
    num_with_gap: int
    num_text_gaps: int
    gap_free_ratio: float
    mean_gap_s: float
    first_sound_s: tuple[float, ...]
    wait_s: tuple[float, ...]
    num_refused: int
    num_expired: int
    answer_s: tuple[float, ...]
    retry_success_ratio: float
    num_retries: int
    caller_success_ratio: float
    orphaned_frames: float
    carried_load: float
    mean_running: float
    mean_rows: float
    num_steps: int
    num_preempted: int


class Window(msgspec.Struct, frozen=True):
    """A stretch of a run.

    Attributes:
        begins_at: From here on calls count.
        ends_at: And up to here.
        max_attempts: After how many refusals a caller gives up.
        frames_per_second: Speech made per second at a load of 1.
    """

    begins_at: float
    ends_at: float
    max_attempts: int
    frames_per_second: float


_AT_ONCE_S = 0.05  # a refusal that took longer came after a wait


def summarise(calls: Iterable[Call], totals: Totals, window: Window) -> Figures:
    """Count."""
    counted = [call for call in calls if window.begins_at <= call.offered_at < window.ends_at]
    admitted = [call for call in counted if call.scheduled_at is not None]
    refused = [call for call in counted if call.answered_at is not None]
    answers = [call.answered_at - call.offered_at for call in refused if call.answered_at]
    gaps = [call.gap_s for call in admitted if call.gap_s > 0]
    sounds = [c.first_sound_at - c.offered_at for c in admitted if c.first_sound_at is not None]
    waits = [c.scheduled_at - c.offered_at for c in admitted if c.scheduled_at is not None]
    orphans = [call.num_made - call.num_heard for call in admitted if call.cancelled_at]
    retries = [call for call in counted if call.attempt > 1]
    lost = {call.caller for call in refused if call.attempt >= window.max_attempts}
    won = {call.caller for call in admitted}
    running = [row for row in totals.running if window.begins_at <= row[0] < window.ends_at]
    seconds = window.ends_at - window.begins_at
    return Figures(
        num_calls=len(counted),
        num_admitted=len(admitted),
        num_with_gap=len(gaps),
        num_text_gaps=sum(call.text_gap_s > 0 for call in admitted),
        gap_free_ratio=1.0 - _ratio(len(gaps), len(admitted), 0.0),
        mean_gap_s=_mean(gaps),
        first_sound_s=_percentiles(sounds, (0.5, 0.95, 0.99)),
        wait_s=_percentiles(waits, (0.5, 0.95, 0.99)),
        num_refused=len(refused),
        num_expired=sum(answer > _AT_ONCE_S for answer in answers),
        answer_s=_percentiles([a for a in answers if a <= _AT_ONCE_S], (0.5, 0.99, 1.0)),
        retry_success_ratio=_ratio(sum(c.scheduled_at is not None for c in retries), len(retries)),
        num_retries=len(retries),
        caller_success_ratio=_ratio(len(won), len(won | lost)),
        orphaned_frames=_mean(orphans),
        carried_load=sum(c.num_made for c in admitted) / seconds / window.frames_per_second,
        mean_running=_mean([row[1] for row in running]),
        mean_rows=totals.num_rows / max(1, totals.num_steps),
        num_steps=totals.num_steps,
        num_preempted=totals.num_preempted,
    )


def _ratio(part: int, whole: int, empty: float = math.nan) -> float:
    return part / whole if whole else empty


def _mean(values: list[float] | list[int]) -> float:
    return sum(values) / len(values) if values else 0.0


def _percentiles(values: list[float], shares: tuple[float, ...]) -> tuple[float, ...]:
    """By nearest rank; nothing where there are no values."""
    ordered = sorted(values)
    if not ordered:
        return ()
    last = len(ordered) - 1
    return tuple(round(ordered[min(last, math.ceil(s * len(ordered)) - 1)], 6) for s in shares)
