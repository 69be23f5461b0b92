import pytest

from realtime.engine.block_pool import BlockPool


def test_shared_block_is_free_only_after_its_last_holder():
    pool = BlockPool(4)
    table = pool.allocate(3)
    pool.retain(table[:1])
    pool.release(table)
    assert pool.num_free == 3
    pool.check_invariants([table[:1]])
    pool.release(table[:1])
    assert pool.num_free == 4
    pool.check_invariants([])


def test_free_block_cannot_be_released_or_retained():
    pool = BlockPool(2)
    (block,) = pool.allocate(1)
    pool.release([block])
    with pytest.raises(AssertionError):
        pool.release([block])
    with pytest.raises(AssertionError):
        pool.retain([block])


def test_more_than_the_free_blocks_cannot_be_allocated():
    pool = BlockPool(2)
    with pytest.raises(AssertionError):
        pool.allocate(3)


def test_leak_is_found():
    pool = BlockPool(2)
    pool.allocate(1)
    with pytest.raises(AssertionError, match="reference counts"):
        pool.check_invariants([])


def chain(pool, *contents, parent=None):
    """Compute and publish blocks with these contents, one behind the other; held once."""
    table = []
    for tokens in contents:
        parent = pool.publish(pool.allocate(1)[0], parent, tokens)
        table.append(parent)
    return table


def test_published_block_is_found_by_its_content_and_its_past():
    pool = BlockPool(8)
    one = chain(pool, (1, 2), (3, 4))
    two = chain(pool, (5, 6), (3, 4))
    assert pool.find(None, (1, 2)) == one[0]
    assert pool.find(one[0], (3, 4)) == one[1]
    assert pool.find(two[0], (3, 4)) == two[1] != one[1]
    assert pool.find(None, (3, 4)) is None
    assert pool.find(one[0], (3, 5)) is None
    pool.check_invariants([one, two])


def test_blocks_of_equal_hash_and_other_content_do_not_meet():
    class Colliding(int):
        def __hash__(self):
            return 0

    pool = BlockPool(4)
    tables = [chain(pool, (Colliding(token),)) for token in (1, 2, 3)]
    assert len({block for (block,) in tables}) == 3
    assert [pool.find(None, (Colliding(token),)) for token in (1, 2, 3)] == [
        block for (block,) in tables
    ]
    assert pool.find(None, (Colliding(4),)) is None


def test_second_copy_of_a_content_is_given_back_for_the_first():
    pool = BlockPool(4)
    first = chain(pool, (1, 2), (3, 4))
    second = chain(pool, (1, 2), (3, 4))
    assert first == second
    assert pool.num_free == 2
    pool.check_invariants([first, second])
    pool.release(first)
    assert pool.num_cached == 0
    pool.check_invariants([second])


def test_unheld_block_stays_findable_and_can_be_held_again():
    pool = BlockPool(2)
    table = chain(pool, (1, 2))
    pool.release(table)
    assert (pool.num_free, pool.num_cached) == (2, 1)
    pool.retain(table)
    assert (pool.num_free, pool.num_cached) == (1, 0)
    pool.check_invariants([table])


def test_longest_unheld_is_reused_first_and_a_chain_from_its_end():
    pool = BlockPool(5)
    old = chain(pool, (1,), (2,), (3,))
    new = chain(pool, (4,), (5,))
    pool.release(old)
    pool.release(new)
    pool.retain(old[:1])  # used again: the youngest afterwards
    pool.release(old[:1])
    assert [pool.allocate(1)[0] for _ in range(5)] == [old[2], old[1], new[1], new[0], old[0]]
    assert pool.num_reused_total == 5
    assert pool.find(None, (1,)) is None


def test_findable_blocks_give_way_before_unused_memory_beyond_what_is_kept():
    pool = BlockPool(10, num_kept=2)
    table = chain(pool, (1,), (2,), (3,), (4,))
    pool.release(table)
    assert pool.allocate(3) == [table[3], table[2], 4]
    assert pool.num_cached == 2
    assert pool.allocate(7) == [5, 6, 7, 8, 9, table[1], table[0]]
    assert pool.num_free == 0


def test_nobody_may_write_into_a_shared_or_published_block():
    pool = BlockPool(3)
    shared, own = pool.allocate(2)
    pool.retain([shared])
    (published,) = chain(pool, (1,))
    assert [pool.is_writable(block) for block in (shared, own, published)] == [False, True, False]
    with pytest.raises(AssertionError):
        pool.publish(shared, None, (2,))
    with pytest.raises(AssertionError):
        pool.publish(published, None, (1,))


def test_block_behind_an_unpublished_one_cannot_be_published():
    pool = BlockPool(3)
    parent, child = pool.allocate(2)
    with pytest.raises(AssertionError):
        pool.publish(child, parent, (1,))


def test_what_is_hardly_wanted_again_is_reused_before_what_is():
    pool = BlockPool(7)
    old = chain(pool, (1,), (2,))
    new = chain(pool, (3,), (4,), (5,))
    pool.release(old)
    pool.release(new, num_wanted=1)
    assert [pool.allocate(1)[0] for _ in range(3)] == [new[2], new[1], old[1]]
    assert pool.find(None, (3,)) == new[0]


def test_content_behind_one_that_was_given_up_is_not_found_behind_its_successor():
    pool = BlockPool(3)
    table = chain(pool, (1,), (2,))
    pool.release(table, num_wanted=0)
    pool.retain(table[1:])  # as somebody might who computed the beginning again
    pool.release(table[1:])
    assert pool.allocate(1) == table[:1]
    assert pool.publish(table[0], None, (7,)) == table[0]
    assert pool.find(table[0], (2,)) is None
