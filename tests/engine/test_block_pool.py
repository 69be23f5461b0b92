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
