from realtime.engine.guards import GuardLimits, SegmentGuard
from realtime.engine.plan import RequestOptions
from realtime.engine.residency import Residency
from realtime.engine.sequence import PendingSegment, Sequence
from tests.engine.helpers import LAYOUT, settings

SIZE = 4


class Cache:
    """A residency, and sequences whose tokens are computed by hand."""

    def __init__(self, num_blocks=16, **options):
        self.residency = Residency(num_blocks, SIZE, **options)
        self.running = []

    def sequence(self, *tokens):
        options = RequestOptions(sampling=settings())
        number = len(self.running)
        sequence = Sequence(number, arrival=number, options=options, layout=LAYOUT)
        guard = SegmentGuard(GuardLimits(), LAYOUT)
        sequence.begin_segment(PendingSegment(0, tuple(tokens), 1), guard)
        self.running.append(sequence)
        return sequence

    def compute(self, sequence, count=None):
        """One step of the sequence; whether it found room."""
        self.residency.attach(sequence, self.running)
        count = sequence.num_uncomputed if count is None else count
        has_room, _ = self.residency.reserve(sequence, count, self.running)
        if has_room:
            self.residency.commit(sequence, sequence.num_computed + count)
        self.check()
        return has_room

    def drop(self, sequence):
        self.running.remove(sequence)
        self.residency.release(sequence)
        self.check()

    def check(self):
        self.residency.check_invariants(self.running)


def test_equal_beginning_is_shared_in_whole_blocks_and_not_computed_again():
    cache = Cache()
    one = cache.sequence(*range(10))
    cache.compute(one)
    two = cache.sequence(*range(9), 99, 98)
    cache.residency.attach(two, cache.running)
    assert two.num_computed == 8
    assert two.block_ids == one.block_ids[:2]
    cache.compute(two)
    assert two.block_ids[2] != one.block_ids[2]
    assert (cache.residency.num_prefilled_total, cache.residency.num_found_total) == (13, 8)


def test_one_token_is_left_to_compute_where_all_are_found():
    cache = Cache()
    cache.compute(cache.sequence(*range(8)))
    again = cache.sequence(*range(8))
    cache.residency.attach(again, cache.running)
    assert again.num_computed == 4


def test_block_is_found_only_once_it_is_full_and_computed():
    cache = Cache()
    one = cache.sequence(*range(12))
    for computed, found in ((3, 0), (4, 4), (7, 4), (8, 8)):
        cache.compute(one, computed - one.num_computed)
        other = cache.sequence(*range(12))
        cache.residency.attach(other, cache.running)
        assert other.num_computed == found
        cache.drop(other)


def test_equal_contents_computed_at_once_end_in_one_block():
    cache = Cache()
    one, two = cache.sequence(*range(6)), cache.sequence(*range(6))
    for sequence in (one, two):
        cache.residency.reserve(sequence, 6, cache.running)
    assert not set(one.block_ids) & set(two.block_ids)
    for sequence in (one, two):
        cache.residency.commit(sequence, 6)
    cache.check()
    assert one.block_ids[0] == two.block_ids[0]
    assert one.block_ids[1] != two.block_ids[1]
    assert cache.residency.num_free == 16 - 3


def test_sequence_behind_another_with_equal_tokens_goes_on_with_its_blocks():
    cache = Cache()
    one, two = cache.sequence(*range(18)), cache.sequence(*range(18))
    cache.compute(one, 2)
    cache.compute(two, 2)
    cache.compute(one)
    cache.residency.attach(two, cache.running)
    assert two.num_computed == 16
    assert two.block_ids == one.block_ids[:4]
    cache.compute(two)
    assert (cache.residency.num_prefilled_total, cache.residency.num_found_total) == (22, 14)


def test_released_tokens_are_found_until_their_blocks_are_needed():
    cache = Cache(num_blocks=4)
    one = cache.sequence(*range(12), 50)
    cache.compute(one)
    cache.drop(one)
    assert cache.residency.num_free == 4
    cache.compute(cache.sequence(60, 61, 62, 63, 64))  # takes the empty block and the chain's end
    again = cache.sequence(*range(12), 51)
    cache.residency.attach(again, cache.running)
    assert again.num_computed == 8
    assert cache.residency.num_reused_total == 1


def test_evicted_sequence_computes_only_what_was_taken_from_it():
    cache = Cache(num_blocks=5)
    old, young = cache.sequence(*range(4)), cache.sequence(*range(20, 33))
    cache.compute(old)
    cache.compute(young)
    assert cache.residency.num_free == 0
    old.token_ids.extend(range(5))
    assert cache.compute(old)
    assert young.is_evicted
    assert cache.residency.num_evicted_total == 1
    assert not cache.compute(young)  # one block short; what it was given goes back, uncounted
    assert cache.residency.num_evicted_total == 1
    cache.drop(old)
    cache.residency.attach(young, cache.running)
    assert young.num_computed == 8
    assert cache.compute(young)


