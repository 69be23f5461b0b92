"""The fair queue."""

from hypothesis import given
from hypothesis import strategies as st

from realtime.engine.waiting import WaitingQueue


def drain(queue):
    order = []
    while len(queue):
        assert queue.first() is not None
        order.append(queue.take_first())
    assert queue.first() is None
    return order


def test_one_key_is_first_come_first_served():
    queue = WaitingQueue(10)
    for request_id in (3, 1, 2):
        queue.add(request_id, "a")
    assert drain(queue) == [3, 1, 2]


def test_burst_under_one_key_delays_that_key_alone():
    queue = WaitingQueue(100)
    for request_id in range(20):
        queue.add(request_id, "burst")
    queue.add(100, "calm")
    queue.add(101, "other")
    assert drain(queue)[:4] == [0, 100, 101, 1]


def test_key_cannot_fill_the_queue():
    queue = WaitingQueue(16)
    taken = 0
    while queue.has_room("burst"):
        queue.add(taken, "burst")
        taken += 1
    assert taken == 8
    assert queue.has_room("calm")


def test_full_queue_has_room_for_nobody():
    queue = WaitingQueue(2)
    queue.add(1, "a")
    queue.add(2, "b")
    assert not queue.has_room("c")


def test_request_that_leaves_is_not_served():
    queue = WaitingQueue(10)
    for request_id, key in ((1, "a"), (2, "a"), (3, "b")):
        queue.add(request_id, key)
    queue.remove(1)
    queue.remove(3)
    assert 1 not in queue
    assert drain(queue) == [2]


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=60))
def test_between_two_turns_of_a_key_every_waiting_key_has_one(events):
    queue, waiting, served = WaitingQueue(1000), {}, []
    for number, (key, takes) in enumerate(events):
        queue.add(number, str(key))
        waiting[number] = key
        if takes:
            keys = {k for n, k in waiting.items()}
            request_id = queue.take_first()
            served.append((waiting.pop(request_id), keys))
    for index, (key, _) in enumerate(served):
        later = [i for i in range(index + 1, len(served)) if served[i][0] == key]
        if later:
            between = {k for k, _ in served[index + 1 : later[0]]}
            starved = set.intersection(*(keys for _, keys in served[index : later[0] + 1]))
            assert starved - {key} <= between
