"""Every kernel's definition in plain torch: the slow twin that the fast ones are tested against.

Written for reading; also what runs where no compiler is at hand. Works on any device and dtype.
Letters: T rows of the step, H heads, G kv heads, D head_dim, P blocks, S block_size, V
vocabulary, R output rows.
"""

from __future__ import annotations

import torch
from torch import Tensor


def rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """Scale rows to unit root mean square, then by ``weight``.

    Args:
        x: ``[..., size]``.
        weight: ``[size]``.
        epsilon: Added to the mean square.

    Returns:
        ``[..., size]``, dtype of ``x``.
    """
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)
    return (wide * scale).to(x.dtype) * weight


def rotary_tables(head_dim: int, max_positions: int, theta: float) -> tuple[Tensor, Tensor]:
    """Cosines and sines of rotary position embedding (RoFormer, arXiv 2104.09864).

    Returns:
        Two float32 tensors ``[max_positions, D / 2]`` on the CPU.
    """
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
    angles = torch.outer(torch.arange(max_positions, dtype=torch.float32), theta**-exponents)
    return angles.cos(), angles.sin()


def rotate(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotate every head by its row's position, Hugging Face's "rotate half" convention.

    Args:
        heads: ``[T, H, D]``; element ``i`` of a head pairs with ``i + D / 2``.
        cosine: ``[T, D / 2]``, the table's rows at the positions of ``heads``.
        sine: Likewise.

    Returns:
        ``[T, H, D]``.
    """
    first, second = heads.chunk(2, dim=-1)
    cosine, sine = cosine.unsqueeze(1).to(heads.dtype), sine.unsqueeze(1).to(heads.dtype)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """``x [..., depth]`` times ``weight [columns, depth]`` transposed: ``[..., columns]``."""
    return x @ weight.mT


def swiglu(x: Tensor, gate: Tensor, up: Tensor) -> Tensor:
    """``silu(x gate^T) * (x up^T)`` (arXiv 2002.05202): ``[..., depth]`` to ``[..., ffn]``."""
    return torch.nn.functional.silu(linear(x, gate)) * linear(x, up)


def store_kv(
    keys: Tensor, values: Tensor, key_pages: Tensor, value_pages: Tensor, slot_mapping: Tensor
) -> None:
    """Write the rows' keys and values into one layer's pages, in place.

    Args:
        keys: ``[T, G, D]``.
        values: ``[T, G, D]``.
        key_pages: ``[P, S, G, D]``.
        value_pages: ``[P, S, G, D]``.
        slot_mapping: ``[T]`` int64, ``block * S + offset`` of each row.
    """
    key_pages.flatten(0, 1)[slot_mapping] = keys.to(key_pages.dtype)
    value_pages.flatten(0, 1)[slot_mapping] = values.to(value_pages.dtype)


def paged_attention(
    queries: Tensor,
    key_pages: Tensor,
    value_pages: Tensor,
    positions: Tensor,
    row_sequence: Tensor,
    block_tables: Tensor,
) -> Tensor:
    """Causal attention of ragged rows over paged keys and values of one layer.

    A row at position ``p`` of sequence ``s`` sees the keys at positions ``0..p`` of ``s``, its
    own among them, so they must be stored first. Rows may be any mix of prefill and decode.

    Args:
        queries: ``[T, H, D]``.
        key_pages: ``[P, S, G, D]``; ``H`` is a multiple of ``G``.
        value_pages: ``[P, S, G, D]``.
        positions: ``[T]`` int64.
        row_sequence: ``[T]`` int32, each row's line of ``block_tables``.
        block_tables: ``[num_sequences, max_blocks]`` int32; entries beyond a sequence's last
            visible position are not read.

    Returns:
        ``[T, H, D]``, dtype of ``queries``.
    """
    out = torch.empty_like(queries)
    block_size = key_pages.shape[1]
    repeats = queries.shape[1] // key_pages.shape[2]
    for sequence in row_sequence.unique().tolist():
        rows = (row_sequence == sequence).nonzero().squeeze(1)
        visible = int(positions[rows].max()) + 1
        blocks = block_tables[sequence, : -(-visible // block_size)].long()
        keys = key_pages[blocks].flatten(0, 1)[:visible].repeat_interleave(repeats, dim=1)
        values = value_pages[blocks].flatten(0, 1)[:visible].repeat_interleave(repeats, dim=1)

        scores = torch.einsum("thd,chd->htc", queries[rows], keys.to(queries.dtype))
        hidden = torch.arange(visible, device=rows.device) > positions[rows].unsqueeze(1)
        scores = (scores * queries.shape[-1] ** -0.5).masked_fill(hidden, float("-inf"))
        weights = scores.float().softmax(-1).to(queries.dtype)
        out[rows] = torch.einsum("htc,chd->thd", weights, values.to(queries.dtype))
    return out


def head_logits(hidden: Tensor, blocks: list[Tensor], block_of_row: Tensor) -> Tensor:
    """Logits of each row over the codes that are legal at its frame position.

    Args:
        hidden: ``[R, size]`` after the final norm.
        blocks: One matrix a frame position: ``[K + 1, size]`` where end-of-speech is legal (its
            row is the last), ``[K, size]`` elsewhere.
        block_of_row: ``[R]`` int64, each row's frame position.

    Returns:
        ``[R, K + 1]``; the last column is end-of-speech, ``-inf`` where illegal.
    """
    width = max(block.shape[0] for block in blocks)
    logits = hidden.new_full((hidden.shape[0], width), float("-inf"))
    for index, block in enumerate(blocks):
        rows = (block_of_row == index).nonzero().squeeze(1)
        logits[rows, : block.shape[0]] = linear(hidden[rows], block)
    return logits
