"""Each CPU kernel against its plain-torch definition, and each row against itself in company."""

import pytest
import torch

from kernels import reference

# float32 sums in another order than torch's. Of 704 unit-variance terms the partial sums stay
# below 128, where a rounding is at most 4e-6; roundings accumulate as a random walk.
CLOSE = {"rtol": 1e-5, "atol": 1e-4}


def exactly_bf16(*shape):
    return torch.randn(*shape).bfloat16().float()


@pytest.mark.parametrize(
    ("rows", "depth", "columns"),
    [(1, 5, 1), (3, 64, 33), (8, 704, 256), (13, 17, 100), (67, 48, 513)],
)
@pytest.mark.parametrize("make", [torch.randn, exactly_bf16])
def test_linear_agrees_with_reference(kernels, make, rows, depth, columns):
    x, weight = torch.randn(rows, depth), make(columns, depth)
    packed = kernels.pack(weight)
    assert bool(packed.struct.is_bf16) == (make is exactly_bf16)
    y = kernels.linear(x, packed)
    torch.testing.assert_close(y, reference.linear(x, weight), **CLOSE)


def test_bf16_storage_changes_no_bit(kernels):
    x, weight = torch.randn(19, 80), exactly_bf16(144, 80)
    narrow, wide = kernels.pack(weight), kernels.pack(weight, keep_bf16=False)
    assert narrow.panels.dtype == torch.bfloat16
    assert wide.panels.dtype == torch.float32
    assert torch.equal(kernels.linear(x, narrow), kernels.linear(x, wide))


@pytest.mark.parametrize("make", [torch.randn, exactly_bf16])
def test_linear_rows_are_the_same_bits_in_every_batch(kernels, make):
    x, packed = torch.randn(67, 96), kernels.pack(make(112, 96))
    alone = torch.cat([kernels.linear(row.unsqueeze(0), packed) for row in x])
    for rows in range(1, 68):
        assert torch.equal(kernels.linear(x[:rows], packed), alone[:rows])
        assert torch.equal(kernels.linear(x[-rows:].contiguous(), packed), alone[-rows:])


def test_linear_add_adds_to_the_residual(kernels):
    x, weight, residual = torch.randn(9, 40), torch.randn(48, 40), torch.randn(9, 48)
    expected = residual + reference.linear(x, weight)
    kernels.linear_add(x, kernels.pack(weight), residual)
    torch.testing.assert_close(residual, expected, **CLOSE)


def test_swiglu_agrees_with_reference_and_rows_stay_invariant(kernels):
    x, gate, up = 3 * torch.randn(23, 64), torch.randn(80, 64), torch.randn(80, 64)
    packed = kernels.pack_swiglu(gate, up)
    y = kernels.linear_swiglu(x, packed)
    # Products of two sums of about 100.
    torch.testing.assert_close(y, reference.swiglu(x, gate, up), rtol=1e-4, atol=1e-3)
    for row in range(23):
        assert torch.equal(kernels.linear_swiglu(x[row : row + 1], packed)[0], y[row])


def test_swiglu_saturates_without_infinities(kernels):
    weight = torch.eye(16)
    x = torch.linspace(-1e4, 1e4, 16).unsqueeze(0)
    y = kernels.linear_swiglu(x, kernels.pack_swiglu(weight, torch.ones(16, 16) / 16))
    assert torch.isfinite(y).all()


