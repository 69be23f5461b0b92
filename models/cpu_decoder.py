"""The decoder's step on the compiled CPU kernels, float32, weights packed once.

Row-invariant: a row's result does not depend on the rest of the step, bit for bit.
"""

from __future__ import annotations

from torch import Tensor

from kernels.cpu.decoder import DecoderShape, LayerWeights, PackedDecoder, StepTensors
from kernels.cpu.library import CpuKernels
from models.attention import AttentionMeta, PagedKV
from models.language_model import LanguageModel
from models.spec import ModelSpec
from models.torch_decoder import code_blocks


class CpuDecoder:
    """``StepModel`` on packed weights. One thread at a time; the KV cache is float32.

    Args:
        language_model: Read once; packed copies of its matrices are kept, and its embedding
            table by reference.
        spec: Its dimensions.
        kernels: The compiled kernels.
        keep_bf16: Keep matrices as bf16 where that is exact.

    Raises:
        UnsupportedShapeError: A dimension that the kernels cannot run.
    """

    def __init__(
        self,
        language_model: LanguageModel,
        spec: ModelSpec,
        kernels: CpuKernels,
        *,
        keep_bf16: bool = True,
    ) -> None:
        weights = language_model.state_dict()
        self._decoder = PackedDecoder(
            kernels,
            DecoderShape(
                num_layers=spec.num_layers,
                hidden_size=spec.hidden_size,
                num_heads=spec.num_heads,
                num_kv_heads=spec.num_kv_heads,
                head_dim=spec.head_dim,
                ffn_size=spec.ffn_size,
                max_positions=spec.max_positions,
                rope_theta=spec.rope_theta,
                norm_epsilon=spec.norm_eps,
            ),
            embedding=weights["model.embed_tokens.weight"],
            layers=[_layer_weights(weights, index) for index in range(spec.num_layers)],
            final_norm=weights["model.norm.weight"],
            code_blocks=code_blocks(language_model, spec),
            keep_bf16=keep_bf16,
        )

    def forward(
        self, token_ids: Tensor, positions: Tensor, meta: AttentionMeta, kv: PagedKV
    ) -> Tensor:
        """See ``StepModel.forward``.

        Raises:
            IndexError: An id, position, slot or block is out of range; nothing was written.
        """
        return self._decoder.forward(
            StepTensors(
                token_ids=token_ids,
                positions=positions,
                slot_mapping=meta.slot_mapping,
                row_sequence=meta.row_sequence,
                output_rows=meta.output_rows,
                block_tables=meta.block_tables,
                keys=kv.k,
                values=kv.v,
            )
        )

    def logits(self, hidden: Tensor, position_in_frame: Tensor) -> Tensor:
        """See ``StepModel.logits``."""
        return self._decoder.head(hidden, position_in_frame)


def _layer_weights(weights: dict[str, Tensor], index: int) -> LayerWeights:
    prefix = f"model.layers.{index}."
    return LayerWeights(
        input_norm=weights[prefix + "input_layernorm.weight"],
        query=weights[prefix + "self_attn.q_proj.weight"],
        key=weights[prefix + "self_attn.k_proj.weight"],
        value=weights[prefix + "self_attn.v_proj.weight"],
        output=weights[prefix + "self_attn.o_proj.weight"],
        post_attention_norm=weights[prefix + "post_attention_layernorm.weight"],
        gate=weights[prefix + "mlp.gate_proj.weight"],
        up=weights[prefix + "mlp.up_proj.weight"],
        down=weights[prefix + "mlp.down_proj.weight"],
    )
