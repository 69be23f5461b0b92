"""Logits to tokens: pure functions over rows, each row's outcome a function of that row alone.

A row's token depends on its logits, settings, seed and draw index, never on which rows it shares a
step with: every operation here works along a row, the random number is counter-based, and the
arithmetic is float64 so that how a vector unit splits a batch cannot matter.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

_UNIFORM_BITS = 53
_WEYL = -7046029254386353131  # 0x9E3779B97F4A7C15 as int64
_MIX_1 = -4658895280553007687  # 0xBF58476D1CE4E5B9
_MIX_2 = -7723592293110705685  # 0x94D049BB133111EB


@dataclass(frozen=True, kw_only=True)
class SamplingRows:
    """How each of R rows is drawn. Meanings as in `realtime.wire.Sampling`; all `[R]`.

    Attributes:
        temperature: float64; 0 is greedy.
        top_k: int64; 0 keeps all.
        top_p: float64.
        min_p: float64.
        repetition_penalty: float64.
        seed: int64.
        draw_index: int64.
        recent: int64 `[R, W]`, columns that the penalty applies to; the number of columns where
            there is none. `None` where no row has any.
    """

    temperature: Tensor
    top_k: Tensor
    top_p: Tensor
    min_p: Tensor
    repetition_penalty: Tensor
    seed: Tensor
    draw_index: Tensor
    recent: Tensor | None = None


def uniforms(seed: Tensor, index: Tensor) -> Tensor:
    """Counter-based random numbers: SplitMix64 (Steele et al., OOPSLA 2014) of a seed's own stream
    at an index.

    Args:
        seed: int64 `[R]`.
        index: int64 `[R]`.

    Returns:
        float64 `[R]` in [0, 1).
    """
    state = _scramble(seed * _WEYL + _MIX_1) + (index + 1) * _WEYL
    bits = _shift_right(_scramble(state), 64 - _UNIFORM_BITS)
    return bits.double() * 2.0**-_UNIFORM_BITS


def draw_columns(logits: Tensor, rows: SamplingRows) -> Tensor:
    """Draw one column a row.

    The repetition penalty acts on the logits, then temperature, then top-k and min-p, then top-p
    over what these leave; the token is found by inverting the cumulative distribution in column
    order.

    Args:
        logits: `[R, C]`, `-inf` where illegal; at least one finite column a row.
        rows: The rows' settings.

    Returns:
        int64 `[R]`.
    """
    logits = logits.double()
    if rows.recent is not None:
        logits = _penalise(logits, rows.recent, rows.repetition_penalty)
    is_greedy = rows.temperature == 0
    best, best_column = logits.max(1)
    scale = torch.where(is_greedy, 1.0, rows.temperature)
    weights = ((logits - best[:, None]) / scale[:, None]).exp_()
    weights = weights.masked_fill(weights < rows.min_p[:, None], 0.0)
    sorting = ((rows.top_k > 0) | (rows.top_p < 1)).nonzero()[:, 0]
    if sorting.numel():
        weights[sorting] = _nucleus(weights[sorting], rows.top_k[sorting], rows.top_p[sorting])
    cumulative = weights.cumsum(1)
    target = uniforms(rows.seed, rows.draw_index)[:, None] * cumulative[:, -1:]
    column = (cumulative <= target).sum(1)
    return torch.where(is_greedy, best_column, column)


def _penalise(logits: Tensor, recent: Tensor, penalty: Tensor) -> Tensor:
    """Divide positive and multiply negative logits of recent columns by the penalty (CTRL, arXiv
    1909.05858).
    """
    num_rows, num_columns = logits.shape
    is_recent = torch.zeros(num_rows, num_columns + 1, dtype=torch.bool, device=logits.device)
    is_recent = is_recent.scatter_(1, recent, value=True)[:, :-1]
    factor = penalty[:, None]
    return torch.where(is_recent, torch.where(logits > 0, logits / factor, logits * factor), logits)


def _nucleus(weights: Tensor, top_k: Tensor, top_p: Tensor) -> Tensor:
    """Zero what is below the k-th weight, then what lies outside the top-p mass; ties with the last
    kept weight stay.
    """
    num_columns = weights.shape[1]
    descending = weights.sort(1, descending=True).values
    kth = torch.where(top_k > 0, top_k.clamp(max=num_columns), num_columns) - 1
    least = descending.gather(1, kth[:, None])
    descending = descending.masked_fill(descending < least, 0.0)
    cumulative = descending.cumsum(1)
    is_kept = cumulative - descending < top_p[:, None] * cumulative[:, -1:]
    last = is_kept.sum(1, keepdim=True).clamp(min=1) - 1
    least = torch.maximum(least, descending.gather(1, last))
    return weights.masked_fill(weights < least, 0.0)


def _scramble(state: Tensor) -> Tensor:
    state = (state ^ _shift_right(state, 30)) * _MIX_1
    state = (state ^ _shift_right(state, 27)) * _MIX_2
    return state ^ _shift_right(state, 31)


def _shift_right(value: Tensor, bits: int) -> Tensor:
    """Logical shift of int64: torch's own copies the sign."""
    return (value >> bits) & ((1 << (64 - bits)) - 1)
