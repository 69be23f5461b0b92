"""Paths of another rounding part only where two codes nearly tie."""

import pytest
import torch

from bench.divergence import compare, make_path
from kernels.cpu.build import CompilerMissingError
from models.tokenizer import PhonemeTokenizer
from models.weights import LoadedVoice
from tests.engine.voice import VOICE, codec_decoder, language_model

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def voice():
    return LoadedVoice(VOICE, language_model(), codec_decoder(), PhonemeTokenizer(VOICE.symbols))


def test_bfloat16_parts_from_float32_only_at_near_ties(voice):
    plain, half = make_path(voice, "float32"), make_path(voice, "bfloat16")
    partings, num_equal = compare(plain, half, num_streams=12, num_frames=6)
    assert num_equal > 100
    assert half.dtype == torch.bfloat16
    for parting in partings:
        assert 0 <= parting.tie <= 2 * parting.error
        assert parting.tie < 0.2  # bf16 keeps 8 bits: errors of the order of 0.1 in logits near 10


def test_plain_torch_and_kernels_speak_the_same(voice):
    try:
        kernels = make_path(voice, "kernels")
    except CompilerMissingError:
        pytest.skip("needs a C++ compiler")
    partings, _ = compare(kernels, make_path(voice, "float32"), num_streams=12, num_frames=6)
    assert all(parting.tie < 1e-4 for parting in partings)
