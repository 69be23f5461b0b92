"""Which tokens of which sequence are in the KV cache: reserve, find, publish, evict, release.

Moves blocks between the pool and the sequences' tables; knows nothing of slots, deadlines or
messages.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from realtime.engine.block_pool import BlockPool
from realtime.engine.sequence import Sequence

Claim = Callable[[Sequence], tuple[int, ...]]


def claim(sequence: Sequence) -> tuple[int, ...]:
    """How strongly a sequence holds its blocks: the smaller, the sooner it loses them.

    Those without a listener first, then idle ones before active ones, the youngest first.
    """
    return not sequence.is_batch, not sequence.is_idle, -sequence.arrival


class Residency:
    """Keeps every sequence's block table.

    Full blocks are published once they are computed. A sequence with tokens to compute (new,
    restarted, evicted) takes the longest published chain that its tokens begin with and computes
    only the rest. At least one token always is left, as its logits are wanted.

    A published or shared block is never written: it is full, and what a sequence computes lies
    behind it.

    Args:
        num_blocks: Blocks of the KV cache.
        block_size: Tokens a block.
        has_prefix_cache: Without it, nothing is published or found.
        num_kept: Findable blocks that are kept rather than memory saved; see `BlockPool`.
        claim: Orders the sequences that may lose their blocks; only those with a smaller claim than
            the needy one lose them.

    Attributes:
        num_evicted_total: Times that a sequence lost its blocks to another.
        num_prefilled_total: Tokens computed more than one at a time.
        num_found_total: Tokens that were found instead.
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        *,
        has_prefix_cache: bool = True,
        num_kept: int = 0,
        claim: Claim = claim,
    ) -> None:
        self._pool = BlockPool(num_blocks, num_kept)
        self._block_size = block_size
        self._has_prefix_cache = has_prefix_cache
        self._claim = claim
        self.num_evicted_total = 0
        self.num_prefilled_total = 0
        self.num_found_total = 0

    @property
    def num_free(self) -> int:
        """Blocks that nobody holds."""
        return self._pool.num_free

    @property
    def num_cached(self) -> int:
        """Blocks that nobody holds and that can still be found."""
        return self._pool.num_cached

    @property
    def num_reused_total(self) -> int:
        """Findable blocks whose content gave way to new content."""
        return self._pool.num_reused_total

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks that so many tokens fill."""
        return -(-num_tokens // self._block_size)

    def num_reclaimable(self, sequences: Iterable[Sequence]) -> int:
        """Blocks that one of these sequences holds and nobody else: free if it lost them."""
        return sum(len(s.block_ids) - self._num_shared(s.block_ids) for s in sequences)

    def attach(self, sequence: Sequence, running: Iterable[Sequence]) -> None:
        """Give a sequence what the cache has of the tokens that it is about to compute.

        Lowers `num_uncomputed`, so it comes before a step's tokens are shared out. Where others
        have computed further along the same tokens since, it goes on with their blocks. An evicted
        sequence that cannot come back yet gets nothing: it would keep blocks from those that run.

        Args:
            sequence: One that takes part in the next step.
            running: Who may be evicted for it.
        """
        if not self._has_prefix_cache or sequence.num_uncomputed <= 1:
            return
        num_kept = sequence.num_published
        parent = sequence.block_ids[num_kept - 1] if num_kept else None
        found: list[int] = []
        for index in range(num_kept, (len(sequence.token_ids) - 1) // self._block_size):
            parent = self._pool.find(parent, self._tokens(sequence, index))
            if parent is None:
                break
            found.append(parent)
        if found and (not sequence.is_evicted or self._can_return(sequence, found, running)):
            self._replace(sequence, num_kept, found)

    def _can_return(
        self, sequence: Sequence, found: list[int], running: Iterable[Sequence]
    ) -> bool:
        """Whether an evicted sequence would have room for all its tokens, some being found."""
        num_free = self._pool.num_free - sum(not self._pool.num_holders(block) for block in found)
        missing = self.blocks_for(len(sequence.token_ids)) - len(found) - num_free
        return missing <= 0 or self._would_free(self._weaker(sequence, running), missing)

    def _replace(self, sequence: Sequence, num_kept: int, found: list[int]) -> None:
        """Continue a table behind its first `num_kept` blocks with published ones."""
        num_computed = (num_kept + len(found)) * self._block_size
        sequence.num_found += num_computed - sequence.num_computed
        self._pool.retain(found)
        self._pool.release(sequence.cut_cache(num_kept, num_kept * self._block_size))
        sequence.attach_blocks(found, num_computed)

    def reserve(
        self, sequence: Sequence, count: int, running: Iterable[Sequence]
    ) -> tuple[bool, list[Sequence]]:
        """Have blocks for the next `count` tokens (for all tokens after an eviction).

        Args:
            sequence: Whose tokens they are.
            count: No more than are uncomputed.
            running: Who may be evicted for it.

        Returns:
            Whether it has them, and who was evicted: if it has not, nobody or itself.
        """
        length = len(sequence.token_ids) if sequence.is_evicted else sequence.num_computed + count
        missing = self.blocks_for(length) - len(sequence.block_ids)
        evicted: list[Sequence] = []
        if missing > self._pool.num_free:
            weaker = self._weaker(sequence, running)
            if not self._would_free(weaker, missing - self._pool.num_free):
                if sequence.block_ids:
                    self._evict(sequence)
                    evicted.append(sequence)
                return False, evicted
            while missing > self._pool.num_free:
                evicted.append(weaker.pop())
                self._evict(evicted[-1])
        if missing > 0:
            sequence.add_blocks(self._pool.allocate(missing))
        sequence.is_evicted = False
        first = sequence.block_ids[sequence.num_computed // self._block_size]
        assert self._pool.is_writable(first), "would write into a shared or published block"
        self.num_found_total += sequence.num_found
        sequence.num_found = 0
        return True, evicted

    def commit(self, sequence: Sequence, num_computed: int) -> None:
        """Take over that a step has computed the first `num_computed` tokens; publish the blocks
        that it filled.
        """
        if num_computed > sequence.num_computed + 1:
            self.num_prefilled_total += num_computed - sequence.num_computed
        sequence.num_computed = num_computed
        if not self._has_prefix_cache:
            return
        for index in range(sequence.num_published, num_computed // self._block_size):
            parent = sequence.block_ids[index - 1] if index else None
            block = self._pool.publish(
                sequence.block_ids[index], parent, self._tokens(sequence, index)
            )
            sequence.publish_block(index, block)

    def rewind(self, sequence: Sequence) -> None:
        """Make a sequence consistent whose last tokens were taken away (`token_ids` is shorter).

        The last token is to be computed again, as its logits are wanted. A published block that it
        lies in cannot be written again: it is let go, and computed anew from its first token.
        """
        last = len(sequence.token_ids) - 1
        if last // self._block_size < sequence.num_published:
            num_blocks = last // self._block_size
            num_computed = num_blocks * self._block_size
        else:
            num_blocks = self.blocks_for(len(sequence.token_ids))
            num_computed = min(sequence.num_computed, last)
        self._pool.release(sequence.cut_cache(num_blocks, num_computed))

    def release(self, sequence: Sequence) -> None:
        """Take back all blocks of a sequence that ends or restarts.

        Its prompt may be spoken again; the speech behind it is found only with the same seed, and
        gives way before what preempted sequences come back for.
        """
        num_wanted = sequence.num_prompt_tokens // self._block_size
        self._pool.release(sequence.forget_cache(), num_wanted)

    def check_invariants(self, running: Iterable[Sequence]) -> None:
        """Assert that pool and tables agree, and that published blocks hold their sequence's
        tokens.
        """
        running = list(running)
        self._pool.check_invariants(sequence.block_ids for sequence in running)
        for sequence in running:
            assert len(sequence.block_ids) * self._block_size >= sequence.num_computed
            assert sequence.num_published * self._block_size <= sequence.num_computed
            parent = None
            for index in range(sequence.num_published):
                parent = self._pool.find(parent, self._tokens(sequence, index))
                assert parent == sequence.block_ids[index], "a block holds other tokens"
            for block in sequence.block_ids[sequence.num_published :]:
                assert self._pool.is_writable(block)

    def _tokens(self, sequence: Sequence, index: int) -> tuple[int, ...]:
        start = index * self._block_size
        return tuple(sequence.token_ids[start : start + self._block_size])

    def _num_shared(self, table: tuple[int, ...]) -> int:
        """Blocks of a table that others hold too: its beginning, found by halving."""
        low, high = 0, len(table)
        while low < high:
            middle = (low + high) // 2
            if self._pool.num_holders(table[middle]) > 1:
                low = middle + 1
            else:
                high = middle
        return low

    def _weaker(self, needy: Sequence, running: Iterable[Sequence]) -> list[Sequence]:
        """Whose blocks `needy` may take, the smallest claim last."""
        own = self._claim(needy)
        weaker = [s for s in running if s is not needy and s.block_ids and self._claim(s) < own]
        return sorted(weaker, key=self._claim, reverse=True)

    def _would_free(self, sequences: list[Sequence], count: int) -> bool:
        """Whether `count` more blocks were free if all these sequences lost theirs.

        Evicting some and yet not having enough would cost them their work for nothing.
        """
        num_free = self.num_reclaimable(sequences)
        if num_free >= count:
            return True
        shared = Counter(
            block for s in sequences for block in s.block_ids[: self._num_shared(s.block_ids)]
        )
        num_free += sum(self._pool.num_holders(block) == n for block, n in shared.items())
        return num_free >= count

    def _evict(self, sequence: Sequence) -> None:
        self._pool.release(sequence.forget_cache())
        if not sequence.is_evicted:  # else it had only been given what the cache had
            self.num_evicted_total += 1
        sequence.is_evicted = True
