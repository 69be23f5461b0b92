"""The language model against a plain rendering of its formulas."""

import pytest
import torch

from models.language_model import LanguageModel, dense_causal_attend
from models.layers import RMSNorm
from models.spec import ModelSpec
from tests.models.test_spec import model_spec

# two orders of summation in float32 over at most a few dozen terms
TOLERANCE = 2e-5


def seeded(spec: ModelSpec) -> LanguageModel:
    torch.manual_seed(0)
    return LanguageModel(spec).eval().requires_grad_(False)


def reference(model: LanguageModel, ids: torch.Tensor) -> torch.Tensor:
    """One sequence `[T]`, position by position and head by head, as the papers write it."""
    spec, weights = model.spec, model.state_dict()
    half = spec.head_dim // 2

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return x / (x.pow(2).mean(-1, keepdim=True) + spec.norm_eps).sqrt() * weights[name]

    def turn(x: torch.Tensor, position: int) -> torch.Tensor:
        angle = position * spec.rope_theta ** (-torch.arange(half) / half)
        a, b = x[:half], x[half:]
        return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()])

    x = weights["model.embed_tokens.weight"][ids]
    for i in range(spec.num_layers):
        at = f"model.layers.{i}."
        y = norm(x, at + "input_layernorm.weight")
        q, k, v = (y @ weights[f"{at}self_attn.{n}_proj.weight"].T for n in "qkv")
        q, k, v = (t.view(len(ids), -1, spec.head_dim) for t in (q, k, v))
        mixed = torch.zeros(len(ids), spec.num_heads, spec.head_dim)
        for t in range(len(ids)):
            for head in range(spec.num_heads):
                group = head * spec.num_kv_heads // spec.num_heads
                scores = torch.stack(
                    [
                        turn(q[t, head], t) @ turn(k[s, group], s) / spec.head_dim**0.5
                        for s in range(t + 1)
                    ]
                )
                mixed[t, head] = scores.softmax(0) @ v[: t + 1, group]
        x = x + mixed.flatten(1) @ weights[at + "self_attn.o_proj.weight"].T
        y = norm(x, at + "post_attention_layernorm.weight")
        gate, up = (y @ weights[f"{at}mlp.{n}_proj.weight"].T for n in ("gate", "up"))
        x = x + (gate * gate.sigmoid() * up) @ weights[at + "mlp.down_proj.weight"].T
    return norm(x, "model.norm.weight")


def test_matches_the_formulas() -> None:
    model = seeded(model_spec(num_heads=4, num_kv_heads=2))
    ids = torch.arange(9) * 3 % model.spec.vocab_size
    got = model(ids, torch.arange(9), dense_causal_attend)
    torch.testing.assert_close(got, reference(model, ids), rtol=0, atol=TOLERANCE)


def test_a_batch_equals_its_rows() -> None:
    model = seeded(model_spec())
    ids = torch.arange(24).view(3, 8) % model.spec.vocab_size
    together = model(ids, torch.arange(8).expand(3, 8), dense_causal_attend)
    for row in range(3):
        alone = model(ids[row], torch.arange(8), dense_causal_attend)
        torch.testing.assert_close(together[row], alone, rtol=0, atol=TOLERANCE)


def test_later_tokens_do_not_reach_back() -> None:
    model = seeded(model_spec())
    ids = torch.arange(8)
    changed = ids.clone()
    changed[5:] = 40
    before, after = (model(x, torch.arange(8), dense_causal_attend) for x in (ids, changed))
    torch.testing.assert_close(before[:5], after[:5], rtol=0, atol=0)
    assert not torch.equal(before[5:], after[5:])


@pytest.mark.parametrize("tie", [True, False])
def test_the_head_of_a_range_is_that_part_of_the_whole(tie: bool) -> None:
    model = seeded(model_spec(tie_embeddings=tie))
    hidden = torch.randn(2, 3, model.spec.hidden_size)
    whole = model.head(hidden, 0, model.spec.vocab_size)
    first, last = model.spec.code_block(4)
    torch.testing.assert_close(
        model.head(hidden, first, last), whole[..., first:last], rtol=0, atol=TOLERANCE
    )
    assert ("lm_head.weight" in model.state_dict()) is not tie


def test_norm_keeps_the_dtype() -> None:
    assert RMSNorm(4, 1e-5)(torch.ones(2, 4)).dtype == torch.float32
