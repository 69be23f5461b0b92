import sys
import types

import numpy as np
import pytest
import soundfile

from realtime.quality import listeners
from realtime.quality.listeners import Listeners, load_listeners
from realtime.quality.packages import MissingPackageError, load
from realtime.quality.recogniser import (
    RecogniserNotFoundError,
    Whisper,
    find_model,
    load_recogniser,
    resample,
)
from realtime.quality.speakers import BadReferenceError, embed_all, read_references
from tests.quality.make import RATE_HZ, embed, silence, speech


def test_a_missing_package_is_named_with_the_way_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyloudnorm", None)
    with pytest.raises(MissingPackageError, match=r"loudness needs the package pyloudnorm: pip"):
        load("pyloudnorm", "loudness")
    monkeypatch.setitem(sys.modules, "resemblyzer", None)
    with pytest.raises(MissingPackageError, match="pip install --no-deps resemblyzer"):
        load("resemblyzer", "speaker similarity")


@pytest.fixture
def nothing_installed(monkeypatch):
    for package in ("faster_whisper", "resemblyzer", "pyloudnorm", "onnxruntime", "hibari"):
        monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.usefixtures("nothing_installed")
def test_missing_judges_are_noted():
    found = load_listeners(recogniser="base", without=[listeners.WORDS, listeners.LENGTH])
    assert found.hear is found.opinion is found.speaker is found.loudness is found.teacher is None
    assert len(found.notes) == 3
    assert all(note.startswith("not measured: ") for note in found.notes)


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize("figure", ["dnsmos_signal", "similarity", "loudness_lufs"])
def test_a_judge_of_a_required_figure_must_be_there(figure):
    without = [listeners.WORDS, listeners.LENGTH]
    with pytest.raises(MissingPackageError):
        load_listeners(recogniser="base", without=without, required=[figure])


@pytest.mark.usefixtures("nothing_installed")
def test_the_recogniser_must_be_there_unless_it_is_left_out():
    with pytest.raises(MissingPackageError, match="faster_whisper"):
        load_listeners(recogniser="base")


def test_a_model_is_found_by_folder_or_by_name(tmp_path):
    (tmp_path / "whisper-tiny.en").mkdir()
    assert find_model("tiny.en", tmp_path) == str(tmp_path / "whisper-tiny.en")
    assert find_model(str(tmp_path), None) == str(tmp_path)
    assert find_model("base", tmp_path) == "base"


def test_a_model_that_cannot_be_had_is_named(monkeypatch):
    class WhisperModel:
        def __init__(self, place, **options):
            raise ValueError(f"no {place}\nand a long story")

    package = types.SimpleNamespace(WhisperModel=WhisperModel)
    monkeypatch.setitem(sys.modules, "faster_whisper", package)
    with pytest.raises(RecogniserNotFoundError, match=r"recogniser `huge`: no huge$"):
        load_recogniser("huge")


def test_the_recogniser_gets_its_own_rate_and_no_silence():
    pytest.importorskip("scipy")
    calls = []

    class Model:
        def transcribe(self, samples, **options):
            calls.append((len(samples), samples.dtype, options["condition_on_previous_text"]))
            return [types.SimpleNamespace(text=" One "), types.SimpleNamespace(text="two. ")], None

    hear = Whisper(Model())
    assert hear(speech(1.0), RATE_HZ) == "One two."
    assert hear(silence(1.0), RATE_HZ) == ""
    assert calls == [(16_000, np.float32, False)]


def test_resampling_keeps_length_and_level():
    pytest.importorskip("scipy")
    tone = np.sin(np.arange(RATE_HZ) * 2 * np.pi * 440 / RATE_HZ).astype(np.float32)
    changed = resample(tone, RATE_HZ, 16_000)
    assert len(changed) == 16_000
    assert changed.std() == pytest.approx(tone.std(), rel=0.01)
    assert resample(tone, RATE_HZ, RATE_HZ) is tone


def test_references_are_read_by_voice(tmp_path):
    soundfile.write(tmp_path / "one.wav", speech(1.0), RATE_HZ)
    (tmp_path / "two").mkdir()
    for name in ("a.wav", "b.flac"):
        stereo = np.stack([speech(0.5), speech(0.5)], axis=1)
        soundfile.write(tmp_path / "two" / name, stereo, RATE_HZ)
    (tmp_path / "two" / "notes.txt").write_text("nothing to hear")
    found = read_references(tmp_path, ["one", "two", "three"])
    assert {voice: len(recordings) for voice, recordings in found.items()} == {"one": 1, "two": 2}
    assert found["two"][0][0].ndim == 1
    (tmp_path / "three.wav").write_text("no audio")
    with pytest.raises(BadReferenceError, match=r"three\.wav"):
        read_references(tmp_path, ["three"])


def test_a_reference_is_one_direction():
    embedded = embed_all({"one": [(speech(1.0), RATE_HZ), (speech(1.0, 1), RATE_HZ)]}, embed)
    assert float(np.linalg.norm(embedded["one"])) == pytest.approx(1)


def test_the_teacher_is_the_reference_of_the_default_voice_alone():
    who = Listeners(speaker=embed, teacher=lambda text: speech(0.5))
    judges, notes = who.judges(["default", "other"], "default", ["a", "b"])
    assert list(judges.references) == ["default"]
    assert notes == ("no reference recording of other: similarity to it is not measured",)
    assert (
        Listeners(teacher=lambda text: speech(0.5)).judges(["default"], "default", ["a"])[1] == ()
    )


def test_expected_lengths_leave_silence_out():
    samples = np.concatenate([silence(0.3), speech(1.0), silence(0.3)])
    lengths = Listeners(teacher=lambda text: samples).expected_lengths(["a", "a", "b"])
    assert lengths == {"a": pytest.approx(1.0, abs=0.02), "b": pytest.approx(1.0, abs=0.02)}
    assert Listeners().expected_lengths(["a"]) == {}