def test_rms_norm_agrees_with_reference(kernels):
    x, weight = 5 * torch.randn(7, 256), torch.randn(256)
    torch.testing.assert_close(
        kernels.rms_norm(x, weight, 1e-5), reference.rms_norm(x, weight, 1e-5), **CLOSE
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_rotate_and_store_agrees_with_reference(kernels, dtype):
    heads, kv_heads, head_dim, rows = 6, 2, 32, 11
    qkv = torch.randn(rows, heads + 2 * kv_heads, head_dim)
    cosine, sine = reference.rotary_tables(head_dim, 50, 10000.0)
    positions, slots = torch.randperm(50)[:rows], torch.randperm(64)[:rows]
    pages = [torch.zeros(4, 16, kv_heads, head_dim, dtype=dtype) for _ in range(4)]

    at = (cosine[positions], sine[positions])
    queries = reference.rotate(qkv[:, :heads], *at)
    keys = reference.rotate(qkv[:, heads : heads + kv_heads], *at)
    reference.store_kv(keys, qkv[:, heads + kv_heads :], pages[0], pages[1], slots)
    kernels.rotate_and_store(
        qkv, cosine, sine, pages[2], pages[3], positions=positions, slot_mapping=slots
    )
    torch.testing.assert_close(qkv[:, :heads], queries, **CLOSE)
    # A difference in the last bit of float32 may cross a rounding boundary of float16.
    torch.testing.assert_close(
        pages[2], pages[0], rtol=2e-3 if dtype.itemsize == 2 else 1e-5, atol=2e-5
    )
    assert torch.equal(pages[3], pages[1])


def test_float16_pages_round_to_nearest_even(kernels):
    values = torch.tensor([1.0, 1 + 2**-11, 1 + 3 * 2**-11, 65504.0, 1e-5, 6e-8, 2e-8, 0.0])
    qkv = torch.cat((values, -values, torch.randn(16))).view(1, 1, 32).repeat(1, 3, 1)
    ones, zeros = torch.ones(1, 16), torch.zeros(1, 16)
    pages = [torch.zeros(1, 8, 1, 32, dtype=torch.float16) for _ in range(2)]
    kernels.rotate_and_store(
        qkv, ones, zeros, *pages, positions=torch.tensor([0]), slot_mapping=torch.tensor([3])
    )
    assert torch.equal(pages[1][0, 3, 0], qkv[0, 2].half())


def ragged_case(dtype, block_size, heads=(4, 2), head_dim=32):
    """Rows of sequences of 1 to 700 tokens: prefill tails of several rows and decode rows."""
    contexts, rows_each = [1, 7, 8, 9, 40, 333, 700], [1, 3, 1, 9, 40, 1, 5]
    num_blocks = sum(-(-context // block_size) for context in contexts) + 5
    free = torch.randperm(num_blocks).tolist()
    tables = torch.full((len(contexts), -(-700 // block_size)), 10**6, dtype=torch.int32)
    positions, owners = [], []
    for index, (context, rows) in enumerate(zip(contexts, rows_each, strict=True)):
        for block in range(-(-context // block_size)):
            tables[index, block] = free.pop()
        positions += range(context - rows, context)
        owners += [index] * rows
    shape = (num_blocks, block_size, heads[1], head_dim)
    return (
        torch.randn(len(owners), heads[0], head_dim),
        torch.randn(shape).to(dtype),
        torch.randn(shape).to(dtype),
        torch.tensor(positions),
        torch.tensor(owners, dtype=torch.int32),
        tables,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("block_size", [8, 16, 32])
@pytest.mark.parametrize(
    ("heads", "head_dim"), [((4, 4), 64), ((4, 1), 16), ((6, 2), 80), ((3, 3), 128)]
)
def test_paged_attention_agrees_with_reference(kernels, dtype, block_size, heads, head_dim):
    case = ragged_case(dtype, block_size, heads, head_dim)
    torch.testing.assert_close(
        kernels.paged_attention(*case), reference.paged_attention(*case), **CLOSE
    )


def test_paged_attention_ignores_what_lies_beyond_the_context(kernels):
    queries, keys, values, positions, owners, tables = ragged_case(torch.float32, 16)
    before = kernels.paged_attention(queries, keys, values, positions, owners, tables)
    last = int(tables[3, 0])  # 9 tokens in blocks of 16: the rest of the second half is free
    keys[last, 9:], values[last, 9:] = float("nan"), float("inf")
    after = kernels.paged_attention(queries, keys, values, positions, owners, tables)
    assert torch.equal(before, after)


def test_paged_attention_rows_are_the_same_bits_alone(kernels):
    queries, keys, values, positions, owners, tables = ragged_case(torch.float32, 16)
    together = kernels.paged_attention(queries, keys, values, positions, owners, tables)
    for row in range(len(queries)):
        one = slice(row, row + 1)
        alone = kernels.paged_attention(
            queries[one], keys, values, positions[one], owners[one], tables
        )
        assert torch.equal(alone[0], together[row])
