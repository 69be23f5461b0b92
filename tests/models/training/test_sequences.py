"""Utterances to token sequences: layout, cuts on frame boundaries, chains."""

# ruff: noqa: RUF001  phonetic symbols

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from models.spec import CodecSpec, ModelSpec
from models.tokenizer import PhonemeTokenizer
from models.training.config import NetworkConfig
from models.training.sequences import (
    MixConfig,
    SequenceMixer,
    Spoken,
    build,
    load_spoken,
    save_spoken,
    split,
)

SPEC: ModelSpec = NetworkConfig(speeds=()).model_spec(CodecSpec())


def spoken(symbols: str = "stˈɑp, ɡˈO ˈɑn.", frames: int = 20, seed: int = 0) -> Spoken:
    ids = np.array(PhonemeTokenizer().encode(symbols), np.int16)
    codes = (
        np.random.default_rng(seed).integers(0, SPEC.codebook_size, (frames, 7)).astype(np.int16)
    )
    return Spoken(ids, symbols, np.linspace(1, frames, len(symbols)).astype(np.float32), codes)


def test_a_segment_is_its_phonemes_then_its_frames_then_the_end() -> None:
    said = spoken()
    ids = build([said], SPEC).ids
    n = len(said.phonemes)
    assert ids[0] == SPEC.text_start_id
    assert ids[1 : n + 1].tolist() == said.phonemes.tolist()
    assert ids[n + 1] == SPEC.text_end_id
    assert ids[-1] == SPEC.end_of_speech_id
    for i, token in enumerate(ids[n + 2 : -1]):
        first, last = SPEC.code_block(i % 7)
        assert first <= token < last
        assert token - first == said.codes.reshape(-1)[i]


def test_every_speech_target_points_at_a_phoneme_of_its_own_segment() -> None:
    parts = [spoken(seed=1), spoken("hˈI.", 9, 2)]
    sequence = build(parts, SPEC)
    lengths = [len(build([p], SPEC).ids) for p in parts]
    assert len(sequence.ids) == len(sequence.said) == sum(lengths)
    speech = sequence.said >= 0
    assert speech.sum() == sum(len(p.codes) * 7 + 1 for p in parts)
    second = np.flatnonzero(speech) >= lengths[0]
    assert (sequence.said[speech][second] > lengths[0]).all()
    assert (sequence.said[speech][~second] <= len(parts[0].phonemes)).all()
    assert (np.diff(sequence.said[: lengths[0]][speech[: lengths[0]]][::7]) >= 0).all()


def test_a_cut_loses_no_frame_and_no_sound() -> None:
    whole = spoken()
    parts = split(whole, whole.symbols.index(","))
    assert parts is not None
    left, right = parts
    assert (left.symbols, right.symbols) == ("stˈɑp,", "ɡˈO ˈɑn.")
    assert np.array_equal(np.concatenate([left.codes, right.codes]), whole.codes)
    assert left.ends.max() <= len(left.codes)
    assert right.ends.max() <= len(right.codes)


def test_a_cut_that_would_leave_almost_nothing_is_refused() -> None:
    whole = spoken(frames=5)
    assert split(whole, whole.symbols.index(",")) is None


def test_utterances_survive_the_file(tmp_path: Path) -> None:
    before = [spoken(seed=1), spoken("ʧˈAnʤ.", 8, 2)]
    save_spoken(tmp_path / "x.npz", before)
    for a, b in zip(before, load_spoken(tmp_path / "x.npz"), strict=True):
        assert a.symbols == b.symbols
        assert np.array_equal(a.codes, b.codes)
        assert np.array_equal(a.ends, b.ends)


@pytest.mark.parametrize("limit", [170, 400])
def test_batches_keep_to_their_size_and_length(limit: int) -> None:
    mixer = SequenceMixer(
        [spoken(seed=i) for i in range(200)], SPEC, MixConfig(), batch_tokens=600, seed=0
    )
    mixer.max_length = limit
    batches = mixer.batches()
    for _ in range(20):
        batch = next(batches)
        longest = max(len(s.ids) for s in batch)
        assert longest <= limit
        assert len(batch) == 1 or longest * len(batch) <= 600


def test_the_mix_holds_chains_and_cuts() -> None:
    mixer = SequenceMixer(
        [spoken(seed=i) for i in range(300)], SPEC, MixConfig(), batch_tokens=600, seed=0
    )
    segments = [int((s.ids == SPEC.end_of_speech_id).sum()) for s in mixer.pool(300)]
    assert {1, 2, 3} <= set(segments)


def test_a_prompt_says_who_speaks_and_how_fast() -> None:
    spec = NetworkConfig().model_spec(CodecSpec(speaker_hz=(110.0,)))
    said = replace(spoken(), speaker=1, speed=0.81)
    sequence = build([said, said], spec)
    assert sequence.ids[1:3].tolist() == list(spec.control_ids(1, 0.8))
    assert sequence.ids[3 : len(said.phonemes) + 3].tolist() == said.phonemes.tolist()
    speech = np.flatnonzero(sequence.said >= 0)
    # the first prediction of speech is made where the text ends
    assert sequence.ids[speech[0]] == spec.text_end_id
    assert sequence.said[speech].max() < len(sequence.ids)
    second = sequence.said[speech[speech > len(sequence.ids) // 2]]
    first_of_second = len(sequence.ids) // 2 + 3
    assert second.min() >= first_of_second
    assert second.max() < first_of_second + len(said.phonemes)


def test_speaker_and_speed_survive_the_file(tmp_path: Path) -> None:
    said = [spoken(), replace(spoken(seed=2), speaker=1, speed=1.25)]
    save_spoken(tmp_path / "tokens.npz", said)
    loaded = load_spoken(tmp_path / "tokens.npz")
    assert [(s.speaker, s.speed) for s in loaded] == [(0, 1.0), (1, 1.25)]


def test_a_chain_keeps_its_speaker_and_its_speed() -> None:
    spec = NetworkConfig().model_spec(CodecSpec(speaker_hz=(110.0,)))
    said = [replace(spoken(seed=i), speed=(0.7, 1.0, 1.3)[i % 3]) for i in range(60)]
    mix = MixConfig(chain_ratio=1.0, other_speaker_ratio=0.5)
    pool = SequenceMixer(said, spec, mix, 2048, seed=1).pool()
    chains = 0
    for sequence in pool:
        opens = np.flatnonzero(sequence.ids == spec.text_start_id)
        controls = {tuple(sequence.ids[i + 1 : i + 3]) for i in opens}
        assert len(controls) == 1
        chains += len(opens) > 1
    assert chains > 5
    named = {int(s.ids[1]) for s in pool}
    assert named == {spec.control_base_id, spec.control_base_id + 1}
