"""Static buffers that a plan is written into, row by row. Knows how a step looks to the model, not
who is in it.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.attention import AttentionMeta
from realtime.engine.plan import SamplingSettings, SequenceSlice, StepPlan
from realtime.engine.sampling import SamplingRows

_SETTINGS = ("temperature", "top_p", "min_p", "repetition_penalty")


@dataclass(frozen=True, kw_only=True)
class StepBatch:
    """One step's inputs on the device. Views of the buffers: valid until the next `fill`.

    Attributes:
        token_ids: int64 `[T]`.
        meta: Positions and pages of the rows.
        position_in_frame: int64 `[R]`, of the tokens to draw.
        may_end: bool `[R]`.
        sampling: Settings of the R draws.
    """

    token_ids: Tensor
    meta: AttentionMeta
    position_in_frame: Tensor
    may_end: Tensor
    sampling: SamplingRows


class StepBuffers:
    """Fills a `StepBatch` from a plan.

    What stays the same between steps (block tables, sampling settings) is kept by slot and written
    only when it changes: a slot's settings are guarded by the id of the request that they belong
    to.

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
        self._device = device
        self._block_size = block_size
        self._num_codes = num_codes
        self._rows = np.zeros((3, max_tokens), np.int64)  # token ids, positions, slot mapping
        self._row_slots = np.zeros(max_tokens, np.int32)
        self._draws = np.zeros(
            (4, max_streams), np.int64
        )  # output row, frame position, index, slot
        self._may_end = np.zeros(max_streams, np.bool_)
        self._context_lens = np.zeros(max_streams, np.int32)
        self._block_tables = np.zeros((max_streams, max_blocks), np.int32)
        self._known_tables: list[tuple[int, ...] | None] = [None] * max_streams
        self._owners: list[int | None] = [None] * max_streams
        self._real_settings = np.zeros((len(_SETTINGS), max_streams), np.float64)
        self._whole_settings = np.zeros((2, max_streams), np.int64)  # top_k, seed

    def fill(self, plan: StepPlan) -> StepBatch:
        """Write a plan with at least one slice."""
        num_tokens = self._fill_rows(plan)
        drawing = self._fill_draws(plan)
        positions, slot_mapping = self._rows[1, :num_tokens], self._rows[2, :num_tokens]
        row_slots = self._row_slots[:num_tokens]
        blocks = self._block_tables[row_slots, positions // self._block_size]
        slot_mapping[:] = blocks.astype(np.int64) * self._block_size + positions % self._block_size
        output_rows, position_in_frame, draw_index, slots = self._draws[:, : len(drawing)]
        real, whole = self._real_settings[:, slots], self._whole_settings[:, slots]
        send = self._send
        return StepBatch(
            token_ids=send(self._rows[0, :num_tokens]),
            meta=AttentionMeta(
                positions=send(positions),
                slot_mapping=send(slot_mapping),
                row_sequence=send(row_slots),
                context_lens=send(self._context_lens),
                block_tables=send(self._block_tables),
                output_rows=send(output_rows),
            ),
            position_in_frame=send(position_in_frame),
            may_end=send(self._may_end[: len(drawing)]),
            sampling=SamplingRows(
                temperature=send(real[0]),
                top_p=send(real[1]),
                min_p=send(real[2]),
                repetition_penalty=send(real[3]),
                top_k=send(whole[0]),
                seed=send(whole[1]),
                draw_index=send(draw_index),
                recent=self._recent(drawing),
            ),
        )

    def _fill_rows(self, plan: StepPlan) -> int:
        token_ids: list[int] = []
        positions: list[int] = []
        row_slots: list[int] = []
        for piece in plan.slices:
            slot, end = piece.slot, piece.end_position
            token_ids.extend(piece.token_ids)
            positions.extend(range(piece.first_position, end))
            row_slots.extend([slot] * len(piece.token_ids))
            self._context_lens[slot] = end
            if self._known_tables[slot] is not piece.block_ids:
                self._known_tables[slot] = piece.block_ids
                self._block_tables[slot, : len(piece.block_ids)] = piece.block_ids
            if self._owners[slot] != piece.request_id and piece.draw is not None:
                self._owners[slot] = piece.request_id
                self._keep_settings(slot, piece.draw.settings)
        num_tokens = len(token_ids)
        self._rows[0, :num_tokens] = token_ids
        self._rows[1, :num_tokens] = positions
        self._row_slots[:num_tokens] = row_slots
        return num_tokens

    def _fill_draws(self, plan: StepPlan) -> list[SequenceSlice]:
        drawing: list[SequenceSlice] = []
        draws: list[tuple[int, int, int, int]] = []
        may_end: list[bool] = []
        row = -1
        for piece in plan.slices:
            row += len(piece.token_ids)
            if (draw := piece.draw) is not None:
                drawing.append(piece)
                draws.append((row, draw.position_in_frame, draw.index, piece.slot))
                may_end.append(draw.may_end)
        if drawing:
            self._draws[:, : len(draws)] = np.array(draws, np.int64).T
            self._may_end[: len(draws)] = may_end
        return drawing

    def _keep_settings(self, slot: int, settings: SamplingSettings) -> None:
        self._real_settings[:, slot] = [getattr(settings, name) for name in _SETTINGS]
        self._whole_settings[:, slot] = settings.top_k, settings.seed

    def _recent(self, drawing: list[SequenceSlice]) -> Tensor | None:
        """`[R, W]` padded with the number of columns, which names none."""
        lists = [piece.draw.recent_codes for piece in drawing if piece.draw is not None]
        width = max(map(len, lists), default=0)
        if not width:
            return None
        none = self._num_codes + 1
        padded = [[*codes, *[none] * (width - len(codes))] for codes in lists]
        return torch.tensor(padded, dtype=torch.int64, device=self._device)

    def _send(self, array: NDArray[np.generic]) -> Tensor:
        """The device's view of a host array; no copy on the CPU."""
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)
