"""The language model's training pass: guided dense attention, loss over legal codes."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from models.language_model import LanguageModel
from models.spec import ModelSpec
from models.training.sequences import Sequence

# frame position 0 carries the coarse code and the end of speech
POSITION_WEIGHTS = (1.6, 1.2, 1.0, 1.0, 1.2, 1.0, 1.0)
PADDING_LENGTH = 16


@dataclass(frozen=True)
class Batch:
    """Padded sequences.

    Attributes:
        ids: int64 `[B, T + 1]`: inputs are all but the last column, targets all but the first.
        rows: Flat indices into `[B * T]` of the positions that predict speech or its end, `[S]`.
        said: The phoneme position that each of them says, `[S]`.
    """

    ids: Tensor
    rows: Tensor
    said: Tensor


def collate(sequences: list[Sequence], device: torch.device) -> Batch:
    """Pad `sequences` to one length."""
    longest = max(len(s.ids) for s in sequences)
    length = -(-(longest - 1) // PADDING_LENGTH) * PADDING_LENGTH
    ids = np.zeros((len(sequences), length + 1), np.int64)
    said = np.full((len(sequences), length), -1, np.int64)
    for i, sequence in enumerate(sequences):
        ids[i, : len(sequence.ids)] = sequence.ids
        said[i, : len(sequence.said)] = sequence.said[:length]
    flat = said.reshape(-1)
    rows = np.flatnonzero(flat >= 0)
    return Batch(*(torch.from_numpy(x).to(device) for x in (ids, rows, flat[rows])))


def corrupt(inputs: Tensor, spec: ModelSpec, ratio: float) -> Tensor:
    """Replace speech codes by random ones of the same frame position with probability `ratio`."""
    code = inputs - spec.audio_base_id
    is_code = (code >= 0) & (code < spec.tokens_per_frame * spec.codebook_size)
    hit = (torch.rand(inputs.shape, device=inputs.device) < ratio) & is_code
    block = code.div(spec.codebook_size, rounding_mode="floor") * spec.codebook_size
    other = torch.randint(0, spec.codebook_size, inputs.shape, device=inputs.device)
    return torch.where(hit, spec.audio_base_id + block + other, inputs)


class GuidedAttention:
    """Dense causal attention that remembers query and key of one head in the guided layers."""

    def __init__(
        self, guided_layers: tuple[int, ...], length: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.guided_layers = guided_layers
        self.kept: list[tuple[Tensor, Tensor]] = []
        self.mask = torch.full((length, length), -1e4, dtype=dtype, device=device).triu(1)

    def __call__(self, layer_index: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Q `[B, T, H, D]`, k and v `[B, T, G, D]` -> `[B, T, H, D]`."""
        batch, length, heads, size = q.shape
        groups = k.shape[2]
        if layer_index in self.guided_layers:
            self.kept.append((q[:, :, 0], k[:, :, 0]))
        shared = heads // groups
        # the queries that share a key head stand below each other: one product for all of them
        q = (q * size**-0.5).view(batch, length, groups, shared, size).permute(0, 2, 3, 1, 4)
        q = q.reshape(batch * groups, shared * length, size)
        k, v = (x.transpose(1, 2).reshape(batch * groups, length, size) for x in (k, v))
        mask = self.mask.repeat(shared, 1)
        weights = torch.baddbmm(mask, q, k.transpose(1, 2)).softmax(-1)
        out = torch.bmm(weights, v).view(batch, groups, shared, length, size)
        return out.permute(0, 3, 1, 2, 4).reshape(batch, length, heads, size)

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Mean -log weight on the phoneme being said, and the share that looks within one of it."""
        losses, hits = [], []
        for q, k in self.kept:
            scores = q @ k.transpose(1, 2) * q.shape[-1] ** -0.5 + self.mask
            rows = scores.flatten(0, 1)[batch.rows]
            losses.append(functional.cross_entropy(rows, batch.said))
            hits.append(((rows.detach().argmax(-1) - batch.said).abs() <= 1).float().mean())
        return torch.stack(losses).sum(), torch.stack(hits).mean()


def position_losses(model: LanguageModel, hidden: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy per frame position, `[7]`; hidden `[S, hidden]`, targets `[S]`."""
    spec = model.spec
    is_end = targets == spec.end_of_speech_id
    code = targets - spec.audio_base_id
    position = torch.where(is_end, 0, code.div(spec.codebook_size, rounding_mode="floor"))
    losses = []
    for p in range(spec.tokens_per_frame):
        rows = (position == p).nonzero()[:, 0]
        here = hidden[rows]
        logits = model.head(here, *spec.code_block(p))
        wanted = code[rows] - p * spec.codebook_size
        if p == 0:
            end = model.head(here, spec.end_of_speech_id, spec.end_of_speech_id + 1)
            logits = torch.cat([logits, end], -1)
            wanted = torch.where(is_end[rows], spec.codebook_size, wanted)
        losses.append(functional.cross_entropy(logits, wanted))
    return torch.stack(losses)


def batch_loss(
    model: LanguageModel,
    batch: Batch,
    *,
    corruption: float,
    guide_weight: float,
    guided_layers: tuple[int, ...],
) -> tuple[Tensor, Tensor, Tensor]:
    """Loss, cross-entropy per frame position `[7]`, and share of aligned guided attention."""
    inputs, targets = batch.ids[:, :-1], batch.ids[:, 1:].flatten()[batch.rows]
    if corruption:
        inputs = corrupt(inputs, model.spec, corruption)
    length = inputs.shape[1]
    positions = torch.arange(length, device=inputs.device)
    attend = GuidedAttention(guided_layers, length, torch.float32, inputs.device)
    hidden = model(inputs, positions, attend).flatten(0, 1)[batch.rows]
    entropy = position_losses(model, hidden, targets)
    weights = torch.tensor(POSITION_WEIGHTS, device=inputs.device)
    guide, aligned = attend.loss(batch)
    loss = (entropy * weights).sum() / weights.sum() + guide_weight * guide
    return loss, entropy.detach(), aligned


def initialize(model: LanguageModel, generator: torch.Generator) -> None:
    """Scale the weights for Muon: unit-gain inputs, small outputs onto the residual stream."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() != 2:
                continue
            std = 0.6 / math.sqrt(p.shape[1])
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                std *= 0.3
            elif "embed_tokens" in name:
                std = 0.3 if not model.spec.tie_embeddings else 0.03
            elif "lm_head" in name:
                std = 0.02
            p.normal_(0.0, std, generator=generator)
