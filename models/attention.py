"""Attention over a paged KV cache: what a step tells the model, and the plain-torch attending.

Knows pages and ragged rows; who owns a page, and why, is the engine's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from kernels import reference


class PagedKV(Protocol):
    """Keys and values of every layer in pages, read and written in place."""

    @property
    def k(self) -> Tensor:
        """``[L, P, S, G, D]``: layers, blocks, slots of a block, kv heads, head_dim."""
        ...

    @property
    def v(self) -> Tensor:
        """Likewise."""
        ...


@dataclass(frozen=True, kw_only=True)
class AttentionMeta:
    """Where a step's rows belong. Rows are ragged: decode and prefill of many sequences mixed.

    A row at position ``p`` sees positions ``0..p`` of its sequence; its own key and value are
    stored at its slot first. All tensors are on the model's device and contiguous.

    Attributes:
        positions: ``[T]`` int64, index of each row's token in its sequence.
        slot_mapping: ``[T]`` int64, ``block * block_size + offset`` of each row; all distinct.
        row_sequence: ``[T]`` int32, each row's line of ``block_tables``.
        context_lens: ``[num_sequences]`` int32, tokens of each sequence once the step is done.
        block_tables: ``[num_sequences, max_blocks]`` int32; what lies beyond a sequence's
            context is not read.
        output_rows: ``[R]`` int64, the rows whose hidden state is wanted.
    """

    positions: Tensor
    slot_mapping: Tensor
    row_sequence: Tensor
    context_lens: Tensor
    block_tables: Tensor
    output_rows: Tensor


@dataclass(frozen=True)
class PagedAttend:
    """``LanguageModel``'s attend callback over pages, by the plain-torch reference."""

    meta: AttentionMeta
    kv: PagedKV

    def __call__(self, layer_index: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Store ``k`` and ``v`` ``[T, G, D]``, attend ``q [T, H, D]``; return ``[T, H, D]``."""
        key_pages, value_pages = self.kv.k[layer_index], self.kv.v[layer_index]
        reference.store_kv(k, v, key_pages, value_pages, self.meta.slot_mapping)
        return reference.paged_attention(
            q,
            key_pages,
            value_pages,
            self.meta.positions,
            self.meta.row_sequence,
            self.meta.block_tables,
        )
