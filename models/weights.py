"""Voice folders on disk: safetensors files, checked against the spec beside them."""

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from models.codec.decoder import CodecDecoder
from models.language_model import LanguageModel
from models.spec import VoiceSpec, read_voice_spec
from models.tokenizer import PhonemeTokenizer

LANGUAGE_MODEL_FILE = "language_model.safetensors"
DRAFT_MODEL_FILE = "draft_model.safetensors"
CODEC_DECODER_FILE = "codec_decoder.safetensors"
CODEC_ENCODER_FILE = "codec_encoder.safetensors"


class WeightsError(ValueError):
    """A weights file does not fit the spec beside it."""


@dataclass(frozen=True)
class LoadedVoice:
    """A voice in memory, in evaluation mode.

    Attributes:
        spec: What it is.
        language_model: Phonemes to speech codes.
        codec_decoder: Speech codes to samples; always float32.
        tokenizer: Phonemes to ids.
    """

    spec: VoiceSpec
    language_model: LanguageModel
    codec_decoder: CodecDecoder
    tokenizer: PhonemeTokenizer


def load_weights(module: nn.Module, path: Path) -> None:
    """Copy the tensors of `path` into `module`.

    Raises:
        FileNotFoundError: There is no such file.
        WeightsError: A name is missing or unknown, or a shape or dtype differs; the message names
            the tensor, what the file holds and what the spec wants.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no weights at {path}")
    stored = load_file(path)
    wanted = module.state_dict()
    missing, unknown = sorted(wanted.keys() - stored.keys()), sorted(stored.keys() - wanted.keys())
    if missing or unknown:
        raise WeightsError(
            f"{path.name}: missing tensors {missing[:4]}, unknown tensors {unknown[:4]}"
        )
    for name, tensor in stored.items():
        if tensor.shape != wanted[name].shape:
            raise WeightsError(
                f"{path.name}: {name} has shape {tuple(tensor.shape)}, "
                f"the spec wants {tuple(wanted[name].shape)}"
            )
        if not tensor.is_floating_point():
            raise WeightsError(
                f"{path.name}: {name} has dtype {tensor.dtype}, a floating dtype is wanted"
            )
    module.load_state_dict({name: tensor.to(wanted[name].dtype) for name, tensor in stored.items()})


def save_weights(module: nn.Module, path: Path) -> None:
    """Write the tensors of `module` in bfloat16 to `path`, replacing it at once."""
    tensors: dict[str, Tensor] = {
        name: tensor.detach().to(torch.bfloat16).contiguous()
        for name, tensor in module.state_dict().items()
    }
    part = path.with_suffix(".part")
    save_file(tensors, part)
    part.chmod(0o644)  # safetensors makes it readable by its owner alone
    part.replace(path)


def load_voice(
    folder: Path, *, device: str = "cpu", dtype: torch.dtype = torch.float32
) -> LoadedVoice:
    """Load the voice in `folder`.

    Args:
        folder: Holds `voice.json` and the weights.
        device: Torch device of both networks.
        dtype: Of the language model.

    Raises:
        FileNotFoundError: A file is missing.
        msgspec.ValidationError: `voice.json` does not describe a voice.
        WeightsError: A weights file does not fit it.
    """
    spec = read_voice_spec(folder)
    language_model, codec_decoder = LanguageModel(spec.model), CodecDecoder(spec.codec)
    load_weights(language_model, folder / LANGUAGE_MODEL_FILE)
    load_weights(codec_decoder, folder / CODEC_DECODER_FILE)
    return LoadedVoice(
        spec=spec,
        language_model=language_model.to(device=device, dtype=dtype).eval().requires_grad_(False),
        codec_decoder=codec_decoder.to(device=device).eval().requires_grad_(False),
        tokenizer=PhonemeTokenizer(spec.symbols),
    )
