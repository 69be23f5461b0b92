"""Logits to tokens: pure functions over rows, each row's outcome a function of that row alone.

A draw takes the largest of logit / temperature + Gumbel noise, which is a sample of the softmax
(Gumbel-max). The noise is a function of the request's seed and the draw's index, so a stream is
the same in any company, after preemption, and when a draft is verified; and two ways of computing
the logits part only where the two best sums nearly tie. Division, addition and comparison are
exact operations, so how a vector unit splits a batch cannot matter either.
"""

import functools
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_WEYL = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_UNIFORM_BITS = 53
_NOISE_LENGTH = 1 << 20
_NOISE_SEED = 20261130


@dataclass(frozen=True, kw_only=True)
class SamplingRows:
    """How each of R rows is drawn. Meanings as in `realtime.wire.Sampling`.

    `None` stands for "no row uses it" and changes no row's outcome.

    Attributes:
        window: Where each row's noise starts in the table, int64 `[R]`; see `noise_window`.
        temperature: float32 `[R]`; 1 where greedy.
        noise_scale: float32 `[R]`; 0 where greedy, else 1.
        least: Logits further below the best than this are dropped, float32 `[R]`, from min-p.
        filtered: int64 `[M]`, rows that use top-k or top-p.
        top_k: Of those rows, int64 `[M]`; 0 keeps all.
        top_p: Of those rows, float64 `[M]`.
        repetition_penalty: float32 `[R]`.
        recent: int64 `[R, W]`, columns that the penalty applies to, padded with the number of
            columns.
        barred: int64 `[R, B]`, columns that may not be drawn, padded likewise.
    """

    window: Tensor
    temperature: Tensor
    noise_scale: Tensor | None = None
    least: Tensor | None = None
    filtered: Tensor | None = None
    top_k: Tensor | None = None
    top_p: Tensor | None = None
    repetition_penalty: Tensor | None = None
    recent: Tensor | None = None
    barred: Tensor | None = None


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


def noise_window(
    seed: NDArray[np.int64], index: NDArray[np.int64], num_columns: int
) -> NDArray[np.int64]:
    """Where the noise of draw `index` of a stream starts in the table, int64 `[R]`.

    Two draws have noise in common only where their windows overlap, which a thousand columns in a
    million make rare, and then in different columns.
    """
    return (uniforms(seed, index) * (_NOISE_LENGTH - num_columns + 1)).astype(np.int64)


@functools.cache
def gumbel_windows(num_columns: int, device: str) -> Tensor:
    """Every window of the noise table, float32 `[2**20 - C + 1, C]`: a view of 4 MB."""
    u = uniforms(np.full(_NOISE_LENGTH, _NOISE_SEED), np.arange(_NOISE_LENGTH))
    noise = -np.log(-np.log(u + 2.0 ** -(_UNIFORM_BITS + 1)))
    table = torch.from_numpy(noise.astype(np.float32)).to(device)
    return table.unfold(0, num_columns, 1)


def draw_columns(logits: Tensor, rows: SamplingRows) -> Tensor:
    """Draw one column a row.

    Barred columns are left out, then the repetition penalty acts on the logits, then temperature,
    then min-p and top-k, then top-p over what these leave.

    Args:
        logits: `[R, C]`, `-inf` where illegal; at least one finite column a row.
        rows: The rows' settings.

    Returns:
        int64 `[R]`.
    """
    return perturbed(logits, rows).argmax(1)


def perturbed(logits: Tensor, rows: SamplingRows) -> Tensor:
    """The sums whose largest is drawn, float32 `[R, C]`; `-inf` where a column is filtered out."""
    logits = logits.float()
    if rows.barred is not None:
        logits = logits.masked_fill(_columns(logits, rows.barred), float("-inf"))
    if rows.recent is not None and rows.repetition_penalty is not None:
        logits = _penalise(logits, rows.recent, rows.repetition_penalty)
    scaled = logits / rows.temperature[:, None]
    if rows.least is not None:
        best = scaled.amax(1, keepdim=True)
        scaled = scaled.masked_fill(scaled < best + rows.least[:, None], float("-inf"))
    if rows.filtered is not None and rows.top_k is not None and rows.top_p is not None:
        scaled[rows.filtered] = _nucleus(scaled[rows.filtered], rows.top_k, rows.top_p)
    noise = gumbel_windows(logits.shape[1], str(logits.device))[rows.window]
    if rows.noise_scale is not None:
        noise = noise * rows.noise_scale[:, None]
    return scaled + noise


def _penalise(logits: Tensor, recent: Tensor, penalty: Tensor) -> Tensor:
    """Divide positive and multiply negative logits of recent columns by the penalty.

    The form of CTRL (arXiv 1909.05858).
    """
    is_recent = _columns(logits, recent)
    factor = penalty[:, None]
    return torch.where(is_recent, torch.where(logits > 0, logits / factor, logits * factor), logits)


def _columns(logits: Tensor, listed: Tensor) -> Tensor:
    """Which columns of `[R, C]` are listed, bool; `listed` is padded with C."""
    num_rows, num_columns = logits.shape
    is_listed = torch.zeros(num_rows, num_columns + 1, dtype=torch.bool, device=logits.device)
    return is_listed.scatter_(1, listed, value=True)[:, :-1]


def _nucleus(scaled: Tensor, top_k: Tensor, top_p: Tensor) -> Tensor:
    """Drop what is below the k-th logit, then what lies outside the top-p mass.

    Ties with the last one kept stay. float64, so that rounding does not depend on the batch.
    """
    num_columns = scaled.shape[1]
    descending = scaled.sort(1, descending=True).values
    kth = torch.where(top_k > 0, top_k.clamp(max=num_columns), num_columns) - 1
    least = descending.gather(1, kth[:, None])
    weights = (descending - descending[:, :1]).double().exp()
    weights = weights.masked_fill(descending < least, 0.0)
    cumulative = weights.cumsum(1)
    is_kept = cumulative - weights < top_p[:, None] * cumulative[:, -1:]
    last = is_kept.sum(1, keepdim=True).clamp(min=1) - 1
    least = torch.maximum(least, descending.gather(1, last))
    return scaled.masked_fill(scaled < least, float("-inf"))


def _scramble(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = (state ^ (state >> np.uint64(30))) * _MIX_1
    state = (state ^ (state >> np.uint64(27))) * _MIX_2
    return state ^ (state >> np.uint64(31))
