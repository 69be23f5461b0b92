"""The C structs of the kernels as ctypes, field for field, and addresses of tensors."""

from __future__ import annotations

from ctypes import POINTER, Structure, c_float, c_int32, c_void_p

import torch
from torch import Tensor


class MatrixStruct(Structure):
    """``PackedMatrix`` of ``linear.h``."""

    _fields_ = (
        ("panels", c_void_p),
        ("columns", c_int32),
        ("depth", c_int32),
        ("is_bf16", c_int32),
    )


class LayerStruct(Structure):
    """``Layer`` of ``decoder.cpp``."""

    _fields_ = (
        ("input_norm", c_void_p),
        ("post_attention_norm", c_void_p),
        ("qkv", MatrixStruct),
        ("output", MatrixStruct),
        ("gate_up", MatrixStruct),
        ("down", MatrixStruct),
    )


class DecoderStruct(Structure):
    """``Decoder`` of ``decoder.cpp``."""

    _fields_ = (
        ("layers", POINTER(LayerStruct)),
        ("embedding", c_void_p),
        ("final_norm", c_void_p),
        ("cosine", c_void_p),
        ("sine", c_void_p),
        ("num_layers", c_int32),
        ("hidden_size", c_int32),
        ("num_heads", c_int32),
        ("num_kv_heads", c_int32),
        ("head_dim", c_int32),
        ("ffn_size", c_int32),
        ("vocab_size", c_int32),
        ("max_positions", c_int32),
        ("norm_epsilon", c_float),
    )


class StepStruct(Structure):
    """``Step`` of ``decoder.cpp``."""

    _fields_ = (
        ("token_ids", c_void_p),
        ("positions", c_void_p),
        ("slots", c_void_p),
        ("row_sequence", c_void_p),
        ("output_rows", c_void_p),
        ("block_tables", c_void_p),
        ("keys", c_void_p),
        ("values", c_void_p),
        ("num_rows", c_int32),
        ("num_outputs", c_int32),
        ("num_sequences", c_int32),
        ("max_blocks", c_int32),
        ("num_blocks", c_int32),
        ("block_size", c_int32),
        ("is_kv_half", c_int32),
    )


def pointer(tensor: Tensor, dtype: torch.dtype) -> int:
    """Address of a tensor's data.

    Raises:
        TypeError: Not a contiguous CPU tensor of ``dtype``.
    """
    if tensor.dtype != dtype or tensor.device.type != "cpu" or not tensor.is_contiguous():
        raise TypeError(
            f"the CPU kernels need a contiguous CPU tensor of {dtype}, got {tensor.dtype} on "
            f"{tensor.device}, strides {tensor.stride()}"
        )
    return tensor.data_ptr()
