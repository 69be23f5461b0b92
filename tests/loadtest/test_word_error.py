import json
from pathlib import Path

import pytest

pytest.importorskip("num2words")

from typer.testing import CliRunner

from loadtest import word_error
from loadtest.judgement import count_errors, fault_of, read_durations
from loadtest.scenario import read_sentences
from loadtest.transcript import error_rate, error_rate_interval, word_errors, words_of
from tests.client.fake_server import FRAME_SAMPLES, RATE_HZ
from tests.client.fake_thread import threaded_fake_server

DATA = Path(__file__).resolve().parents[1] / "data"


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        (
            "Boarding begins in forty minutes at gate twenty two.",
            "boarding begins in 40 minutes at gate 22",
        ),
        ("It costs twenty five dollars.", "It costs $25."),
        ("The train leaves at three thirty.", "The train leaves at 3:30."),
        ("Founded in nineteen eighty seven.", "Founded in 1987."),
        ("She came in first.", "She came in 1st!"),
        ("One thousand and forty eight birds", "1,048 birds"),
        ("It\N{RIGHT SINGLE QUOTATION MARK}s ten percent off.", "It's 10% off"),
        ("three point one four", "3.14"),
    ],
)
def test_two_ways_to_write_the_same_words_are_equal(said: str, heard: str):
    assert count_errors(said, heard)[0] == 0


def test_words_are_what_is_compared():
    assert words_of("Well, well - It's TEN o'clock!") == ["well", "well", "it's", "ten", "o'clock"]


@pytest.mark.parametrize(
    ("said", "heard", "errors"),
    [("a b c", "a b c", 0), ("a b c", "a c", 1), ("a b c", "a x c d", 2), ("a b", "", 2)],
)
def test_word_errors_count_insertions_deletions_substitutions(said, heard, errors):
    assert word_errors(said.split(), heard.split()) == errors


def test_the_interval_holds_the_rate_and_narrows_with_more_lines():
    few, many = [(0, 10), (5, 10)] * 5, [(0, 10), (5, 10)] * 200
    for lines in (few, many):
        low, high = error_rate_interval(lines)
        assert low <= error_rate(lines) == 0.25 <= high
    assert error_rate_interval(many)[1] < error_rate_interval(few)[1]


@pytest.mark.parametrize(
    ("audio_s", "level", "fault"),
    [
        (0.0, -20.0, "failed"),
        (2.0, -60.0, "silent"),
        (3.21, -20.0, "too_long"),
        (1.19, -20.0, "too_short"),
        (2.0, -20.0, None),
        (3.2, -20.0, None),
        (1.2, -20.0, None),
    ],
)
def test_faults_are_told_by_length_and_level(audio_s, level, fault):
    assert fault_of(audio_s, 2.0, level) == fault


def test_every_evaluation_sentence_has_a_teacher_duration():
    durations = read_durations(DATA / "teacher_durations.tsv")
    sentences = read_sentences(DATA / "sentences.txt")
    assert set(sentences) == set(durations)
    assert min(durations.values()) > 1.0


def test_the_command_speaks_every_line_and_judges_it(tmp_path, monkeypatch):
    heard = {"000.wav": "helo there", "001.wav": "twenty two"}
    monkeypatch.setattr(
        word_error, "load_recogniser", lambda folder, threads: lambda path: heard[path.name]
    )
    (tmp_path / "lines.txt").write_text("Hello there.\n22\n!error unspeakable_text\n")
    one_frame_s = FRAME_SAMPLES / RATE_HZ
    (tmp_path / "durations.tsv").write_text(f"{12 * one_frame_s}\tHello there.\n10.0\t22\n")
    app = word_error.typer.Typer()
    app.command()(word_error.main)
    with threaded_fake_server() as server:
        options = {
            "--whisper": "none",
            "--url": server.url,
            "--sentences": tmp_path / "lines.txt",
            "--durations": tmp_path / "durations.tsv",
            "--folder": tmp_path / "out",
        }
        words = [str(word) for pair in options.items() for word in pair]
        result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    lines = report["lines"]
    assert [line["fault"] for line in lines] == [None, "too_short", "failed"]
    assert [line["num_errors"] for line in lines] == [1, 0, 3]
    assert [line["reason"] for line in lines] == ["end_of_speech"] * 2 + ["unspeakable_text"]
    assert report["num_faulty"] == 2
    assert lines[0]["audio_s"] == pytest.approx(12 * one_frame_s)
