"""Logits to tokens: pure functions over rows, each row's outcome a function of that row alone.

A row's token depends on its logits, settings, seed and draw index, never on which rows it shares a
step with: every operation here works along a row, the random number is counter-based, and the
arithmetic is float64 so that how a vector unit splits a batch cannot matter.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_WEYL = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_UNIFORM_BITS = 53


@dataclass(frozen=True, kw_only=True)
class SamplingRows:
    """How each of R rows is drawn. Meanings as in `realtime.wire.Sampling`.

    `None` stands for "no row uses it" and changes no row's outcome.

    Attributes:
        uniform: The rows' random numbers in [0, 1), float64 `[R]`.
        temperature: float64 `[R]`; 0 is greedy.
        min_p: float64 `[R]`.
        filtered: int64 `[M]`, rows that use top-k or top-p.
        top_k: Of those rows, int64 `[M]`; 0 keeps all.
        top_p: Of those rows, float64 `[M]`.
        repetition_penalty: float64 `[R]`.
        recent: int64 `[R, W]`, columns that the penalty applies to, padded with the number of
            columns.
    """

    uniform: Tensor
    temperature: Tensor
    min_p: Tensor | None = None
    filtered: Tensor | None = None
    top_k: Tensor | None = None
    top_p: Tensor | None = None
    repetition_penalty: Tensor | None = None
    recent: Tensor | None = None


def uniforms(seed: NDArray[np.int64], index: NDArray[np.int64]) -> NDArray[np.float64]:
    """Counter-based random numbers: SplitMix64 (Steele et al., OOPSLA 2014), a stream a seed.

    Args:
        seed: `[R]`.
        index: Position in the seed's stream, `[R]`.

    Returns:
        `[R]` in [0, 1).
    """
    start = _scramble(seed.astype(np.uint64) * _WEYL + _MIX_1)
    state = start + (index.astype(np.uint64) + np.uint64(1)) * _WEYL
    bits = _scramble(state) >> np.uint64(64 - _UNIFORM_BITS)
    return bits.astype(np.float64) * 2.0**-_UNIFORM_BITS


def draw_columns(logits: Tensor, rows: SamplingRows) -> Tensor:
    """Draw one column a row.

    The repetition penalty acts on the logits, then temperature, then min-p, then top-k, then top-p
    over what these leave; the token is found by inverting the cumulative distribution in column
    order.

    Args:
        logits: `[R, C]`, `-inf` where illegal; at least one finite column a row.
        rows: The rows' settings.

    Returns:
        int64 `[R]`.
    """
    logits = logits.double()
    if rows.recent is not None and rows.repetition_penalty is not None:
        logits = _penalise(logits, rows.recent, rows.repetition_penalty)
    is_greedy = rows.temperature == 0
    best, best_column = logits.max(1)
    scale = rows.temperature.masked_fill(is_greedy, 1.0)
    weights = (logits - best[:, None]).div_(scale[:, None]).exp_()
    if rows.min_p is not None:
        weights.masked_fill_(weights < rows.min_p[:, None], 0.0)
    if rows.filtered is not None and rows.top_k is not None and rows.top_p is not None:
        weights[rows.filtered] = _nucleus(weights[rows.filtered], rows.top_k, rows.top_p)
    cumulative = weights.cumsum(1)
    target = rows.uniform[:, None] * cumulative[:, -1:]
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


def _scramble(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = (state ^ (state >> np.uint64(30))) * _MIX_1
    state = (state ^ (state >> np.uint64(27))) * _MIX_2
    return state ^ (state >> np.uint64(31))
