"""From training checkpoints to a voice folder that the service loads."""

from pathlib import Path

import torch
from torch import Tensor, nn

from models.codec.decoder import CodecDecoder
from models.codec.encoder import CodecEncoder
from models.language_model import LanguageModel
from models.spec import CodecSpec, ModelSpec, SamplingDefaults, VoiceSpec, write_voice_spec
from models.tokenizer import PHONEME_SYMBOLS
from models.training.codec_tokens import TokenStage
from models.weights import CODEC_DECODER_FILE, CODEC_ENCODER_FILE, LANGUAGE_MODEL_FILE, save_weights


def round_to_bfloat16(module: nn.Module) -> None:
    """Round every weight, in place, to a value that bfloat16 holds."""
    for tensor in module.state_dict().values():
        tensor.copy_(tensor.to(torch.bfloat16).to(tensor.dtype))


def decoder_of(stage: TokenStage) -> CodecDecoder:
    """The speaking half of stage A."""
    decoder = CodecDecoder(stage.codebooks.spec)
    decoder.codebooks.load_state_dict(stage.codebooks.state_dict())
    decoder.trunk.load_state_dict(stage.trunk.state_dict())
    return decoder


def default_spec(
    model: ModelSpec, codec: CodecSpec, sampling: SamplingDefaults, figures: dict[str, float]
) -> VoiceSpec:
    """The spec of the voice that ships."""
    return VoiceSpec(
        name="default",
        language="en-US",
        licence="Apache-2.0",
        description="One American English speaker, distilled from hibari (heart).",
        model=model,
        codec=codec,
        symbols=PHONEME_SYMBOLS,
        sampling=sampling,
        figures=figures,
    )


def export_voice(
    folder: Path,
    spec: VoiceSpec,
    language_model: dict[str, Tensor],
    decoder: dict[str, Tensor],
    encoder: dict[str, Tensor],
) -> None:
    """Write weights and `voice.json`; each file is replaced at once, the spec last."""
    folder.mkdir(parents=True, exist_ok=True)
    parts: tuple[tuple[nn.Module, dict[str, Tensor], str], ...] = (
        (LanguageModel(spec.model), language_model, LANGUAGE_MODEL_FILE),
        (CodecDecoder(spec.codec), decoder, CODEC_DECODER_FILE),
        (CodecEncoder(spec.codec), encoder, CODEC_ENCODER_FILE),
    )
    for module, weights, name in parts:
        module.load_state_dict(weights)
        save_weights(module, folder / name)
    write_voice_spec(folder, spec)
