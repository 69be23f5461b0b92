"""StepPlan to StepResult: one forward pass and one draw a sequence. Knows tensors and pages, no
requests.
"""

import torch

from models.spec import ModelSpec
from models.step_model import StepModel
from realtime.engine.batch import StepBuffers
from realtime.engine.kv_cache import KVCache
from realtime.engine.plan import StepPlan, StepResult
from realtime.engine.sampling import draw_columns


class ModelRunner:
    """Owns the KV cache and the step's buffers; one call at a time.

    Args:
        model: The network.
        spec: Its dimensions.
        kv: Its cache.
        buffers: For the plans' rows.
    """

    def __init__(
        self, model: StepModel, spec: ModelSpec, kv: KVCache, buffers: StepBuffers
    ) -> None:
        self._model = model
        self._spec = spec
        self._kv = kv
        self._buffers = buffers

    @torch.inference_mode()
    def run(self, plan: StepPlan) -> StepResult:
        """Compute every slice's keys and values; draw one token for each slice that asks for it."""
        batch = self._buffers.fill(plan)
        hidden = self._model.forward(batch.token_ids, batch.meta.positions, batch.meta, self._kv)
        if not hidden.shape[0]:
            return StepResult(())
        logits = self._model.logits(hidden, batch.position_in_frame)
        num_codes = self._spec.codebook_size
        logits[:, num_codes].masked_fill_(batch.is_end_barred, float("-inf"))
        columns = draw_columns(logits, batch.sampling)
        first = self._spec.audio_base_id + batch.position_in_frame * num_codes
        ids = torch.where(columns == num_codes, self._spec.end_of_speech_id, first + columns)
        return StepResult(tuple(ids.tolist()))
