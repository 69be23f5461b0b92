"""A decoder's weights packed for the kernels, and its step as one call.

Knows shapes and tensors; where the weights come from and what the tokens mean is the model's.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref, c_void_p
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels import reference
from kernels.cpu.library import (
    BLOCK_SIZE_MULTIPLE,
    SIZE_MULTIPLE,
    STEP_FAULTS,
    CpuKernels,
    PackedLinear,
)
from kernels.cpu.structs import DecoderStruct, LayerStruct, MatrixStruct, StepStruct, pointer


class UnsupportedShapeError(ValueError):
    """The kernels cannot run a decoder of this shape."""


@dataclass(frozen=True, kw_only=True)
class DecoderShape:
    """Dimensions of a Llama decoder and its rotary embedding."""

    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    ffn_size: int
    max_positions: int
    rope_theta: float
    norm_epsilon: float

    def __post_init__(self) -> None:
        for name in ("hidden_size", "head_dim", "ffn_size"):
            if (size := getattr(self, name)) % SIZE_MULTIPLE:
                raise UnsupportedShapeError(f"{name} {size} is no multiple of {SIZE_MULTIPLE}")


@dataclass(frozen=True, kw_only=True)
class LayerWeights:
    """One layer's weights, each ``[columns, depth]`` or ``[hidden]``."""

    input_norm: Tensor
    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor
    post_attention_norm: Tensor
    gate: Tensor
    up: Tensor
    down: Tensor


@dataclass(frozen=True, kw_only=True)
class StepTensors:
    """One step's inputs; see ``reference.paged_attention`` for the ragged layout.

    Attributes:
        token_ids: ``[T]`` int64.
        positions: ``[T]`` int64.
        slot_mapping: ``[T]`` int64, where each row's key and value go: ``block * S + offset``.
        row_sequence: ``[T]`` int32.
        output_rows: ``[R]`` int64, the rows whose hidden state is wanted.
        block_tables: ``[num_sequences, max_blocks]`` int32.
        keys: ``[L, P, S, G, D]`` float32 or float16, read and written in place. float16 halves
            what attention reads, which bounds large batches; row invariance holds as well.
        values: Likewise.
    """

    token_ids: Tensor
    positions: Tensor
    slot_mapping: Tensor
    row_sequence: Tensor
    output_rows: Tensor
    block_tables: Tensor
    keys: Tensor
    values: Tensor

    def struct(self) -> StepStruct:
        """The C view of these tensors, valid while they live."""
        num_rows = self.token_ids.shape[0]
        for rows in (self.positions, self.slot_mapping, self.row_sequence):
            if rows.shape != (num_rows,):
                raise ValueError(f"{num_rows} token ids, but a row tensor of {tuple(rows.shape)}")
        if self.keys.shape != self.values.shape:
            raise ValueError("keys and values differ in shape")
        is_half = self.keys.dtype == torch.float16
        kv_dtype = torch.float16 if is_half else torch.float32
        num_blocks, block_size = self.keys.shape[1:3]
        if block_size % BLOCK_SIZE_MULTIPLE:
            raise ValueError(f"block size {block_size} is no multiple of {BLOCK_SIZE_MULTIPLE}")
        return StepStruct(
            pointer(self.token_ids, torch.int64),
            pointer(self.positions, torch.int64),
            pointer(self.slot_mapping, torch.int64),
            pointer(self.row_sequence, torch.int32),
            pointer(self.output_rows, torch.int64),
            pointer(self.block_tables, torch.int32),
            pointer(self.keys, kv_dtype),
            pointer(self.values, kv_dtype),
            num_rows,
            self.output_rows.shape[0],
            *self.block_tables.shape,
            num_blocks,
            block_size,
            int(is_half),
        )


