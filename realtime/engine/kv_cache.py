"""Keys and values of all sequences in pages, and how many pages there are. Knows no owner of a
page.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from models.spec import ModelSpec

_MIB = 1024 * 1024


@dataclass(frozen=True)
class KVCache:
    """Pages `[L, P, S, G, D]`: layers, blocks, slots of a block, kv heads, head_dim. See
    `models.attention.PagedKV`.
    """

    k: Tensor
    v: Tensor

    @classmethod
    def allocate(
        cls, spec: ModelSpec, num_blocks: int, block_size: int, *, device: str, dtype: torch.dtype
    ) -> "KVCache":
        """Reserve the pages. They are not written, so on the CPU memory is used as blocks are."""
        shape = (spec.num_layers, num_blocks, block_size, spec.num_kv_heads, spec.head_dim)
        return cls(*(torch.empty(shape, device=device, dtype=dtype) for _ in range(2)))


def block_bytes(spec: ModelSpec, block_size: int, dtype: torch.dtype) -> int:
    """Memory of one block in all layers, keys and values."""
    per_token = 2 * spec.num_layers * spec.num_kv_heads * spec.head_dim * dtype.itemsize
    return per_token * block_size


@dataclass(frozen=True, kw_only=True)
class KVSizing:
    """How many blocks the cache gets, and why.

    Attributes:
        bound: What decided: the configured memory, enough for all streams, or the free memory.
        num_bytes: Memory of all blocks.
        free_bytes: Memory that was free; `None` where the system does not say.
    """

    num_blocks: int
    bound: Literal["config", "streams", "free_memory"]
    num_bytes: int
    free_bytes: int | None


def size_cache(
    per_block: int,
    per_sequence: int,
    *,
    memory_mib: int,
    max_streams: int,
    free_bytes: int | None,
    margin_ratio: float,
) -> KVSizing:
    """Blocks for a memory budget; without one (0), for `max_streams` sequences of the trained
    length, or as many as free memory holds.

    Args:
        per_block: See `block_bytes`.
        per_sequence: Blocks of a sequence of the trained length.
        memory_mib: The budget.
        max_streams: Sequences at once.
        free_bytes: See `realtime.engine.memory`; `None` is no bound.
        margin_ratio: Share of `free_bytes` that stays free.

    Raises:
        ValueError: The memory does not hold one sequence of the trained length.
    """
    if memory_mib:
        bound, num_blocks = "config", memory_mib * _MIB // per_block
    else:
        bound, num_blocks = "streams", max_streams * per_sequence
        if free_bytes is not None:
            num_affordable = int(free_bytes * (1 - margin_ratio)) // per_block
            if num_affordable < num_blocks:
                bound, num_blocks = "free_memory", num_affordable
    if num_blocks < per_sequence:
        budget = (
            f"kv_memory_mib {memory_mib}"
            if free_bytes is None or bound == "config"
            else f"{free_bytes // _MIB} MiB of free memory, less a margin of {margin_ratio:.0%},"
        )
        raise ValueError(
            f"{budget} holds less than one sequence of the trained length, "
            f"which needs {-(-per_sequence * per_block // _MIB)} MiB"
        )
    return KVSizing(
        num_blocks=num_blocks,
        bound=bound,
        num_bytes=num_blocks * per_block,
        free_bytes=free_bytes,
    )
