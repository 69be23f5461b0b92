"""Which KV blocks are free and how often each other one is held. Knows block numbers only: no
tokens, no tensors.
"""

from collections.abc import Iterable


class BlockPool:
    """Reference-counted free list over blocks 0 .. num_blocks - 1.

    A block may have several holders (sequences that share a prefix); it is free again when the last
    one releases it.

    Args:
        num_blocks: How many blocks the KV cache has.
    """

    def __init__(self, num_blocks: int) -> None:
        assert num_blocks > 0
        self._num_holders = [0] * num_blocks
        self._free = list(
            range(num_blocks - 1, -1, -1)
        )  # last released is first reused: still in the CPU's caches

    @property
    def num_blocks(self) -> int:
        """All blocks, free or held."""
        return len(self._num_holders)

    @property
    def num_free(self) -> int:
        """Blocks that `allocate` can hand out."""
        return len(self._free)

    def allocate(self, count: int) -> list[int]:
        """Take `count` blocks with one holder each; the caller has checked `num_free`."""
        assert 0 <= count <= len(self._free)
        taken = [self._free.pop() for _ in range(count)]
        for block in taken:
            self._num_holders[block] = 1
        return taken

    def retain(self, blocks: Iterable[int]) -> None:
        """Add a holder to blocks that are already held."""
        for block in blocks:
            assert self._num_holders[block] > 0, f"block {block} is free"
            self._num_holders[block] += 1

    def release(self, blocks: Iterable[int]) -> None:
        """Remove a holder from each block; those without one become free."""
        for block in blocks:
            assert self._num_holders[block] > 0, f"block {block} is free"
            self._num_holders[block] -= 1
            if not self._num_holders[block]:
                self._free.append(block)

    def check_invariants(self, holders: Iterable[Iterable[int]]) -> None:
        """Assert that the counts equal what `holders` (one block table each) hold, and that the
        rest is free once.
        """
        counted = [0] * self.num_blocks
        for table in holders:
            for block in table:
                counted[block] += 1
        assert counted == self._num_holders, "reference counts differ from the holders' tables"
        free = set(self._free)
        assert len(free) == len(self._free), "a block is free twice"
        assert free == {block for block, count in enumerate(counted) if count == 0}
