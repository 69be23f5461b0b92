"""When refused callers are told to come back."""

from realtime.engine.turns import LONGEST_PROMISE_S, Turns


def test_flood_of_one_key_does_not_put_off_another():
    turns = Turns()
    flood = [turns.next("flood", 2.0, 1.0, 0.0) for _ in range(500)]
    assert flood[-1] == LONGEST_PROMISE_S
    assert turns.next("patient", 2.0, 1.0, 0.0) < 4.0


def test_keys_refused_together_are_told_different_times():
    turns = Turns()
    times = [turns.next(f"key {number}", 2.0, 0.5, 0.0) for number in range(8)]
    assert times == sorted(set(times))
    assert times[0] == 2.0


def test_turns_of_two_keys_interleave():
    turns = Turns()
    named = [turns.next("a", 2.0, 1.0, 0.0), turns.next("b", 2.0, 1.0, 0.0)]
    named += [turns.next("a", 2.0, 1.0, 0.0), turns.next("b", 2.0, 1.0, 0.0)]
    assert named == sorted(set(named))


def test_keys_remembered_are_bounded():
    turns = Turns()
    for number in range(2000):
        turns.next(f"key {number}", 2.0, 0.5, 1000.0 * number)
    assert len(turns._keys) <= 1024
