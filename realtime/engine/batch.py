"""Static buffers that a plan is written into, row by row.

Knows how a step looks to the model, not who is in it.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.attention import AttentionMeta
from realtime.engine.plan import Draw, SequenceSlice, StepPlan
from realtime.engine.sampling import SamplingRows, noise_window


@dataclass(frozen=True, kw_only=True)
class StepBatch:
    """One step's inputs on the device. Views of the buffers: valid until the next `fill`.

    Attributes:
        token_ids: int64 `[T]`.
        meta: Positions and pages of the rows.
        position_in_frame: int64 `[R]`, of the tokens to draw.
        is_end_barred: bool `[R]`.
        sampling: Settings of the R draws.
    """

    token_ids: Tensor
    meta: AttentionMeta
    position_in_frame: Tensor
    is_end_barred: Tensor
    sampling: SamplingRows


class StepBuffers:
    """Fills a `StepBatch` from a plan.

    Block tables and context lengths are kept by slot and written only where they change; a row
    names its slot, so what a slot without a row holds is never read.

    Args:
        max_streams: Slots.
        max_tokens: Rows of the largest step.
        max_blocks: Blocks of the longest sequence.
        block_size: Tokens per block.
        num_codes: Codes per frame position.
        device: Where the model runs.
    """

    def __init__(
        self,
        *,
        max_streams: int,
        max_tokens: int,
        max_blocks: int,
        block_size: int,
        num_codes: int,
        device: str,
    ) -> None:
        self._device = None if device == "cpu" else device
        self._block_size = block_size
        self._num_codes = num_codes
        self._token_ids = _HostTensor(max_tokens, torch.int64)
        self._positions = _HostTensor(max_tokens, torch.int64)
        self._slot_mapping = _HostTensor(max_tokens, torch.int64)
        self._row_slots = _HostTensor(max_tokens, torch.int32)
        self._output_rows = _HostTensor(max_streams, torch.int64)
        self._position_in_frame = _HostTensor(max_streams, torch.int64)
        self._is_end_barred = _HostTensor(max_streams, torch.bool)
        self._window = _HostTensor(max_streams, torch.int64)
        self._temperature = _HostTensor(max_streams, torch.float32)
        self._context_lens = _HostTensor(max_streams, torch.int32)
        self._block_tables = _HostTensor((max_streams, max_blocks), torch.int32)
        self._known_tables: list[tuple[int, ...] | None] = [None] * max_streams

    def fill(self, plan: StepPlan) -> StepBatch:
        """Write a plan with at least one slice."""
        num_tokens = self._fill_rows(plan.slices)
        draws, rows = _draws(plan.slices)
        num_draws = len(draws)
        self._output_rows.array[:num_draws] = rows
        self._position_in_frame.array[:num_draws] = [draw.position_in_frame for draw in draws]
        self._is_end_barred.array[:num_draws] = [not draw.may_end for draw in draws]
        send = self._send
        return StepBatch(
            token_ids=send(self._token_ids.tensor[:num_tokens]),
            meta=AttentionMeta(
                positions=send(self._positions.tensor[:num_tokens]),
                slot_mapping=send(self._slot_mapping.tensor[:num_tokens]),
                row_sequence=send(self._row_slots.tensor[:num_tokens]),
                context_lens=send(self._context_lens.tensor),
                block_tables=send(self._block_tables.tensor),
                output_rows=send(self._output_rows.tensor[:num_draws]),
            ),
            position_in_frame=send(self._position_in_frame.tensor[:num_draws]),
            is_end_barred=send(self._is_end_barred.tensor[:num_draws]),
            sampling=self._sampling(draws),
        )

    def _fill_rows(self, slices: tuple[SequenceSlice, ...]) -> int:
        token_ids: list[int] = []
        positions: list[int] = []
        row_slots: list[int] = []
        for piece in slices:
            slot, end = piece.slot, piece.end_position
            token_ids.extend(piece.token_ids)
            positions.extend(range(piece.first_position, end))
            row_slots.extend([slot] * len(piece.token_ids))
            self._context_lens.array[slot] = end
            if self._known_tables[slot] is not piece.block_ids:
                self._known_tables[slot] = piece.block_ids
                self._block_tables.array[slot, : len(piece.block_ids)] = piece.block_ids
        count = len(token_ids)
        self._token_ids.array[:count] = token_ids
        self._positions.array[:count] = positions
        self._row_slots.array[:count] = row_slots
        index, offset = np.divmod(self._positions.array[:count], self._block_size)
        blocks = self._block_tables.array[self._row_slots.array[:count], index]
        self._slot_mapping.array[:count] = blocks.astype(np.int64) * self._block_size + offset
        return count

    def _sampling(self, draws: list[Draw]) -> SamplingRows:
        settings = [draw.settings for draw in draws]
        count, num_columns = len(draws), self._num_codes + 1
        seed = np.array([s.seed for s in settings], np.int64)
        index = np.array([draw.index for draw in draws], np.int64)
        self._window.array[:count] = noise_window(seed, index, num_columns)
        self._temperature.array[:count] = [s.temperature or 1.0 for s in settings]
        is_any_greedy = any(not s.temperature for s in settings)
        has_min_p = any(s.min_p for s in settings)
        filtered = [row for row, s in enumerate(settings) if s.top_k or s.top_p < 1.0]
        recent = [draw.recent_codes for draw in draws]
        barred = [draw.barred_codes for draw in draws]
        return SamplingRows(
            window=self._send(self._window.tensor[:count]),
            temperature=self._send(self._temperature.tensor[:count]),
            noise_scale=self._reals(
                [1.0 if s.temperature else 0.0 for s in settings] if is_any_greedy else None
            ),
            least=self._reals(
                [math.log(s.min_p) if s.min_p else -math.inf for s in settings]
                if has_min_p
                else None
            ),
            filtered=self._wholes(filtered or None),
            top_k=self._wholes([settings[row].top_k for row in filtered] or None),
            top_p=self._reals([settings[row].top_p for row in filtered] or None, torch.float64),
            repetition_penalty=self._reals(
                [s.repetition_penalty for s in settings] if any(recent) else None
            ),
            recent=self._padded(recent, num_columns),
            barred=self._padded(barred, num_columns),
        )

    def _padded(self, lists: list[tuple[int, ...]], filler: int) -> Tensor | None:
        """Equally long rows; `None` where all are empty."""
        width = max(map(len, lists), default=0)
        return self._wholes(
            [[*row, *[filler] * (width - len(row))] for row in lists] if width else None
        )

    def _reals(
        self, values: list[float] | None, dtype: torch.dtype = torch.float32
    ) -> Tensor | None:
        return None if values is None else self._send(torch.tensor(values, dtype=dtype))

    def _wholes(self, values: list[int] | list[list[int]] | None) -> Tensor | None:
        return None if values is None else self._send(torch.tensor(values, dtype=torch.int64))

    def _send(self, tensor: Tensor) -> Tensor:
        return tensor if self._device is None else tensor.to(self._device)


class _HostTensor:
    """One memory as a torch tensor and as a numpy array, which is quicker to write."""

    def __init__(self, shape: int | tuple[int, ...], dtype: torch.dtype) -> None:
        self.tensor = torch.zeros(shape, dtype=dtype)
        self.array: NDArray[Any] = self.tensor.numpy()


def _draws(slices: tuple[SequenceSlice, ...]) -> tuple[list[Draw], list[int]]:
    """The plan's draws, and the row behind which each is drawn."""
    draws: list[Draw] = []
    rows: list[int] = []
    row = -1
    for piece in slices:
        row += len(piece.token_ids)
        if piece.draw is not None:
            draws.append(piece.draw)
            rows.append(row)
    return draws, rows
