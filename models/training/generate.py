"""Batched sampling with a plain dense cache: for judging checkpoints, not for serving."""

from dataclasses import dataclass

import torch
from torch import Tensor

from models.language_model import LanguageModel
from models.spec import SamplingDefaults


@dataclass(frozen=True)
class Generated:
    """One utterance: codes int64 `[F, 7]`, and whether the model ended it itself."""

    codes: Tensor
    ended: bool


class _DenseCache:
    """Keys and values of every layer for left-padded rows, `[B, T, G, D]`."""

    def __init__(self, layers: int, padding: Tensor) -> None:
        self.keys: list[Tensor | None] = [None] * layers
        self.values: list[Tensor | None] = [None] * layers
        self.padding = padding  # [B], columns at the left that hold nothing

    def __call__(self, layer_index: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        past_k, past_v = self.keys[layer_index], self.values[layer_index]
        k = k if past_k is None else torch.cat([past_k, k], 1)
        v = v if past_v is None else torch.cat([past_v, v], 1)
        self.keys[layer_index], self.values[layer_index] = k, v
        groups = q.shape[2] // k.shape[2]
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        scores = q @ k.transpose(2, 3) * q.shape[-1] ** -0.5
        columns = torch.arange(k.shape[2])
        row = torch.arange(k.shape[2] - q.shape[2], k.shape[2])[:, None]
        hidden = (columns > row)[None] | (
            (columns < self.padding[:, None])[:, None] & (columns != row)[None]
        )
        weights = scores.masked_fill(hidden[:, None], float("-inf")).softmax(-1)
        return (weights @ v).transpose(1, 2)


def sample(logits: Tensor, how: SamplingDefaults, generator: torch.Generator) -> Tensor:
    """Draw one index per row of `[B, V]`; temperature 0 takes the largest."""
    if how.temperature == 0:
        return logits.argmax(-1)
    logits = logits / how.temperature
    if how.top_k:
        least = logits.topk(min(how.top_k, logits.shape[-1])).values[:, -1:]
        logits = logits.masked_fill(logits < least, float("-inf"))
    probs = logits.softmax(-1)
    if how.min_p:
        probs = torch.where(probs < how.min_p * probs.amax(-1, keepdim=True), 0.0, probs)
    if how.top_p < 1:
        ordered, index = probs.sort(descending=True)
        ordered = torch.where(ordered.cumsum(-1) - ordered > how.top_p, 0.0, ordered)
        probs = torch.zeros_like(probs).scatter(1, index, ordered)
    return torch.multinomial(probs, 1, generator=generator)[:, 0]


@torch.no_grad()
def generate(
    model: LanguageModel,
    prompts: list[list[int]],
    how: SamplingDefaults,
    seed: int,
    max_frames: list[int],
) -> list[Generated]:
    """Speak each prompt (phoneme ids, without the marks around them) up to its `max_frames`."""
    spec, batch = model.spec, len(prompts)
    full = [[spec.text_start_id, *p, spec.text_end_id] for p in prompts]
    longest = max(map(len, full))
    padding = torch.tensor([longest - len(p) for p in full])
    ids = torch.tensor([[0] * (longest - len(p)) + p for p in full])
    positions = (torch.arange(longest) - padding[:, None]).clamp(min=0)
    cache = _DenseCache(spec.num_layers, padding)
    generator = torch.Generator().manual_seed(seed)
    hidden = model(ids, positions, cache)[:, -1]
    limit = torch.tensor(max_frames)
    frames = torch.full((batch,), -1)
    codes: list[Tensor] = []
    for step in range(max(max_frames) * spec.tokens_per_frame):
        place = step % spec.tokens_per_frame
        first, last = spec.code_block(place)
        logits = model.head(hidden, first, last)
        if place == 0:
            end = model.head(hidden, spec.end_of_speech_id, spec.end_of_speech_id + 1)
            logits = torch.cat([logits, end], -1)
        code = sample(logits.float(), how, generator)
        if place == 0:
            frame = step // spec.tokens_per_frame
            frames = torch.where((frames < 0) & (code == spec.codebook_size), frame, frames)
            if bool(((frames >= 0) | (limit <= frame)).all()):
                break
            code = code.clamp(max=spec.codebook_size - 1)
        codes.append(code)
        hidden = model((first + code)[:, None], positions[:, -1:] + 1 + step, cache)[:, -1]
    spoken = torch.stack(codes, 1).view(batch, -1, spec.tokens_per_frame)
    return [
        Generated(spoken[i, : int(n if n >= 0 else limit[i])], bool(0 <= n <= limit[i]))
        for i, n in enumerate(frames)
    ]
