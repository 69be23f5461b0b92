"""The numbers of a voice: derived facts, and what a broken voice.json answers."""

import itertools
from pathlib import Path

import msgspec
import pytest

from models.spec import CodecSpec, ModelSpec, VoiceSpec, read_voice_spec, write_voice_spec


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
