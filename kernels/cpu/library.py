"""The compiled kernels as Python functions on torch tensors.

Each function checks what it hands over (CPU, contiguous, dtype) and passes bare pointers; ctypes
releases the GIL while a kernel runs. Knows nothing of models.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_char_p, c_float, c_int32, c_int64, c_void_p
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from kernels.cpu.build import build_library
from kernels.cpu.structs import DecoderStruct, MatrixStruct, StepStruct, pointer

# Sizes of rows that vectors walk over must be whole vectors on every instruction set.
SIZE_MULTIPLE = 16
# Keys are scored in groups that must not straddle a page.
BLOCK_SIZE_MULTIPLE = 8

STEP_FAULTS = {
    1: "a token id is outside the vocabulary",
    2: "a position is beyond max_positions or its block table",
    3: "a slot is outside the KV cache",
    4: "row_sequence names a sequence without a block table",
    5: "a block table names a block outside the KV cache",
    6: "an output row is outside the step",
}


@dataclass(frozen=True)
class PackedLinear:
    """A weight matrix ``[columns, depth]`` in panels; owns the memory ``struct`` points into."""

    panels: Tensor
    struct: MatrixStruct

    @property
    def columns(self) -> int:
        """Output columns; of a SwiGLU pair, gate and up together."""
        return self.struct.columns


_SIGNATURES: dict[str, tuple[list[type], type | None]] = {
    "kernels_isa": ([], c_char_p),
    "kernels_lanes": ([], c_int32),
    "kernels_panel_columns": ([], c_int32),
    "kernels_pack": ([c_void_p, c_int32, c_int32, c_int32, c_void_p], None),
    "kernels_linear": ([c_void_p, c_int32, POINTER(MatrixStruct), c_void_p], None),
    "kernels_linear_add": ([c_void_p, c_int32, POINTER(MatrixStruct), c_void_p], None),
    "kernels_linear_swiglu": ([c_void_p, c_int32, POINTER(MatrixStruct), c_void_p], None),
    "kernels_rms_norm": ([c_void_p, c_void_p, c_float, c_int32, c_int32, c_void_p], None),
    "kernels_rotate_and_store": ([POINTER(DecoderStruct), POINTER(StepStruct), c_void_p], None),
    "kernels_attention_workspace": ([POINTER(DecoderStruct), POINTER(StepStruct)], c_int64),
    "kernels_attention": (
        [POINTER(DecoderStruct), POINTER(StepStruct), c_void_p, c_void_p, c_void_p],
        None,
    ),
    "kernels_forward_workspace": ([POINTER(DecoderStruct), POINTER(StepStruct)], c_int64),
    "kernels_forward": (
        [POINTER(DecoderStruct), POINTER(StepStruct), c_void_p, c_void_p],
        c_int32,
    ),
    "kernels_head": (
        [c_void_p, POINTER(MatrixStruct), c_int32, c_void_p, c_void_p, c_int32, c_void_p],
        None,
    ),
}


class CpuKernels:
    """One loaded library. Stateless: calls on different buffers may run in several threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.functions = ctypes.CDLL(str(path))
        for name, (arguments, result) in _SIGNATURES.items():
            function = getattr(self.functions, name)
            function.argtypes, function.restype = arguments, result
        self.isa: str = self.functions.kernels_isa().decode()
        self.lanes: int = self.functions.kernels_lanes()
        self._panel_columns: int = self.functions.kernels_panel_columns()

    def pack(self, weight: Tensor, *, keep_bf16: bool = True) -> PackedLinear:
        """Pack ``weight [columns, depth]`` (any float dtype) for ``linear``.

        Args:
            weight: Row-major as in ``nn.Linear``.
            keep_bf16: Store bf16 where that is exact: half the memory traffic, same results.
        """
        source = weight.detach().to("cpu", torch.float32).contiguous()
        columns, depth = source.shape
        is_bf16 = keep_bf16 and torch.equal(source, source.bfloat16().float())
        num_panels = -(-columns // self._panel_columns)
        dtype = torch.bfloat16 if is_bf16 else torch.float32
        panels = torch.empty(num_panels * depth * self._panel_columns, dtype=dtype)
        self.functions.kernels_pack(
            source.data_ptr(), columns, depth, int(is_bf16), panels.data_ptr()
        )
        struct = MatrixStruct(panels.data_ptr(), columns, depth, int(is_bf16))
        return PackedLinear(panels, struct)

    def pack_swiglu(self, gate: Tensor, up: Tensor, *, keep_bf16: bool = True) -> PackedLinear:
        """Pack ``gate`` and ``up``, each ``[ffn, depth]``, for ``linear_swiglu``.

        A panel holds one vector of gate columns and the vector of up columns that goes with it;
        ``ffn`` is a multiple of ``SIZE_MULTIPLE``.
        """
        depth = gate.shape[1]
        pair = torch.stack(
            (gate.reshape(-1, self.lanes, depth), up.reshape(-1, self.lanes, depth)), dim=1
        )
        return self.pack(pair.reshape(-1, depth), keep_bf16=keep_bf16)

    def linear(self, x: Tensor, matrix: PackedLinear) -> Tensor:
        """``x [T, depth]`` float32 to ``[T, columns]``."""
        y = torch.empty(x.shape[0], matrix.columns)
        self._linear("kernels_linear", x, matrix, y)
        return y

    def linear_add(self, x: Tensor, matrix: PackedLinear, residual: Tensor) -> None:
        """``residual [T, columns] += x W^T``; ``columns`` is a multiple of ``SIZE_MULTIPLE``."""
        self._linear("kernels_linear_add", x, matrix, residual)

    def linear_swiglu(self, x: Tensor, matrix: PackedLinear) -> Tensor:
        """``silu(x gate^T) * (x up^T)``: ``[T, depth]`` to ``[T, ffn]``."""
        y = torch.empty(x.shape[0], matrix.columns // 2)
        self._linear("kernels_linear_swiglu", x, matrix, y)
        return y

    def _linear(self, name: str, x: Tensor, matrix: PackedLinear, y: Tensor) -> None:
        if x.shape[1] != matrix.struct.depth:
            raise ValueError(f"x has {x.shape[1]} columns, the matrix {matrix.struct.depth}")
        getattr(self.functions, name)(
            pointer(x, torch.float32),
            x.shape[0],
            byref(matrix.struct),
            pointer(y, torch.float32),
        )

    def rms_norm(self, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        """``x [T, size]`` to the same shape; ``size`` is a multiple of ``SIZE_MULTIPLE``."""
        y = torch.empty_like(x)
        self.functions.kernels_rms_norm(
            pointer(x, torch.float32),
            pointer(weight, torch.float32),
            epsilon,
            *x.shape,
            pointer(y, torch.float32),
        )
        return y

    def rotate_and_store(
        self,
        qkv: Tensor,
        cosine: Tensor,
        sine: Tensor,
        key_pages: Tensor,
        value_pages: Tensor,
        *,
        positions: Tensor,
        slot_mapping: Tensor,
    ) -> None:
        """``reference.rotate`` on queries and keys, then ``reference.store_kv``, all in place.

        Args:
            qkv: ``[T, H + 2 G, D]`` float32: queries, keys, values.
            cosine: ``[max_positions, D / 2]`` float32, the whole table.
            sine: Likewise.
            key_pages: ``[P, S, G, D]`` float32 or float16.
            value_pages: Likewise.
            positions: ``[T]`` int64.
            slot_mapping: ``[T]`` int64.
        """
        num_kv_heads, head_dim = key_pages.shape[2:]
        decoder = DecoderStruct(
            cosine=pointer(cosine, torch.float32),
            sine=pointer(sine, torch.float32),
            num_heads=qkv.shape[1] - 2 * num_kv_heads,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
        )
        step = StepStruct(
            positions=pointer(positions, torch.int64),
            slots=pointer(slot_mapping, torch.int64),
            keys=pointer(key_pages, key_pages.dtype),
            values=pointer(value_pages, key_pages.dtype),
            num_rows=qkv.shape[0],
            is_kv_half=key_pages.dtype == torch.float16,
        )
        self.functions.kernels_rotate_and_store(
            byref(decoder), byref(step), pointer(qkv, torch.float32)
        )

    def paged_attention(
        self,
        queries: Tensor,
        key_pages: Tensor,
        value_pages: Tensor,
        positions: Tensor,
        row_sequence: Tensor,
        block_tables: Tensor,
    ) -> Tensor:
        """``reference.paged_attention`` on float32 queries and float32 or float16 pages."""
        _, block_size, num_kv_heads, head_dim = key_pages.shape
        decoder = DecoderStruct(
            num_heads=queries.shape[1], num_kv_heads=num_kv_heads, head_dim=head_dim
        )
        step = StepStruct(
            positions=pointer(positions, torch.int64),
            row_sequence=pointer(row_sequence, torch.int32),
            block_tables=pointer(block_tables, torch.int32),
            keys=pointer(key_pages, key_pages.dtype),
            values=pointer(value_pages, key_pages.dtype),
            num_rows=queries.shape[0],
            max_blocks=block_tables.shape[1],
            block_size=block_size,
            is_kv_half=key_pages.dtype == torch.float16,
        )
        size = self.functions.kernels_attention_workspace(byref(decoder), byref(step))
        workspace, out = torch.empty(size), torch.empty_like(queries)
        self.functions.kernels_attention(
            byref(decoder),
            byref(step),
            pointer(queries, torch.float32),
            workspace.data_ptr(),
            out.data_ptr(),
        )
        return out


@lru_cache(maxsize=8)
def load_kernels(
    *,
    compiler: str | None = None,
    cache_directory: Path | None = None,
    defines: tuple[str, ...] = (),
) -> CpuKernels:
    """The kernels for this machine, compiled if need be (seconds, once a machine).

    Raises:
        CompilerMissingError: No compiler.
        KernelBuildError: The compiler failed.
    """
    return CpuKernels(
        build_library(compiler=compiler, cache_directory=cache_directory, defines=defines)
    )
