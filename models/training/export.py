"""From training checkpoints to a voice folder that the service loads."""

from pathlib import Path

import torch
from torch import nn

from models.codec.decoder import CodecDecoder
from models.language_model import LanguageModel
from models.spec import CodecSpec, ModelSpec, SamplingDefaults, VoiceSpec, write_voice_spec
from models.tokenizer import PHONEME_SYMBOLS
from models.training.codec_tokens import TokenStage
from models.weights import CODEC_DECODER_FILE, CODEC_ENCODER_FILE, LANGUAGE_MODEL_FILE, save_weights


def round_to_bfloat16(module: nn.Module) -> None:
    """Round every weight to a value that bfloat16 holds, in place: what is exported is then what was trained with."""
    for tensor in module.state_dict().values():
        tensor.copy_(tensor.to(torch.bfloat16).to(tensor.dtype))


def decoder_of(stage: TokenStage) -> CodecDecoder:
    """The speaking half of stage A."""
    decoder = CodecDecoder(stage.codebooks.spec)
    decoder.codebooks.load_state_dict(stage.codebooks.state_dict())
    decoder.trunk.load_state_dict(stage.trunk.state_dict())
    return decoder


def export_voice(
    folder: Path,
    *,
    language_model: dict[str, torch.Tensor],
    model: ModelSpec,
    decoder: dict[str, torch.Tensor],
    encoder: dict[str, torch.Tensor],
    codec: CodecSpec,
    sampling: SamplingDefaults,
    figures: dict[str, float],
) -> None:
    """Write weights and `voice.json`; each file is replaced at once, the spec last."""
    folder.mkdir(parents=True, exist_ok=True)
    network, sound = LanguageModel(model), CodecDecoder(codec)
    network.load_state_dict(language_model)
    sound.load_state_dict(decoder)
    stage = TokenStage(codec)
    stage.encoder.load_state_dict(encoder)
    save_weights(network, folder / LANGUAGE_MODEL_FILE)
    save_weights(sound, folder / CODEC_DECODER_FILE)
    save_weights(stage.encoder, folder / CODEC_ENCODER_FILE)
    write_voice_spec(
        folder,
        VoiceSpec(
            name="default",
            language="en-US",
            licence="Apache-2.0",
            description="One American English speaker, distilled from hibari (heart).",
            model=model,
            codec=codec,
            symbols=PHONEME_SYMBOLS,
            sampling=sampling,
            figures=figures,
        ),
    )
