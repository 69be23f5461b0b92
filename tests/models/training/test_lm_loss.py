"""The language model's training pass: agrees with plain attention and plain cross-entropy."""

import numpy as np
import torch
from torch.nn import functional

from models.language_model import LanguageModel, dense_causal_attend
from models.training.lm_loss import (
    GuidedAttention,
    batch_loss,
    collate,
    corrupt,
    initialize,
    position_losses,
)
from models.training.muon import orthogonalize
from models.training.sequences import Sequence
from tests.models.test_spec import model_spec

SPEC = model_spec(num_heads=4, num_kv_heads=2)
CPU = torch.device("cpu")
# float32 sums in another order
TOLERANCE = 2e-5


def model() -> LanguageModel:
    made = LanguageModel(SPEC)
    initialize(made, torch.Generator().manual_seed(0))
    return made


def sequence(frames: int) -> Sequence:
    text = [SPEC.text_start_id, 1, 2, 3, SPEC.text_end_id]
    codes = [
        SPEC.code_block(p)[0] + (p + f) % SPEC.codebook_size
        for f in range(frames)
        for p in range(7)
    ]
    ids = [*text, *codes, SPEC.end_of_speech_id]
    said = [-1] * 4 + [1 + min(2, i // 7) for i in range(frames * 7 + 1)] + [-1]
    return Sequence(np.array(ids), np.array(said))


def test_guided_attention_is_causal_attention() -> None:
    made = model()
    batch = collate([sequence(2), sequence(3)], CPU)
    inputs = batch.ids[:, :-1]
    positions = torch.arange(inputs.shape[1])
    guided = GuidedAttention((1,), inputs.shape[1], torch.float32, CPU)
    torch.testing.assert_close(
        made(inputs, positions, guided),
        made(inputs, positions, dense_causal_attend),
        rtol=0,
        atol=TOLERANCE,
    )


def test_loss_is_over_the_legal_codes_and_the_end_only() -> None:
    made = model()
    batch = collate([sequence(2)], CPU)
    hidden = torch.randn(len(batch.rows), SPEC.hidden_size)
    targets = batch.ids[:, 1:].flatten()[batch.rows]
    got = position_losses(made, hidden, targets)
    logits = hidden @ made.head_weight.T
    for p in range(7):
        legal = list(range(*SPEC.code_block(p))) + ([SPEC.end_of_speech_id] if p == 0 else [])
        rows = torch.arange(p, len(targets), 7)
        wanted = torch.tensor([legal.index(int(targets[r])) for r in rows])
        torch.testing.assert_close(
            got[p], functional.cross_entropy(logits[rows][:, legal], wanted), rtol=0, atol=TOLERANCE
        )


def test_padding_changes_no_loss() -> None:
    made = model()
    alone, _, _ = batch_loss(
        made, collate([sequence(2)], CPU), corruption=0.0, guide_weight=0.2, guided_layers=(1,)
    )
    twice, _, _ = batch_loss(
        made, collate([sequence(2)] * 2, CPU), corruption=0.0, guide_weight=0.2, guided_layers=(1,)
    )
    torch.testing.assert_close(alone, twice, rtol=0, atol=TOLERANCE)


def test_every_parameter_learns() -> None:
    made = model()
    loss, _, _ = batch_loss(
        made, collate([sequence(3)], CPU), corruption=0.1, guide_weight=0.2, guided_layers=(1,)
    )
    loss.backward()
    assert all(p.grad is not None and float(p.grad.abs().sum()) > 0 for p in made.parameters())


def test_corruption_keeps_frame_positions_and_text() -> None:
    torch.manual_seed(0)
    ids = torch.from_numpy(sequence(50).ids)
    changed = corrupt(ids, SPEC, 0.5)
    speech = ids >= SPEC.audio_base_id
    assert torch.equal(changed[~speech], ids[~speech])
    assert torch.equal(
        (changed[speech] - SPEC.audio_base_id) // SPEC.codebook_size,
        (ids[speech] - SPEC.audio_base_id) // SPEC.codebook_size,
    )
    assert 0.3 < float((changed[speech] != ids[speech]).float().mean()) < 0.6


def test_orthogonalized_matrices_have_singular_values_near_one() -> None:
    torch.manual_seed(0)
    for shape in ((3, 16, 40), (2, 40, 16)):
        values = torch.linalg.svdvals(orthogonalize(torch.randn(shape)))
        # the quintic iteration of Muon converges to a band around one, not to one
        assert float(values.min()) > 0.3
        assert float(values.max()) < 1.4


def test_corruption_leaves_controls_alone() -> None:
    spec = model_spec(vocab_size=84, num_speakers=2, speeds=(0.7, 1.0, 1.3), control_base_id=79)
    first, last = spec.code_block(6)
    inputs = torch.tensor([[*spec.control_ids(1, 1.3), 5, *([first] * 200)]])
    changed = corrupt(inputs, spec, 1.0)
    assert torch.equal(changed[:, :3], inputs[:, :3])
    assert bool(((changed[:, 3:] >= first) & (changed[:, 3:] < last)).all())
    assert not torch.equal(changed, inputs)