class PackedDecoder:
    """A decoder ready to step. One thread at a time: it owns its scratch memory.

    Args:
        kernels: The compiled kernels.
        shape: Dimensions.
        embedding: ``[V, hidden]``, kept (not copied) where it is float32 already.
        layers: Weights of each layer, packed into copies.
        final_norm: ``[hidden]``.
        code_blocks: The head's rows by frame position: ``[K + 1, hidden]`` where end-of-speech
            is legal, as its last row; ``[K, hidden]`` elsewhere.
        keep_bf16: Store matrices as bf16 where that is exact.

    Raises:
        UnsupportedShapeError: From ``shape``.
    """

    def __init__(
        self,
        kernels: CpuKernels,
        shape: DecoderShape,
        *,
        embedding: Tensor,
        layers: Sequence[LayerWeights],
        final_norm: Tensor,
        code_blocks: Sequence[Tensor],
        keep_bf16: bool = True,
    ) -> None:
        self.kernels = kernels
        self.shape = shape
        self._kept: list[Tensor] = []  # what the structs point into
        self._keep_bf16 = keep_bf16
        self._layers = (LayerStruct * len(layers))(*(self._pack_layer(layer) for layer in layers))
        cosine, sine = reference.rotary_tables(
            shape.head_dim, shape.max_positions, shape.rope_theta
        )
        self.struct = DecoderStruct(
            self._layers,
            self._keep(embedding),
            self._keep(final_norm),
            self._keep(cosine),
            self._keep(sine),
            len(layers),
            shape.hidden_size,
            shape.num_heads,
            shape.num_kv_heads,
            shape.head_dim,
            shape.ffn_size,
            embedding.shape[0],
            shape.max_positions,
            shape.norm_epsilon,
        )
        self._codebook_size = min(block.shape[0] for block in code_blocks)
        self._code_blocks = (MatrixStruct * len(code_blocks))(
            *(self._pack(block) for block in code_blocks)
        )
        self._workspace = torch.empty(0)

    def forward(self, step: StepTensors) -> Tensor:
        """Run one step: store the rows' keys and values, return ``[R, hidden]`` float32.

        Raises:
            IndexError: An id, position, slot or block is out of range; nothing was written.
            TypeError, ValueError: A tensor has the wrong dtype, layout or shape.
        """
        shape = self.shape
        expected = (shape.num_layers, shape.num_kv_heads, shape.head_dim)
        if (step.keys.shape[0], *step.keys.shape[3:]) != expected:
            raise ValueError(
                f"KV cache {tuple(step.keys.shape)} does not fit [L, P, S, G, D] "
                f"with L, G, D = {expected}"
            )
        struct = step.struct()
        functions = self.kernels.functions
        needed = functions.kernels_forward_workspace(byref(self.struct), byref(struct))
        if self._workspace.numel() < needed:
            self._workspace = torch.empty(needed)
        hidden = torch.empty(step.output_rows.shape[0], shape.hidden_size)
        fault = functions.kernels_forward(
            byref(self.struct), byref(struct), self._workspace.data_ptr(), hidden.data_ptr()
        )
        if fault:
            raise IndexError(STEP_FAULTS[fault])
        return hidden

    def head(self, hidden: Tensor, block_of_row: Tensor) -> Tensor:
        """Logits ``[R, K + 1]`` of ``hidden [R, hidden]``; ``block_of_row [R]`` int64.

        The last column is end-of-speech, ``-inf`` where illegal.
        """
        counts = torch.bincount(block_of_row, minlength=len(self._code_blocks)).to(torch.int32)
        if counts.shape[0] != len(self._code_blocks):
            raise IndexError("a row has a frame position without a block of codes")
        rows = block_of_row.argsort(stable=True).to(torch.int32)
        logits = torch.empty(hidden.shape[0], self._codebook_size + 1)
        self.kernels.functions.kernels_head(
            pointer(hidden, torch.float32),
            self._code_blocks,
            len(self._code_blocks),
            rows.data_ptr(),
            counts.data_ptr(),
            self._codebook_size,
            logits.data_ptr(),
        )
        return logits

    def _pack_layer(self, layer: LayerWeights) -> LayerStruct:
        return LayerStruct(
            self._keep(layer.input_norm),
            self._keep(layer.post_attention_norm),
            self._pack(torch.cat((layer.query, layer.key, layer.value))),
            self._pack(layer.output),
            self._hold(self.kernels.pack_swiglu(layer.gate, layer.up, keep_bf16=self._keep_bf16)),
            self._pack(layer.down),
        )

    def _pack(self, weight: Tensor) -> MatrixStruct:
        return self._hold(self.kernels.pack(weight, keep_bf16=self._keep_bf16))

    def _hold(self, packed: PackedLinear) -> MatrixStruct:
        self._kept.append(packed.panels)
        return packed.struct

    def _keep(self, tensor: Tensor) -> c_void_p:
        kept = tensor.detach().to("cpu", torch.float32).contiguous()
        self._kept.append(kept)
        return c_void_p(kept.data_ptr())
