"""A step's rows: the fast path against plain torch, and every row against itself in company."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from kernels.cpu.build import CompilerMissingError
from kernels.cpu.decoder import UnsupportedShapeError
from kernels.cpu.library import load_kernels
from models.attention import AttentionMeta
from models.cpu_decoder import CpuDecoder
from models.language_model import LanguageModel, dense_causal_attend
from models.spec import ModelSpec
from models.step_model import make_step_model
from models.torch_decoder import TorchDecoder

# Hidden states after the final norm are of order 1; eight layers of float32 roundings in another
# order than torch's differ by about 1e-6.
CLOSE = {"rtol": 1e-4, "atol": 2e-5}


def make_spec(**changes):
    base = {
        "num_layers": 2,
        "hidden_size": 64,
        "num_heads": 4,
        "num_kv_heads": 2,
        "head_dim": 16,
        "ffn_size": 96,
        "max_positions": 704,
        "vocab_size": 20 + 7 * 24,
        "text_start_id": 16,
        "text_end_id": 17,
        "end_of_speech_id": 18,
        "audio_base_id": 20,
        "codebook_size": 24,
    }
    return ModelSpec(**(base | changes))


TINY = make_spec()
REAL = make_spec(
    num_layers=6,
    hidden_size=256,
    head_dim=64,
    ffn_size=704,
    tie_embeddings=False,
    codebook_size=512,
    vocab_size=20 + 7 * 512,
)


def make_language_model(spec):
    torch.manual_seed(1)
    model = LanguageModel(spec).eval().requires_grad_(False)
    for name, weight in model.named_parameters():
        scale = 1.0 if "norm" in name else 1.2 / spec.hidden_size**0.5  # rows keep their size
        weight.copy_((torch.randn_like(weight) * scale).bfloat16())
    return model


class Pages(NamedTuple):
    k: Tensor
    v: Tensor


class Cache:
    """A paged cache whose blocks lie in random order, with garbage where nothing was stored."""

    def __init__(self, spec, contexts, block_size=16, dtype=torch.float32):
        self.block_size = block_size
        counts = [-(-context // block_size) for context in contexts]
        order = torch.randperm(sum(counts)).int()
        self.tables = torch.full((len(contexts), max(counts)), -1, dtype=torch.int32)
        for table, count, blocks in zip(self.tables, counts, order.split(counts), strict=True):
            table[:count] = blocks
        shape = (spec.num_layers, len(order), block_size, spec.num_kv_heads, spec.head_dim)
        self.kv = Pages(
            torch.full(shape, float("nan"), dtype=dtype),
            torch.full(shape, float("nan"), dtype=dtype),
        )

    def step(self, model, tokens, slices, output_rows=None):
        """Run rows ``(sequence, first, last)`` of the token lists; hidden states of all rows."""
        rows = [(s, p) for s, first, last in slices for p in range(first, last)]
        owners = torch.tensor([s for s, _ in rows], dtype=torch.int32)
        positions = torch.tensor([p for _, p in rows])
        blocks = self.tables[owners.long(), positions // self.block_size].long()
        meta = AttentionMeta(
            positions=positions,
            slot_mapping=blocks * self.block_size + positions % self.block_size,
            row_sequence=owners,
            context_lens=torch.tensor([0] * len(tokens), dtype=torch.int32).scatter_reduce(
                0, owners.long(), positions.int() + 1, "amax"
            ),
            block_tables=self.tables,
            output_rows=torch.arange(len(rows)) if output_rows is None else output_rows,
        )
        ids = torch.stack([tokens[s][p] for s, p in rows])
        return model.forward(ids, positions, meta, self.kv)


def random_tokens(spec, lengths):
    return [torch.randint(0, spec.vocab_size, (length,)) for length in lengths]


@pytest.fixture(scope="module")
def kernels():
    try:
        return load_kernels()
    except CompilerMissingError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def fast(kernels):
    return CpuDecoder(make_language_model(TINY), TINY, kernels)


@pytest.fixture
def seeded():
    torch.manual_seed(2)


def alone(model, tokens, spec=TINY, **cache):
    """Hidden states of a sequence prefilled whole, by itself."""
    length = len(tokens)
    return Cache(spec, [length], **cache).step(model, [tokens], [(0, 0, length)])


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"num_kv_heads": 4},
        {"num_kv_heads": 1, "head_dim": 32},
        {"tie_embeddings": False},
        {"num_heads": 3, "num_kv_heads": 3, "head_dim": 48, "hidden_size": 80, "ffn_size": 112},
    ],
)
@pytest.mark.usefixtures("seeded")
def test_both_models_agree_with_the_dense_model(kernels, changes):
    spec = make_spec(**changes)
    language_model = make_language_model(spec)
    tokens = random_tokens(spec, [37])
    dense = language_model(tokens[0], torch.arange(37), dense_causal_attend)
    fast = CpuDecoder(language_model, spec, kernels)
    plain = TorchDecoder(language_model, spec)
    for model in (fast, plain):
        torch.testing.assert_close(alone(model, tokens[0], spec), dense, **CLOSE)
    frame = torch.arange(37) % 7
    torch.testing.assert_close(fast.logits(dense, frame), plain.logits(dense, frame), **CLOSE)


@pytest.mark.slow
@pytest.mark.usefixtures("seeded")
def test_models_agree_on_the_shipped_shape_in_a_mixed_step(kernels):
    language_model = make_language_model(REAL)
    models = CpuDecoder(language_model, REAL, kernels), TorchDecoder(language_model, REAL)
    tokens = random_tokens(REAL, [61, 9, 130])
    results = []
    for model in models:
        torch.manual_seed(3)
        cache = Cache(REAL, [61, 9, 130], block_size=32)
        cache.step(model, tokens, [(0, 0, 60), (2, 0, 77)])
        results.append(cache.step(model, tokens, [(0, 60, 61), (1, 0, 9), (2, 77, 130)]))
    torch.testing.assert_close(*results, **CLOSE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.usefixtures("seeded")
def test_batched_rows_equal_the_same_rows_alone(fast, dtype):
    lengths = [1 + 700 * i // 40 for i in range(41)]
    tokens = random_tokens(TINY, lengths)
    expected = [alone(fast, t, dtype=dtype)[-1] for t in tokens]
    cache = Cache(TINY, lengths, dtype=dtype)
    cache.step(fast, tokens, [(s, 0, n - 1) for s, n in enumerate(lengths)])
    hidden = cache.step(fast, tokens, [(s, n - 1, n) for s, n in enumerate(lengths)])
    assert torch.equal(hidden, torch.stack(expected))


@pytest.mark.usefixtures("seeded")
def test_decode_rows_are_the_same_bits_in_every_batch_size(fast):
    lengths = [1 + 13 * i % 90 for i in range(67)]
    tokens = random_tokens(TINY, lengths)
    cache = Cache(TINY, lengths)
    cache.step(fast, tokens, [(s, 0, n) for s, n in enumerate(lengths)])
    whole = cache.step(fast, tokens, [(s, n - 1, n) for s, n in enumerate(lengths)])
    for size in range(1, 68):
        company = torch.randperm(67)[:size].tolist()
        hidden = cache.step(fast, tokens, [(s, lengths[s] - 1, lengths[s]) for s in company])
        assert torch.equal(hidden, whole[company])


@pytest.mark.parametrize("chunks", [[1] * 90, [16, 32, 42], [7, 1, 50, 3, 29], [89, 1]])
@pytest.mark.usefixtures("seeded")
def test_chunked_prefill_equals_whole_prefill(fast, chunks):
    (tokens,) = random_tokens(TINY, [90])
    whole = alone(fast, tokens)
    cache, done, parts = Cache(TINY, [90]), 0, []
    for chunk in chunks:
        parts.append(cache.step(fast, [tokens], [(0, done, done + chunk)]))
        done += chunk
    assert torch.equal(torch.cat(parts), whole)


@pytest.mark.usefixtures("seeded")
def test_preempted_and_recomputed_sequence_equals_the_uninterrupted_one(fast):
    tokens = random_tokens(TINY, [60, 33])
    steady = Cache(TINY, [60, 33])
    steady.step(fast, tokens, [(0, 0, 20)])
    expected = [steady.step(fast, tokens, [(0, p, p + 1)]) for p in range(20, 60)]

    evicted = Cache(TINY, [60, 33])
    evicted.step(fast, tokens, [(1, 0, 30), (0, 0, 20)])
    for p in range(20, 45):
        evicted.step(fast, tokens, [(0, p, p + 1)])
    resumed = Cache(TINY, [60, 33])  # other blocks, recomputed in one prefill beside a stranger
    part = resumed.step(fast, tokens, [(1, 0, 33), (0, 0, 45)])[33:]
    rest = [resumed.step(fast, tokens, [(0, p, p + 1)]) for p in range(45, 60)]
    assert torch.equal(part[20:], torch.cat(expected[:25]))
    assert torch.equal(torch.cat(rest), torch.cat(expected[25:]))


@pytest.mark.usefixtures("seeded")
def test_block_size_changes_no_bit(fast):
    (tokens,) = random_tokens(TINY, [301])
    small = alone(fast, tokens, block_size=16)
    for block_size in (8, 32, 64):
        assert torch.equal(alone(fast, tokens, block_size=block_size), small)


@pytest.mark.usefixtures("seeded")
def test_only_output_rows_are_returned_and_all_rows_are_stored(fast):
    tokens = random_tokens(TINY, [12, 5])
    cache = Cache(TINY, [13, 6])
    full = cache.step(fast, tokens, [(0, 0, 11), (1, 0, 5)])
    again = Cache(TINY, [13, 6])
    picked = again.step(fast, tokens, [(0, 0, 11), (1, 0, 5)], output_rows=torch.tensor([15, 10]))
    assert torch.equal(picked, full[[15, 10]])
    assert torch.equal(
        again.step(fast, tokens, [(0, 11, 12)]), cache.step(fast, tokens, [(0, 11, 12)])
    )


@pytest.mark.usefixtures("seeded")
def test_step_without_output_rows_only_stores(fast):
    tokens = random_tokens(TINY, [8])
    cache = Cache(TINY, [8])
    nothing = torch.empty(0, dtype=torch.int64)
    assert cache.step(fast, tokens, [(0, 0, 7)], output_rows=nothing).shape == (0, 64)
    assert torch.equal(cache.step(fast, tokens, [(0, 7, 8)])[0], alone(fast, tokens[0])[7])


@pytest.mark.usefixtures("seeded")
def test_end_of_speech_is_legal_only_at_the_first_frame_position(fast):
    hidden = torch.randn(15, 64)
    frame = torch.arange(15) % 7
    logits = fast.logits(hidden, frame)
    assert logits.shape == (15, 25)
    assert torch.equal(logits[:, -1].isfinite(), frame == 0)
    assert logits[:, :-1].isfinite().all()
    for row in range(15):
        assert torch.equal(fast.logits(hidden[row : row + 1], frame[row : row + 1])[0], logits[row])


@pytest.mark.parametrize("fault", ["token", "position", "slot", "block", "sequence", "output"])
@pytest.mark.usefixtures("seeded")
def test_index_out_of_range_is_refused_before_anything_is_written(fast, fault):
    cache = Cache(TINY, [4])
    meta = AttentionMeta(
        positions=torch.tensor([16 if fault == "position" else 0]),
        slot_mapping=torch.tensor([16 if fault == "slot" else 0]),
        row_sequence=torch.tensor([1 if fault == "sequence" else 0], dtype=torch.int32),
        context_lens=torch.tensor([1], dtype=torch.int32),
        block_tables=torch.tensor([[1 if fault == "block" else 0]], dtype=torch.int32),
        output_rows=torch.tensor([1 if fault == "output" else 0]),
    )
    ids = torch.tensor([TINY.vocab_size if fault == "token" else 0])
    with pytest.raises(IndexError):
        fast.forward(ids, meta.positions, meta, cache.kv)
    assert cache.kv.k.isnan().all()


def test_wrong_dtype_or_layout_is_refused(fast):
    cache = Cache(TINY, [4])
    with pytest.raises(TypeError, match="int64"):
        cache.step(fast, [torch.zeros(4, dtype=torch.int32)], [(0, 0, 4)])
    cache.kv = Pages(cache.kv.k[:1], cache.kv.v[:1])
    with pytest.raises(ValueError, match="does not fit"):
        cache.step(fast, [torch.zeros(4, dtype=torch.int64)], [(0, 0, 4)])


def test_factory_falls_back_with_a_reason_and_refuses_when_required():
    language_model = make_language_model(TINY)
    arguments = {"device": "cpu", "compiler": "no-such-compiler"}
    model, reason = make_step_model(language_model, TINY, **arguments)
    assert isinstance(model, TorchDecoder)
    assert reason.startswith("compiler_missing: ")
    with pytest.raises(CompilerMissingError):
        make_step_model(language_model, TINY, compile="required", **arguments)
    model, reason = make_step_model(language_model, TINY, compile="off", **arguments)
    assert isinstance(model, TorchDecoder)
    assert reason is None


def test_factory_names_a_shape_the_kernels_cannot_run(kernels):
    spec = make_spec(ffn_size=100)
    model, reason = make_step_model(make_language_model(spec), spec, device="cpu")
    assert isinstance(model, TorchDecoder)
    assert reason == "unsupported_shape: ffn_size 100 is no multiple of 16"
    with pytest.raises(UnsupportedShapeError):
        make_step_model(make_language_model(spec), spec, device="cpu", compile="required")
