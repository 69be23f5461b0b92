"""Which KV blocks are free, how often each other one is held, and which ones can be found again by
what they hold. Knows block numbers and token ids; no sequences, no tensors.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

_Key = tuple[int | None, tuple[int, ...]]  # the content before, the tokens


class BlockPool:
    """Reference-counted blocks 0 .. num_blocks - 1 with a prefix cache over their contents.

    A block may have several holders (sequences that share a prefix). Without holders it is free,
    unless it was published: then it stays findable until its memory is wanted. `allocate` takes
    free blocks that were used before, then findable ones beyond `num_kept`, the longest unheld
    first, then blocks that were never used, as on the CPU the first use is what costs memory, and
    at last the remaining findable ones.

    Content is numbered as it is published: by the number of the content before it and its tokens.
    That pair is the dictionary's key and compared in full, so blocks of equal hash and other
    content never meet, and it stands for everything up to the block's last token. Numbers are not
    used again: what follows a content that was given up is never found behind another.

    Args:
        num_blocks: How many blocks the KV cache has.
        num_kept: Findable blocks without a holder that are kept rather than memory saved.

    Attributes:
        num_reused_total: Published blocks that were given away for new content.
    """

    def __init__(self, num_blocks: int, num_kept: int = 0) -> None:
        assert num_blocks > 0
        self._num_holders = [0] * num_blocks
        self._num_kept = num_kept
        self._num_used = 0  # the blocks from this one on were never handed out
        self._free: list[int] = []  # last released is first reused: still in the CPU's caches
        self._keys: list[_Key | None] = [None] * num_blocks
        self._contents = [-1] * num_blocks  # numbers; of published blocks
        self._num_contents = 0
        self._published: dict[_Key, int] = {}
        self._unheld: OrderedDict[int, None] = OrderedDict()  # published, in order of reuse
        self.num_reused_total = 0

    @property
    def num_blocks(self) -> int:
        """All blocks, free or held."""
        return len(self._num_holders)

    @property
    def num_free(self) -> int:
        """Blocks that `allocate` can hand out: all without a holder, findable or not."""
        return self.num_blocks - self._num_used + len(self._free) + len(self._unheld)

    @property
    def num_cached(self) -> int:
        """Findable blocks without a holder."""
        return len(self._unheld)

    def num_holders(self, block: int) -> int:
        """Sequences that hold a block."""
        return self._num_holders[block]

    def is_writable(self, block: int) -> bool:
        """Whether its only holder may write into it."""
        return self._num_holders[block] == 1 and self._keys[block] is None

    def allocate(self, count: int) -> list[int]:
        """Take `count` blocks with one holder each; the caller has checked `num_free`."""
        assert 0 <= count <= self.num_free
        taken = [self._take() for _ in range(count)]
        for block in taken:
            self._num_holders[block] = 1
        return taken

    def find(self, parent: int | None, tokens: tuple[int, ...]) -> int | None:
        """The published block with these tokens behind `parent` (`None`: at position 0), if any.

        It may be without a holder and thus go with the next `allocate`: retain it first.
        """
        return self._published.get(self._key(parent, tokens))

    def publish(self, block: int, parent: int | None, tokens: tuple[int, ...]) -> int:
        """Make a full, computed block findable; from now on nobody writes into it.

        Args:
            block: Held by the caller alone.
            parent: The published block before it, held by the caller; `None` at position 0.
            tokens: Its content.

        Returns:
            The block to hold from now on: `block`, or the one that was published with this content
            before; `block` is then free and the caller one of the other's holders.
        """
        assert self.is_writable(block), f"block {block} is shared or published"
        assert parent is None or (self._num_holders[parent] and self._keys[parent] is not None)
        key = self._key(parent, tokens)
        known = self._published.get(key)
        if known is not None:
            self.retain([known])
            self.release([block])
            return known
        self._published[key] = block
        self._keys[block] = key
        self._contents[block] = self._num_contents
        self._num_contents += 1
        return block

    def retain(self, blocks: Iterable[int]) -> None:
        """Add a holder to blocks that are held or published."""
        for block in blocks:
            assert self._num_holders[block] or self._keys[block] is not None, f"{block} is free"
            if not self._num_holders[block]:
                del self._unheld[block]
            self._num_holders[block] += 1

    def release(self, chain: Sequence[int], num_wanted: int | None = None) -> None:
        """Remove a holder from each block; those without one become free, or stay findable.

        The end of a chain is given up before its beginning, as it is of no use without it.

        Args:
            chain: Blocks in the order of their positions, to the end of what the holder has.
            num_wanted: How many of the first ones are likely to be looked for; the others are given
                up before all that are. `None`: all.
        """
        for block in reversed(chain if num_wanted is None else chain[:num_wanted]):
            self._let_go(block)
        for block in chain[len(chain) if num_wanted is None else num_wanted :]:
            if self._let_go(block):
                self._unheld.move_to_end(block, last=False)

    def _let_go(self, block: int) -> bool:
        """Remove a holder; whether the block is now unheld and findable."""
        assert self._num_holders[block] > 0, f"block {block} is free"
        self._num_holders[block] -= 1
        if self._num_holders[block]:
            return False
        if self._keys[block] is None:
            self._free.append(block)
            return False
        self._unheld[block] = None
        return True

    def _key(self, parent: int | None, tokens: tuple[int, ...]) -> _Key:
        return None if parent is None else self._contents[parent], tokens

    def _take(self) -> int:
        if self._free:
            return self._free.pop()
        if len(self._unheld) <= self._num_kept and self._num_used < self.num_blocks:
            self._num_used += 1
            return self._num_used - 1
        block, _ = self._unheld.popitem(last=False)
        key = self._keys[block]
        assert key is not None
        del self._published[key]
        self._keys[block] = None
        self.num_reused_total += 1
        return block

    def check_invariants(self, holders: Iterable[Iterable[int]]) -> None:
        """Assert that the counts equal what `holders` (one block table each) hold, that the rest is
        free or findable, once, and that what is held is held from position 0 on.
        """
        counted = [0] * self.num_blocks
        for table in holders:
            for block in table:
                counted[block] += 1
        assert counted == self._num_holders, "reference counts differ from the holders' tables"
        free = {*self._free, *range(self._num_used, self.num_blocks)}
        assert len(free) == len(self._free) + self.num_blocks - self._num_used, "free twice"
        assert not free & self._unheld.keys(), "a block is free and findable"
        assert free | self._unheld.keys() == {b for b, count in enumerate(counted) if not count}
        keys = {block: key for block, key in enumerate(self._keys) if key is not None}
        assert self._published == {key: block for block, key in keys.items()}
        assert self._unheld.keys() <= keys.keys(), "an unheld block cannot be found"
        contents = {self._contents[block]: block for block in keys}
        for block, (before, _) in keys.items():
            if counted[block] and before is not None:
                assert counted[contents[before]] >= counted[block], "a child is held alone"
