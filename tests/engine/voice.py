"""A tiny seeded voice, in memory and on disk."""

from pathlib import Path

import torch

from models.codec.decoder import CodecDecoder
from models.language_model import LanguageModel
from models.spec import CodecSpec, ModelSpec, VoiceSpec, write_voice_spec
from models.tokenizer import PHONEME_SYMBOLS
from models.weights import CODEC_DECODER_FILE, LANGUAGE_MODEL_FILE, save_weights

NUM_CODES = 32
_TEXT_START = len(PHONEME_SYMBOLS) + 1
_AUDIO_BASE = _TEXT_START + 3

MODEL = ModelSpec(
    num_layers=2,
    hidden_size=64,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    ffn_size=96,
    max_positions=512,
    vocab_size=_AUDIO_BASE + 7 * NUM_CODES,
    text_start_id=_TEXT_START,
    text_end_id=_TEXT_START + 1,
    end_of_speech_id=_TEXT_START + 2,
    audio_base_id=_AUDIO_BASE,
    codebook_size=NUM_CODES,
)
CODEC = CodecSpec(
    codebook_size=NUM_CODES,
    latent_size=8,
    trunk_size=16,
    trunk_hidden_size=24,
    trunk_dilations=(1, 2),
    fine_size=16,
    fine_hidden_size=24,
    fine_dilations=(1,),
)
VOICE = VoiceSpec(
    name="tiny",
    aliases=("default",),
    language="en-US",
    licence="Apache-2.0",
    description="Random weights",
    model=MODEL,
    codec=CODEC,
    symbols=PHONEME_SYMBOLS,
)


def language_model(spec: ModelSpec = MODEL, seed: int = 0) -> LanguageModel:
    """Random bf16-valued weights, large enough that the context decides the token."""
    torch.manual_seed(seed)
    model = LanguageModel(spec)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=parameter.shape[1] ** -0.5 * 1.5)
            parameter.copy_(parameter.bfloat16().float())
    return model.eval().requires_grad_(False)


def codec_decoder(spec: CodecSpec = CODEC, seed: int = 1) -> CodecDecoder:
    torch.manual_seed(seed)
    decoder = CodecDecoder(spec)
    with torch.no_grad():
        for tensor in decoder.state_dict().values():
            if tensor.is_floating_point():
                tensor.copy_(tensor.bfloat16().float())
    return decoder.eval().requires_grad_(False)


def write_voice(folder: Path, spec: VoiceSpec = VOICE) -> Path:
    """A voice folder named as the configuration's default; the folder above it."""
    target = folder / "default"
    target.mkdir(parents=True)
    write_voice_spec(target, spec)
    save_weights(language_model(spec.model), target / LANGUAGE_MODEL_FILE)
    save_weights(codec_decoder(spec.codec), target / CODEC_DECODER_FILE)
    return folder
