"""Voice folders: what was saved comes back, and a file that does not fit says how."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from models.codec.decoder import CodecDecoder
from models.language_model import LanguageModel
from models.spec import write_voice_spec
from models.weights import (
    CODEC_DECODER_FILE,
    LANGUAGE_MODEL_FILE,
    WeightsError,
    load_voice,
    save_weights,
)
from tests.models.test_spec import voice_spec


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    spec = voice_spec()
    save_weights(LanguageModel(spec.model), tmp_path / LANGUAGE_MODEL_FILE)
    save_weights(CodecDecoder(spec.codec), tmp_path / CODEC_DECODER_FILE)
    write_voice_spec(tmp_path, spec)
    return tmp_path


def test_a_voice_loads_as_it_was_saved(folder: Path) -> None:
    voice = load_voice(folder)
    stored = load_file(folder / LANGUAGE_MODEL_FILE)
    assert voice.language_model.state_dict().keys() == stored.keys()
    for name, tensor in voice.language_model.state_dict().items():
        assert tensor.dtype == torch.float32
        assert torch.equal(tensor, stored[name].float())
    assert voice.tokenizer.encode("b ") == [2, 3]


def test_the_language_model_takes_the_dtype_asked_for(folder: Path) -> None:
    voice = load_voice(folder, dtype=torch.bfloat16)
    assert {p.dtype for p in voice.language_model.parameters()} == {torch.bfloat16}
    assert {p.dtype for p in voice.codec_decoder.parameters()} == {torch.float32}


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / CODEC_DECODER_FILE).unlink()
    with pytest.raises(FileNotFoundError, match=CODEC_DECODER_FILE):
        load_voice(folder)


@pytest.mark.parametrize(
    ("name", "tensor", "said"),
    [
        (
            "model.norm.weight",
            torch.ones(5),
            r"model\.norm\.weight has shape \(5,\), the spec wants \(16,\)",
        ),
        (
            "model.norm.weight",
            torch.ones(16, dtype=torch.int64),
            r"model\.norm\.weight has dtype torch\.int64",
        ),
        ("model.norm.bias", torch.ones(16), r"unknown tensors \['model\.norm\.bias'\]"),
        ("model.norm.weight", None, r"missing tensors \['model\.norm\.weight'\]"),
    ],
)
def test_a_file_that_does_not_fit_says_how(
    folder: Path, name: str, tensor: torch.Tensor | None, said: str
) -> None:
    tensors = load_file(folder / LANGUAGE_MODEL_FILE)
    if tensor is None:
        del tensors[name]
    else:
        tensors[name] = tensor
    save_file(tensors, folder / LANGUAGE_MODEL_FILE)
    with pytest.raises(WeightsError, match=said):
        load_voice(folder)
