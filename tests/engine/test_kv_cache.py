import pytest
import torch

from realtime.engine.kv_cache import KVCache, block_bytes, size_cache
from tests.engine.voice import MODEL

MIB = 2**20


def sized(**changes):
    values = {"memory_mib": 0, "max_streams": 4, "free_bytes": None, "margin_ratio": 0.1}
    return size_cache(MIB // 4, 8, **{**values, **changes})


def test_every_stream_gets_the_trained_length_where_memory_allows():
    sizing = sized(free_bytes=100 * MIB)
    assert (sizing.num_blocks, sizing.bound) == (32, "streams")
    assert sizing.num_bytes == 8 * MIB
    assert sized().num_blocks == 32


def test_free_memory_less_its_margin_is_never_exceeded():
    sizing = sized(free_bytes=5 * MIB)
    assert (sizing.num_blocks, sizing.bound) == (18, "free_memory")
    assert sizing.num_bytes <= 0.9 * 5 * MIB
    assert sized(free_bytes=5 * MIB, margin_ratio=0.0).num_blocks == 20


def test_configured_memory_is_taken_as_it_is():
    sizing = sized(memory_mib=20, free_bytes=5 * MIB)
    assert (sizing.num_blocks, sizing.bound, sizing.free_bytes) == (80, "config", 5 * MIB)


def test_memory_below_one_sequence_is_refused_with_what_it_needs():
    with pytest.raises(ValueError, match=r"^kv_memory_mib 1 holds less .* needs 2 MiB$"):
        sized(memory_mib=1)
    with pytest.raises(ValueError, match=r"^2 MiB of free memory, less a margin of 10%, holds"):
        sized(free_bytes=2 * MIB)


def test_size_of_a_block_is_that_of_its_pages():
    kv = KVCache.allocate(MODEL, 3, 8, device="cpu", dtype=torch.float32)
    assert kv.k.nbytes + kv.v.nbytes == 3 * block_bytes(MODEL, 8, torch.float32)
