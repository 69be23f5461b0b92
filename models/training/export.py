"""From training checkpoints to a voice folder that the service loads."""

from pathlib import Path

import msgspec
import torch
from torch import Tensor, nn

from models.codec.decoder import CodecDecoder
from models.codec.encoder import CodecEncoder
from models.codec.quantizer import Codebooks
from models.language_model import LanguageModel
from models.spec import (
    CodecSpec,
    ModelSpec,
    SamplingDefaults,
    VoiceSpec,
    read_voice_spec,
    write_voice_spec,
)
from models.tokenizer import PHONEME_SYMBOLS
from models.training.codec_tokens import TokenStage
from models.training.registry import default_speakers
from models.weights import (
    CODEC_DECODER_FILE,
    CODEC_ENCODER_FILE,
    DRAFT_MODEL_FILE,
    LANGUAGE_MODEL_FILE,
    load_weights,
    save_weights,
)


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


class EncodingHalf(nn.Module):
    """What turns teacher speech into tokens, kept apart from the decoder that goes on learning."""

    def __init__(self, spec: CodecSpec) -> None:
        super().__init__()
        self.encoder = CodecEncoder(spec)
        self.codebooks = Codebooks(spec)


def encoding_half(stage: TokenStage) -> EncodingHalf:
    """The listening half of stage A."""
    half = EncodingHalf(stage.codebooks.spec)
    half.encoder.load_state_dict(stage.encoder.state_dict())
    half.codebooks.load_state_dict(stage.codebooks.state_dict())
    return half


def adopt_codec(folder: Path) -> tuple[TokenStage, CodecDecoder]:
    """The frozen codec and the tuned decoder of a voice that shipped."""
    spec = read_voice_spec(folder).codec
    half, decoder, stage = EncodingHalf(spec), CodecDecoder(spec), TokenStage(spec)
    load_weights(half, folder / CODEC_ENCODER_FILE)
    load_weights(decoder, folder / CODEC_DECODER_FILE)
    stage.encoder.load_state_dict(half.encoder.state_dict())
    stage.codebooks.load_state_dict(half.codebooks.state_dict())
    stage.trunk.load_state_dict(decoder.trunk.state_dict())
    return stage, decoder


def default_spec(
    model: ModelSpec, codec: CodecSpec, sampling: SamplingDefaults, figures: dict[str, float]
) -> VoiceSpec:
    """The spec of the voice that ships."""
    return VoiceSpec(
        name="default",
        language="en-US",
        licence="Apache-2.0",
        description="American English, a woman and a man."
        if codec.num_speakers > 1
        else "American English, a woman.",
        model=model,
        codec=codec,
        symbols=PHONEME_SYMBOLS,
        speakers=default_speakers((codec.reference_hz, *codec.speaker_hz)),
        sampling=sampling,
        figures=figures,
    )


def export_voice(
    folder: Path,
    spec: VoiceSpec,
    language_model: dict[str, Tensor],
    decoder: dict[str, Tensor],
    encoding: dict[str, Tensor],
) -> None:
    """Write weights and `voice.json`; each file is replaced at once, the spec last."""
    folder.mkdir(parents=True, exist_ok=True)
    parts: tuple[tuple[nn.Module, dict[str, Tensor], str], ...] = (
        (LanguageModel(spec.model), language_model, LANGUAGE_MODEL_FILE),
        (CodecDecoder(spec.codec), decoder, CODEC_DECODER_FILE),
        (EncodingHalf(spec.codec), encoding, CODEC_ENCODER_FILE),
    )
    for module, weights, name in parts:
        module.load_state_dict(weights)
        save_weights(module, folder / name)
    write_voice_spec(folder, spec)


def export_draft(folder: Path, model: ModelSpec, weights: dict[str, Tensor]) -> None:
    """Add a draft model to the voice in `folder`."""
    draft = LanguageModel(model)
    draft.load_state_dict(weights)
    save_weights(draft, folder / DRAFT_MODEL_FILE)
    write_voice_spec(folder, msgspec.structs.replace(read_voice_spec(folder), draft=model))
