"""The numbers of a voice: derived facts, and what a broken voice.json answers."""

import itertools
from pathlib import Path

import msgspec
import pytest

from models.spec import (
    CodecSpec,
    ModelSpec,
    SpeakerSpec,
    VoiceSpec,
    read_voice_spec,
    write_voice_spec,
)


def model_spec(**changes: object) -> ModelSpec:
    fields: dict[str, object] = {
        "num_layers": 2, "hidden_size": 16, "num_heads": 2, "num_kv_heads": 1, "head_dim": 8,
        "ffn_size": 24, "vocab_size": 30 + 7 * 8, "text_start_id": 20,
        "text_end_id": 21, "end_of_speech_id": 22,

        "audio_base_id": 23, "codebook_size": 8, "max_positions": 128,
    }  # fmt: skip
    return msgspec.convert(fields | changes, ModelSpec)


def voice_spec() -> VoiceSpec:
    return VoiceSpec(
        name="tiny", language="en-US", licence="Apache-2.0", description="A test.",
        model=model_spec(), codec=CodecSpec(codebook_size=8), symbols="ab ",
    )  # fmt: skip


def test_rates_follow_from_the_layout() -> None:
    codec = CodecSpec()
    assert codec.tokens_per_frame == 7
    assert codec.latents_per_frame == 4
    assert codec.frame_s == pytest.approx(0.085333, abs=1e-6)
    assert codec.tokens_per_second == pytest.approx(82.03, abs=0.01)


def test_code_blocks_follow_each_other_without_gaps() -> None:
    spec = model_spec()
    blocks = [spec.code_block(p) for p in range(spec.tokens_per_frame)]
    assert blocks[0][0] == spec.audio_base_id
    assert all(a[1] == b[0] for a, b in itertools.pairwise(blocks))
    assert all(last - first == spec.codebook_size for first, last in blocks)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"num_heads": 3, "num_kv_heads": 2}, "multiple"),
        ({"head_dim": 7}, "even"),
        ({"vocab_size": 40}, "every code block"),
        ({"num_speakers": 8, "control_base_id": 79}, "every control"),
        ({"num_speakers": 2, "control_base_id": 78}, "behind the code blocks"),
        ({"speeds": (1.0, 1.0), "control_base_id": 79, "vocab_size": 90}, "ascend"),
    ],
)
def test_impossible_dimensions_are_refused(changes: dict[str, int], said: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=said):
        model_spec(**changes)


def test_a_voice_survives_the_file(tmp_path: Path) -> None:
    write_voice_spec(tmp_path, voice_spec())
    assert read_voice_spec(tmp_path) == voice_spec()


def test_an_unknown_field_is_named(tmp_path: Path) -> None:
    write_voice_spec(tmp_path, voice_spec())
    file = tmp_path / "voice.json"
    file.write_text(file.read_text().replace('"language"', '"langauge"'))
    with pytest.raises(msgspec.ValidationError, match="langauge"):
        read_voice_spec(tmp_path)


def test_a_model_without_controls_names_none() -> None:
    assert model_spec().control_ids(0, 1.2) == ()
    assert model_spec().control_ids(1, 1.0) == ()


def test_a_prompt_names_its_speaker_and_the_nearest_trained_speed() -> None:
    changes = {"num_speakers": 2, "speeds": (0.7, 1.0, 1.3)}
    spec = model_spec(**changes, control_base_id=79, vocab_size=84)
    assert spec.control_ids(0, 1.0) == (79, 82)
    assert spec.control_ids(1, 0.8) == (80, 81)
    assert spec.control_ids(1, 9.0) == (80, 83)
    with pytest.raises(ValueError, match="2 speakers"):
        spec.control_ids(2, 1.0)


def speaker(name: str) -> SpeakerSpec:
    return SpeakerSpec(
        id=name, description="A test.", gender="female", language="en-US", licence="MIT",
        teacher="nobody",
    )  # fmt: skip


def test_speakers_are_as_many_as_the_codec_has(tmp_path: Path) -> None:
    codec = CodecSpec(codebook_size=8, speaker_hz=(110.0,))
    two = (speaker("anna"), speaker("ben"))
    spec = msgspec.structs.replace(voice_spec(), codec=codec, speakers=two)
    write_voice_spec(tmp_path, spec)
    assert read_voice_spec(tmp_path) == spec
    with pytest.raises(ValueError, match="as many"):
        msgspec.structs.replace(spec, speakers=two[:1])
