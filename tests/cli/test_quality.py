"""`realtime quality` against a fake service, with made-up listeners."""

import json

import pytest
from typer.testing import CliRunner

from realtime.cli import measuring
from realtime.cli.app import build_app
from realtime.quality import measurement
from realtime.quality.listeners import Listeners
from realtime.quality.long_text import text_of_minutes
from realtime.quality.results import read_report
from tests.client.fake_server import FRAME_SAMPLES, RATE_HZ
from tests.quality.make import embed, opinion, speech

FRAME_S = FRAME_SAMPLES / RATE_HZ


@pytest.fixture
def listeners(monkeypatch):
    """Whisper hears `hello there` in everything; the teacher takes a second over any text."""
    asked = []
    who = Listeners(
        recogniser_name="fake",
        hear=lambda samples, rate_hz: "hello there" if len(samples) else "",
        opinion=opinion,
        speaker=embed,
        teacher=lambda text: speech(1.0),
        notes=("not measured: loudness",),
    )
    monkeypatch.setattr(measuring, "load_listeners", lambda **how: asked.append(how) or who)
    monkeypatch.setattr(measuring, "plots_of", lambda report: [])  # slow, and tested by itself
    monkeypatch.setattr(measurement, "_SETTLE_S", 0.0)
    return asked


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("Hello there.\n\n# not this\nHello, my friend!\n!error engine_lost\n")
    return path


def _run(*words: object):
    return CliRunner().invoke(build_app(), ["quality", *map(str, words)], terminal_width=200)


@pytest.mark.usefixtures("listeners")
def test_every_line_is_spoken_judged_and_reported(server, lines, tmp_path):
    result = _run("--url", server.url, "--text", lines, "-o", tmp_path / "out", "--seeds", "0,5")
    assert result.exit_code == 0, result.output
    report = read_report(tmp_path / "out")
    assert [(one.seed, one.index, one.num_word_errors) for one in report.lines] == [
        (0, 0, 0),
        (0, 1, 2),
        (0, 2, 3),
        (5, 0, 0),
        (5, 1, 2),
        (5, 2, 3),
    ]
    assert report.lines[0].audio_s == pytest.approx(12 * FRAME_S)
    assert report.lines[2].faults == ("failed",)
    assert report.lines[2].reason == "engine_lost"
    assert report.figures["default"]["word_error"].value == pytest.approx(5 / 8)
    assert report.figures["default"]["failed"].value == pytest.approx(1 / 3)
    assert "word_error" in result.output
    assert "not measured: loudness" in result.output
    assert "default: 2 lines ended with engine_lost" in result.output
    assert (tmp_path / "out" / "report.html").read_text().startswith("<!doctype html>")
    assert (tmp_path / "out" / report.lines[0].audio).exists()


@pytest.mark.usefixtures("listeners")
def test_a_line_keeps_its_seed_whatever_else_is_spoken(server, lines, tmp_path):
    for at_once in (1, 4):
        options = ("--text", lines, "-o", tmp_path, "--at-once", at_once, "--seeds", "10")
        assert _run("--url", server.url, *options).exit_code == 0
    seeds = {
        message.text: message.sampling.seed
        for message in server.received
        if getattr(message, "sampling", None) and getattr(message, "text", "")
    }
    assert seeds == {"Hello there.": 10, "Hello, my friend!": 11, "!error engine_lost": 12}


@pytest.mark.parametrize(("limit", "code"), [("word_error<=0.7", 0), ("word_error<=0.5", 1)])
def test_a_requirement_decides_the_exit_code(server, lines, tmp_path, listeners, limit, code):
    options = ("--text", lines, "-o", tmp_path / "out", "--require", limit)
    result = _run("--url", server.url, *options, "--json", tmp_path / "copy.json")
    assert result.exit_code == code, result.output
    verdicts = json.loads((tmp_path / "copy.json").read_text())["verdicts"]
    assert [verdict["is_met"] for verdict in verdicts] == [code == 0]
    assert listeners[0]["required"] == ["word_error"]


@pytest.mark.usefixtures("listeners")
def test_a_long_text_goes_through_one_context(server, lines, tmp_path):
    options = ("--text", lines, "--lines", 2, "-o", tmp_path, "--long-minutes", 0.05)
    result = _run("--url", server.url, *options, "--teacher")
    assert result.exit_code == 0, result.output
    report = read_report(tmp_path)
    assert text_of_minutes(("Hello there.", "Hello, my friend!"), 0.05) in server.texts()
    (long,) = report.long
    assert long.reason == "end_of_speech"
    assert "long_word_error" in report.figures["default"]
    assert list(report.figures) == ["default", "teacher"]
    assert sum(one.voice == "teacher" for one in report.lines) == 2


@pytest.mark.usefixtures("listeners")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--require", "beauty>1"), "`beauty` is none of word_error"),
        (("--seeds", "one"), "want numbers"),
        (("--seeds", "-1"), "at least 0"),
        (("--without", "eyes"), "want one of words"),
        (("--reference", "nowhere"), "no such folder"),
        (("--checkpoint", "nowhere"), "no voice.json"),
        (("--set", "engine.max_streams=4"), "leave out --url"),
    ],
)
def test_wrong_use_is_told_before_anything_is_spoken(server, lines, words, message):
    result = _run("--url", server.url, "--text", lines, *words)
    assert result.exit_code == 2
    assert message in result.output
    assert server.received == []


@pytest.mark.usefixtures("listeners")
def test_a_text_without_lines_is_refused(server, tmp_path):
    (tmp_path / "empty.txt").write_text("# nothing\n\n")
    result = _run("--url", server.url, "--text", tmp_path / "empty.txt")
    assert result.exit_code == 2
    assert "holds no lines to say" in result.output


@pytest.mark.usefixtures("listeners")
def test_no_service_has_its_exit_code(lines, tmp_path):
    result = _run("--url", "ws://127.0.0.1:9", "--text", lines, "-o", tmp_path / "out")
    assert result.exit_code in (1, 3)
    assert "no service answers" in result.output


@pytest.mark.usefixtures("listeners")
def test_two_measurements_are_compared_by_figures_and_by_ear(server, lines, tmp_path):
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        options = ("--text", lines, "--lines", 2, "-o", folder)
        assert _run("--url", server.url, *options).exit_code == 0
    page = tmp_path / "ear.html"
    result = _run("compare", *folders, "-o", page, "--pairs", 2)
    assert result.exit_code == 0, result.output
    assert "word_error" in result.output
    assert "Which sounds better?" in page.read_text()
    assert _run("compare", tmp_path / "a", tmp_path / "nowhere").exit_code == 2
