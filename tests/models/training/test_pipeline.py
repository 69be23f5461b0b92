"""Every stage of the pipeline on a tiny budget, from text to a voice that loads."""

# ruff: noqa: RUF001  phonetic symbols

import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("hibari")

from models.language_model import LanguageModel
from models.training.codec_tokens import TokenStage
from models.training.export import (
    adopt_codec,
    decoder_of,
    encoding_half,
    export_voice,
    round_to_bfloat16,
)
from models.weights import DRAFT_MODEL_FILE, load_voice, load_weights
from tests.models.test_spec import voice_spec
from tests.models.training.stub_kokoro import write_stub_kokoro

CONFIG = """
workers = 2
shares = [0.4, 0.4, 0.2]
draft_share = 0.2
[corpus]
sentences = 60
[speech]
shard_lines = 30
[second]
model = "KOKORO"
lines = 12
[codec]
trunk_size = 32
trunk_hidden_size = 32
trunk_dilations = [1]
fine_size = 16
fine_hidden_size = 16
fine_dilations = [1]
[tokens]
batch_size = 2
crop_frames = 4
unquantized_steps = 3
[sound]
batch_size = 2
crop_frames = 4
[network]
num_layers = 2
hidden_size = 32
num_heads = 2
num_kv_heads = 1
head_dim = 16
ffn_size = 48
[draft]
num_layers = 1
hidden_size = 16
num_heads = 1
num_kv_heads = 1
head_dim = 16
ffn_size = 24
[language]
guided_layers = [0]
checkpoint_s = 1.0
exchange_steps = 2
"""


@pytest.mark.slow
def test_one_command_makes_a_voice_that_speaks(tmp_path: Path) -> None:
    config = tmp_path / "tiny.toml"
    kokoro = write_stub_kokoro(tmp_path / "kokoro")
    config.write_text(CONFIG.replace("KOKORO", str(kokoro)))
    run = tmp_path / "run"
    command = [
        sys.executable,
        "-m",
        "models.training",
        "all",
        "--run",
        str(run),
        "--config",
        str(config),
    ]
    made = subprocess.run(
        [*command, "--budget-minutes", "0.2"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert made.returncode == 0, made.stderr[-2000:]
    assert (run / "plots" / "codec.png").stat().st_size > 1000
    voice = load_voice(run / "voice")
    codes = torch.zeros(1, 2, voice.spec.codec.tokens_per_frame, dtype=torch.int64)
    first, second = (voice.codec_decoder.decode(codes, speaker) for speaker in (0, 1))
    assert first.shape == second.shape == (1, 2 * voice.spec.codec.samples_per_frame)
    assert bool(first.isfinite().all())
    assert not torch.equal(first, second)
    assert [s.gender for s in voice.spec.speakers] == ["female", "male"]
    speed = voice.spec.model.control_ids(1, 1.3)[1]
    assert speed == voice.spec.model.vocab_size - 1
    assert voice.spec.draft is not None
    load_weights(LanguageModel(voice.spec.draft), run / "voice" / DRAFT_MODEL_FILE)
    ids = torch.tensor([voice.spec.model.text_start_id, *voice.tokenizer.encode("həlˈO.")])
    assert bool(voice.language_model.head_weight[ids].isfinite().all())


def test_the_codec_of_a_voice_can_be_adopted_as_it_was_frozen(tmp_path: Path) -> None:
    torch.manual_seed(0)
    spec = voice_spec()
    frozen = TokenStage(spec.codec)
    frozen.codebooks.vectors.normal_()
    round_to_bfloat16(frozen)
    tuned = decoder_of(frozen)
    tuned.codebooks.vectors.mul_(2)
    language_model = LanguageModel(spec.model).state_dict()
    encoding = encoding_half(frozen).state_dict()
    export_voice(tmp_path, spec, language_model, tuned.state_dict(), encoding)
    stage, decoder = adopt_codec(tmp_path)
    assert torch.equal(stage.codebooks.vectors, frozen.codebooks.vectors)
    assert torch.equal(decoder.codebooks.vectors, tuned.codebooks.vectors)
    for name, tensor in frozen.encoder.state_dict().items():
        assert torch.equal(stage.encoder.state_dict()[name], tensor)