def test_speech_of_what_has_ended_gives_way_before_the_blocks_of_a_preempted_sequence():
    cache = Cache(num_blocks=6, num_kept=6)
    first, preempted = cache.sequence(*range(13)), cache.sequence(*range(40, 48), 48)
    cache.compute(preempted)
    cache.residency.release(preempted)
    preempted.is_evicted = True
    first.token_ids[4:] = range(60, 69)  # all but the first block is speech
    first._segments[0].prompt_length = 4
    cache.compute(first)
    cache.drop(first)
    cache.compute(cache.sequence(*range(80, 89)))
    assert cache.residency.num_reused_total == 2
    cache.residency.attach(preempted, cache.running)
    assert preempted.num_computed == 8
    again = cache.sequence(*range(13))
    cache.residency.attach(again, cache.running)
    assert again.num_computed == 4


def test_without_the_prefix_cache_nothing_is_found():
    cache = Cache(has_prefix_cache=False)
    one = cache.sequence(*range(10))
    cache.compute(one)
    cache.drop(one)
    two = cache.sequence(*range(10))
    cache.compute(two)
    assert cache.residency.num_found_total == cache.residency.num_cached == 0


def test_smallest_claim_below_ones_own_is_evicted():
    def preferred(sequence):
        return (sequence.arrival % 2,)  # even arrivals give way to odd ones

    cache = Cache(num_blocks=3, claim=preferred)
    even, odd = cache.sequence(1, 2, 3, 4, 5), cache.sequence(6, 7, 8)
    assert cache.compute(even)
    assert cache.compute(odd)
    odd.token_ids.extend([1, 2, 3])
    assert cache.compute(odd)
    assert even.is_evicted
    even.token_ids.extend(range(10))
    assert not cache.compute(even)
    assert not odd.is_evicted


def test_nobody_is_evicted_for_a_sequence_that_would_still_lack_room():
    cache = Cache(num_blocks=6)
    oldest, old, young = (cache.sequence(*range(n, n + 8)) for n in (0, 20, 40))
    for sequence in (oldest, old, young):
        assert cache.compute(sequence)
    oldest.token_ids.extend(range(4))
    assert cache.compute(oldest)
    assert young.is_evicted
    assert not cache.compute(young)
    old.token_ids.extend(range(4))
    assert cache.compute(old)
    young.token_ids = young.token_ids[:3]
    oldest.token_ids.extend(range(12))  # three blocks more: with `old` gone there are three
    assert cache.residency.num_free == 0
    old.token_ids.extend(range(4))
    assert not cache.compute(old)  # the oldest is not its to take: it gives way itself
    assert cache.compute(young)
    old_blocks_needed = cache.residency.blocks_for(len(old.token_ids))
    assert old_blocks_needed > cache.residency.num_free + len(young.block_ids)
    assert not cache.compute(old)
    assert young.block_ids, "lost its blocks for nothing"


def test_blocks_that_only_victims_share_count_as_theirs():
    cache = Cache(num_blocks=4)
    needy = cache.sequence(90, 91)
    one, two = cache.sequence(*range(9)), cache.sequence(*range(9))
    for sequence in (needy, one):
        assert cache.compute(sequence)
    two.token_ids = two.token_ids[:8]
    cache.residency.attach(two, cache.running)
    assert two.block_ids == one.block_ids[:1]
    needy.token_ids.extend(range(12))
    assert cache.compute(needy)
    assert one.is_evicted


def test_reclaimable_blocks_are_those_that_nobody_else_holds():
    cache = Cache()
    one, two = cache.sequence(*range(10)), cache.sequence(*range(9), 99)
    cache.compute(one)
    cache.compute(two)
    alone = cache.sequence(70, 71)
    cache.compute(alone)
    assert cache.residency.num_reclaimable([one]) == 1
    assert cache.residency.num_reclaimable([one, alone]) == 2


def test_rewound_sequence_lets_go_of_a_published_block_rather_than_write_into_it():
    cache = Cache(num_kept=4)
    sequence = cache.sequence(*range(11))
    cache.compute(sequence)
    table = sequence.block_ids
    del sequence.token_ids[6:]
    cache.residency.rewind(sequence)
    assert (sequence.num_computed, sequence.block_ids) == (4, table[:1])
    sequence.token_ids.extend([70, 71, 72])
    cache.compute(sequence)
    other = cache.sequence(*range(11))  # what was computed before is still right for others
    cache.residency.attach(other, cache.running)
    assert other.block_ids == table[:2]


def test_rewound_sequence_keeps_a_block_that_is_its_own():
    cache = Cache()
    sequence = cache.sequence(*range(11))
    cache.compute(sequence)
    table = sequence.block_ids
    del sequence.token_ids[10:]
    cache.residency.rewind(sequence)
    assert (sequence.num_computed, sequence.block_ids) == (9, table)
    cache.compute(sequence)


def test_sequence_rewound_to_the_end_of_a_published_block_computes_that_block_again():
    cache = Cache()
    sequence = cache.sequence(*range(11))
    cache.compute(sequence)
    del sequence.token_ids[8:]
    cache.residency.rewind(sequence)
    assert sequence.num_computed == 4
    cache.compute(sequence)
    assert sequence.num_published == 2
