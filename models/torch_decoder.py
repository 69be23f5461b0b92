"""The decoder's step in plain torch: any device and dtype, no compiler; the fast path's slow twin.

Its matrix products may sum in another order for another batch, so rows agree with the same rows
alone within rounding, not bit for bit.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels import reference
from models.attention import AttentionMeta, PagedAttend, PagedKV
from models.language_model import LanguageModel
from models.spec import ModelSpec


def code_blocks(language_model: LanguageModel, spec: ModelSpec) -> list[Tensor]:
    """Rows of the head that are legal at each frame position, as views or small copies.

    Returns:
        ``[K + 1, hidden]`` for position 0, end-of-speech last; ``[K, hidden]`` for the others.
    """
    weight = language_model.head_weight.detach()
    blocks = [weight[slice(*spec.code_block(p))] for p in range(spec.tokens_per_frame)]
    end = weight[spec.end_of_speech_id].unsqueeze(0)
    return [torch.cat((blocks[0], end)), *blocks[1:]]


class TorchDecoder:
    """``StepModel`` over the ``LanguageModel`` module itself."""

    def __init__(self, language_model: LanguageModel, spec: ModelSpec) -> None:
        self._language_model = language_model
        self._code_blocks = code_blocks(language_model, spec)

    @torch.inference_mode()
    def forward(
        self, token_ids: Tensor, positions: Tensor, meta: AttentionMeta, kv: PagedKV
    ) -> Tensor:
        """See ``StepModel.forward``."""
        hidden = self._language_model(token_ids, positions, PagedAttend(meta, kv))
        return hidden[meta.output_rows]

    @torch.inference_mode()
    def logits(self, hidden: Tensor, position_in_frame: Tensor) -> Tensor:
        """See ``StepModel.logits``."""
        return reference.head_logits(hidden, self._code_blocks, position_in_frame)
