"""The Llama-architecture decoder that writes speech tokens; knows no caches, batches or requests.

Parameter names follow Hugging Face's LlamaForCausalLM, so that checkpoints in that layout load by
name.
"""

from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.layers import RMSNorm, SwiGLU, rotary_tables, rotate
from models.spec import ModelSpec


class Attend(Protocol):
    """Attention over whatever past the caller keeps; q and k are already rotated."""

    def __call__(self, layer_index: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Q `[..., T, H, D]`, k and v `[..., T, G, D]` -> `[..., T, H, D]`."""
        ...


class Attention(nn.Module):
    """Grouped-query attention with its four projections; the attending itself is the caller's."""

    def __init__(self, spec: ModelSpec, layer_index: int) -> None:
        super().__init__()
        self.layer_index = layer_index
        self.head_dim = spec.head_dim
        width, kv_width = spec.num_heads * spec.head_dim, spec.num_kv_heads * spec.head_dim
        self.q_proj = nn.Linear(spec.hidden_size, width, bias=False)
        self.k_proj = nn.Linear(spec.hidden_size, kv_width, bias=False)
        self.v_proj = nn.Linear(spec.hidden_size, kv_width, bias=False)
        self.o_proj = nn.Linear(width, spec.hidden_size, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, attend: Attend) -> Tensor:
        """`[..., T, hidden]` -> `[..., T, hidden]`."""
        shape = (*x.shape[:-1], -1, self.head_dim)
        q = rotate(self.q_proj(x).view(shape), cos, sin)
        k = rotate(self.k_proj(x).view(shape), cos, sin)
        v = self.v_proj(x).view(shape)
        return self.o_proj(attend(self.layer_index, q, k, v).flatten(-2))


class DecoderLayer(nn.Module):
    """Pre-norm attention and SwiGLU, each added to the residual stream."""

    def __init__(self, spec: ModelSpec, layer_index: int) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(spec.hidden_size, spec.norm_eps)
        self.self_attn = Attention(spec, layer_index)
        self.post_attention_layernorm = RMSNorm(spec.hidden_size, spec.norm_eps)
        self.mlp = SwiGLU(spec.hidden_size, spec.ffn_size)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, attend: Attend) -> Tensor:
        """`[..., T, hidden]` -> `[..., T, hidden]`."""
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, attend)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    """Embedding table, layers and final norm; a module only for its parameters' names."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(spec.vocab_size, spec.hidden_size)
        self.layers = nn.ModuleList(DecoderLayer(spec, i) for i in range(spec.num_layers))
        self.norm = RMSNorm(spec.hidden_size, spec.norm_eps)


class LanguageModel(nn.Module):
    """Token ids to hidden states, and hidden states to logits over a range of ids."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.spec = spec
        self.model = Decoder(spec)
        if not spec.tie_embeddings:
            self.lm_head = nn.Linear(spec.hidden_size, spec.vocab_size, bias=False)

    def forward(self, token_ids: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Run the decoder.

        Args:
            token_ids: int64 `[..., T]`.
            positions: int64 `[..., T]`, the index of each token in its sequence.
            attend: Attention over the caller's keys and values.

        Returns:
            Hidden states after the final norm, `[..., T, hidden]`.
        """
        cos, sin = rotary_tables(positions, self.spec.head_dim, self.spec.rope_theta)
        x = self.model.embed_tokens(token_ids)
        cos, sin = cos.to(x.dtype), sin.to(x.dtype)
        for layer in self.model.layers:
            x = layer(x, cos, sin, attend)
        return self.model.norm(x)

    @property
    def head_weight(self) -> Tensor:
        """`[vocab, hidden]`: the head's rows, which are the embedding table where tied."""
        return self.model.embed_tokens.weight if self.spec.tie_embeddings else self.lm_head.weight

    def head(self, hidden: Tensor, first_id: int, last_id: int) -> Tensor:
        """Logits of ids `first_id` to `last_id - 1`: `[..., hidden]` -> `[..., last - first]`."""
        return functional.linear(hidden, self.head_weight[first_id:last_id])


def dense_causal_attend(layer_index: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention within one call: the plain twin of every cached or paged path."""
    del layer_index
    groups = q.shape[-2] // k.shape[-2]
    q, k, v = (x.transpose(-2, -3) for x in (q, k, v))
    k, v = (x.repeat_interleave(groups, -3) for x in (k, v))
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    length = q.shape[-2]
    future = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
    weights = scores.float().masked_fill(future, float("-inf")).softmax(-1).to(q.dtype)
    return (weights @ v).transpose(-2, -3)
