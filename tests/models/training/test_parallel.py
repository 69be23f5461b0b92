"""A second speaker from parallel speech: analysis of a waveform, and one clock for two readings."""

# ruff: noqa: RUF001  phonetic symbols

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyworld")
pytest.importorskip("onnx")
pytest.importorskip("hibari")

from models.training.analysis import analyse
from models.training.kokoro import Kokoro, Reading
from models.training.parallel import in_time_of
from models.training.teacher import FLOOR, FRAME_SAMPLES, Utterance
from tests.models.training.stub_kokoro import write_stub_kokoro

PHONEMES = "ab"


def buzz(frames: int, hz: float, silent: int) -> Reading:
    """A pulse train between silences; the f0 is near zero in them."""
    samples = np.zeros(frames * FRAME_SAMPLES, np.float32)
    period = round(24000 / hz)
    samples[silent * FRAME_SAMPLES : -silent * FRAME_SAMPLES : period] = 0.5
    f0 = np.full(frames, hz)
    f0[:silent] = f0[-silent:] = 3.0
    half = (frames - 2 * silent) / 4
    return Reading(samples, np.array([silent / 2, half, half, silent / 2]), f0)


def test_silence_is_cut_and_loudness_does_not_depend_on_the_recording() -> None:
    quiet = buzz(80, 100.0, 20)
    loud = Reading(quiet.samples * 2, quiet.durations, quiet.f0)
    made = [analyse("", PHONEMES, reading) for reading in (quiet, loud)]
    assert made[0] is not None
    assert made[1] is not None
    assert 40 <= len(made[0].f0) <= 60
    assert np.abs(made[0].harmonic.astype(float) - made[1].harmonic).max() < 0.05
    assert 38 <= made[0].voiced.sum() <= 40
    assert float(made[0].f0.mean()) == pytest.approx(100.0)


def test_silence_is_no_utterance() -> None:
    nothing = Reading(np.zeros(24000, np.float32), np.ones(4), np.full(80, 3.0))
    assert analyse("", PHONEMES, nothing) is None


def two_sounds(first: int, second: int, hz: float) -> Utterance:
    """Two sounds of the given lengths in frames: one low in the spectrum, one high."""
    frames = first + second
    harmonic = np.full((frames, 80), -5.0, np.float16)
    harmonic[:first, :20] = -1.0
    harmonic[first:, 40:] = -2.0
    return Utterance(
        "", PHONEMES, np.array([first + 4.1, frames + 4.1], np.float32), harmonic,
        np.full((frames, 40), FLOOR, np.float16), np.full(frames, hz, np.float32),
        np.ones(frames, bool), None,
    )  # fmt: skip


def test_the_second_speaker_is_brought_onto_the_clock_and_melody_of_the_first() -> None:
    first, second = two_sounds(20, 30, 200.0), two_sounds(32, 22, 90.0)
    target = in_time_of(first, second, octaves=-1.0)
    assert len(target.f0) == 50
    assert np.allclose(target.f0, 100.0)
    is_low = target.harmonic[:, 10] > -2
    assert abs(int(is_low.sum()) - 20) <= 1
    assert is_low[:19].all()


def test_what_the_first_does_not_voice_is_not_voiced() -> None:
    first, second = two_sounds(20, 30, 200.0), two_sounds(20, 30, 90.0)
    first.voiced[:5] = False
    second.harmonic[:, 79] = -6.5
    target = in_time_of(first, second, octaves=-1.0)
    assert not target.voiced[:5].any()
    assert target.harmonic[:5].max() < -5.0
    assert target.harmonic[:5].max() == target.harmonic.min()


def test_faint_harmonics_become_fainter_and_the_rest_stays() -> None:
    first, second = two_sounds(20, 30, 200.0), two_sounds(20, 30, 90.0)
    second.harmonic[:, 79] = -6.5
    target = in_time_of(first, second, octaves=-1.0)
    assert (target.harmonic[:, 79] == -8.0).all()
    assert set(np.unique(target.harmonic[:, :79]).tolist()) == {-5.0, -2.0, -1.0}


def test_durations_and_pitch_of_the_teacher_are_read(tmp_path: Path) -> None:
    kokoro = Kokoro(write_stub_kokoro(tmp_path / "kokoro"), tmp_path, "am_michael")
    assert kokoro.knows("həlˈO.")
    assert not kokoro.knows("日本")
    assert not kokoro.knows("a")
    reading = kokoro.read("həlˈO.", 1.0)
    assert reading.durations.tolist() == [4.0] * 8
    assert len(reading.samples) == 8 * 4 * 600
    assert np.allclose(reading.f0, 110.0)
    assert len(reading.f0) * FRAME_SAMPLES == len(reading.samples)
