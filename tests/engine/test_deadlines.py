"""Whose tokens a step computes."""

import math

import pytest

from realtime.engine.deadlines import DeadlinePolicy, StepBudget, Work, share_step
from realtime.engine.step_time import StepCosts

POLICY = DeadlinePolicy()
COSTS = StepCosts(step_s=0.002, row_s=0.001, prefill_s=0.0005)
NOW = 100.0


def stream(request_id, lead_s=None, num_tokens=1, *, is_batch=False):
    """`lead_s` is what its listener holds; None: nothing has been let go yet."""
    dry_at = None if lead_s is None else NOW + lead_s
    return Work(request_id, num_tokens, 50, dry_at, request_id, is_batch)


def share(*work, max_tokens=64, token_s=0.0122, costs=COSTS, memory=math.inf):
    """Tokens by request, in the order in which they were claimed."""
    claimed: dict[int, int] = {}

    def claim(request_id, count):
        if len(claimed) >= memory:
            return False
        claimed[request_id] = count
        return True

    budget = StepBudget(max_tokens=max_tokens, token_s=token_s, predict=costs.predict)
    share_step(work, POLICY, budget, NOW, claim)
    return claimed


def test_urgent_comes_before_start_before_rest_before_batch():
    order = share(
        stream(1, 0.5),
        stream(2, is_batch=True),
        stream(3, num_tokens=20),
        stream(4, 0.2),
        stream(5, 0.1),
        stream(6, 0.4),
        costs=StepCosts(step_s=0.0, row_s=0.0, prefill_s=0.0),
    )
    assert list(order) == [5, 4, 3, 6, 1, 2]


def test_starts_are_served_first_come_first_served_in_chunks():
    assert share(stream(2, num_tokens=40), stream(1, num_tokens=40)) == {1: 40, 2: 24}


def test_comfortable_streams_stand_back_for_a_start():
    slow = StepCosts(step_s=0.004, row_s=0.002, prefill_s=0.0005)
    assert share(stream(1, 0.9), stream(2, 0.9), stream(3), costs=slow) == {3: 1}


def test_comfortable_streams_fill_a_share_of_a_tokens_time():
    others = [stream(i, 0.9) for i in range(20)]
    for_start = share(*others, stream(99))
    for_urgent = share(*others, stream(99, 0.1))
    assert COSTS.predict(len(for_start)) <= 0.4 * 0.0122 < COSTS.predict(len(for_start) + 1)
    assert COSTS.predict(len(for_urgent)) <= 0.8 * 0.0122 < COSTS.predict(len(for_urgent) + 1)


def test_streams_below_the_comfort_mark_do_not_stand_back():
    assert set(share(stream(1, 0.5), stream(2, 0.9), stream(3))) == {1, 3}


def test_comfortable_streams_come_along_where_a_row_costs_next_to_nothing():
    flat = StepCosts(step_s=0.002, row_s=0.00002, prefill_s=0.00002)
    assert set(share(*(stream(i, 0.9) for i in range(20)), stream(99), costs=flat)) == {
        *range(20),
        99,
    }


def test_nobody_waits_when_nothing_is_urgent():
    assert set(share(*(stream(i, 0.3 + i) for i in range(10)))) == set(range(10))


def test_prompt_is_cut_so_that_an_urgent_listener_does_not_run_dry():
    shares = share(stream(1, 0.1), stream(2, num_tokens=60))
    assert shares[1] == 1
    step_s = COSTS.predict(2, shares[2] - 1, 0)
    assert 8 <= shares[2] < 60
    assert step_s <= 0.0122


def test_prompt_waits_while_urgent_rows_alone_fill_the_time():
    assert set(share(*(stream(i, 0.1) for i in range(11)), stream(99, num_tokens=60))) == set(
        range(11)
    )


def test_batch_work_is_left_out_of_a_step_that_others_wait_for():
    assert set(share(stream(1, 0.1), stream(2, is_batch=True))) == {1}


def test_batch_work_fills_what_a_token_of_speech_leaves():
    shares = share(stream(1, 0.5), *(stream(i, is_batch=True) for i in range(2, 40)))
    assert 1 < len(shares) < 20
    assert COSTS.predict(len(shares)) <= 0.0122


def test_batch_work_alone_runs():
    assert share(stream(1, num_tokens=30, is_batch=True))[1] >= 8


@pytest.mark.parametrize("kind", [{"lead_s": 0.1}, {"lead_s": 0.9}, {"lead_s": None}])
def test_any_work_alone_makes_progress_even_on_a_hopelessly_slow_machine(kind):
    slow = StepCosts(step_s=1.0, row_s=1.0, prefill_s=1.0)
    shares = share(stream(1, num_tokens=30, **kind), costs=slow)
    assert shares[1] >= 8


def test_step_holds_no_more_tokens_than_its_bound():
    shares = share(*(stream(i, num_tokens=13) for i in range(10)), max_tokens=32)
    assert sum(shares.values()) <= 32


def test_stream_without_memory_costs_the_others_nothing():
    assert share(stream(1, 0.1), stream(2, 0.2), memory=0) == {}
    claimed = []
    budget = StepBudget(max_tokens=8, token_s=1.0, predict=COSTS.predict)

    def claim(request_id, count):
        claimed.append((request_id, count))
        return request_id != 1

    share_step([stream(1, 0.1, num_tokens=90), stream(2, 0.2)], POLICY, budget, NOW, claim)
    assert claimed == [(1, 8), (2, 1)]


@pytest.mark.parametrize(
    ("first_frame_s", "frames"), [(0.0, 1), (0.05, 1), (0.07, 2), (0.12, 3), (9.0, 4)]
)
def test_start_collects_what_bridges_the_next_frame(first_frame_s, frames):
    assert POLICY.start_frames(first_frame_s, 0.0, 2048 / 24000) == frames


def test_start_allows_for_the_codec():
    assert POLICY.start_frames(0.05, 0.005, 2048 / 24000) == 1
    assert POLICY.start_frames(0.05, 0.02, 2048 / 24000) == 2


def test_marks_must_ascend():
    with pytest.raises(ValueError, match="low_water_s"):
        DeadlinePolicy(low_water_s=2.0, high_water_s=2.0)
