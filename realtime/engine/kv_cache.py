"""Keys and values of all sequences in pages, and how many pages there are. Knows no owner of a
page.
"""

from dataclasses import dataclass

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


def choose_num_blocks(
    spec: ModelSpec, block_size: int, dtype: torch.dtype, *, memory_mib: int, max_streams: int
) -> int:
    """Blocks for a memory budget; without one (0), for `max_streams` sequences of the trained
    length.

    Raises:
        ValueError: The budget does not hold one sequence of the trained length.
    """
    per_sequence = -(-spec.max_positions // block_size)
    if not memory_mib:
        return max_streams * per_sequence
    num_blocks = memory_mib * _MIB // block_bytes(spec, block_size, dtype)
    if num_blocks < per_sequence:
        needed = -(-per_sequence * block_bytes(spec, block_size, dtype) // _MIB)
        raise ValueError(
            f"kv_memory_mib {memory_mib} holds less than one sequence, which needs {needed}"
        )
    return num_blocks
