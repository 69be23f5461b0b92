import base64
import io
import json
import re

import pytest
import soundfile

from realtime.quality.blind_page import blind_page
from realtime.quality.page import audio_uri, page_of
from realtime.quality.plots import plots_of
from realtime.quality.results import (
    BadReportError,
    Figure,
    Join,
    LongResult,
    Minute,
    Verdict,
    read_report,
    write_report,
)
from realtime.quality.sound import speech_level_dbfs
from tests.quality.make import RATE_HZ, line, report, speech

HOSTILE = "</script><script>alert('x')</script> & \"more\""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "audio").mkdir()
    for number in range(20):
        name = tmp_path / "audio" / f"{number}.wav"
        soundfile.write(name, speech(0.5, number, level=0.05 + 0.01 * number), RATE_HZ)
    soundfile.write(tmp_path / "audio" / "long.wav", speech(70.0), RATE_HZ)
    return tmp_path


def _report(**changes):
    lines = [
        line(index=number, text=f"{HOSTILE} {number}", audio=f"audio/{number}.wav", **changes)
        for number in range(20)
    ]
    long = LongResult(
        voice="default",
        audio="audio/long.wav",
        reason="end_of_speech",
        audio_s=70.0,
        num_clicks=1,
        minutes=(
            Minute(minute=0, num_words=100, num_word_errors=3, words_per_s=2.5, level_dbfs=-25),
        ),
        joins=(
            Join(
                at_s=3.0, before=HOSTILE, after="b", jump_ratio=9.0, pause_s=0.1, faults=("click",)
            ),
            Join(at_s=6.0, before="a", after="b", jump_ratio=1.0, pause_s=0.2),
        ),
    )
    return report(
        *lines,
        figures={"default": {"word_error": Figure(value=0.1, low=0.05, high=0.15)}},
        notes=("not measured: something",),
        long=(long,),
        verdicts=(
            Verdict(
                requirement="word_error<=0.05",
                figure="word_error",
                voice="default",
                value=0.1,
                is_met=False,
            ),
        ),
    )


def test_the_page_needs_nothing_beside_it(folder):
    page = page_of(_report(), folder, [("a plot", "<svg></svg>")])
    assert set(re.findall(r'(?:src|href)="(.{5})', page)) == {"data:"}
    assert "<script" not in page, "the text of a line must not become code"
    for part in ("10.0 % [5.0, 15.0]", "not met", "not measured: something", "a plot", "click"):
        assert part in page
    assert page.count("<audio") == 12 + 2 + 2


def test_a_recording_survives_in_the_page():
    uri = audio_uri(speech(3.0), RATE_HZ)
    data = base64.b64decode(uri.removeprefix("data:audio/ogg;base64,"))
    samples, rate_hz = soundfile.read(io.BytesIO(data))
    assert (rate_hz, len(samples)) == (RATE_HZ, 3 * RATE_HZ)


def test_plots_are_drawn_of_what_there_is():
    pytest.importorskip("matplotlib")
    everything = [title for title, svg in plots_of(_report(similarity=0.9)) if "<svg" in svg]
    assert len(everything) == 5
    nothing = report(line(heard=None, expected_s=None))
    assert plots_of(nothing) == []


def _pairs(page: str) -> list[dict]:
    return json.loads(re.search(r"const pairs = (\[.*?\]), names = ", page, re.DOTALL)[1])


def test_the_blind_page_plays_common_lines_at_one_level(folder):
    before = _report()
    after = report(*(line(text=one.text, audio="audio/0.wav") for one in before.lines[5:]))
    page = blind_page((before, folder), (after, folder), num_pairs=8)
    pairs = _pairs(page)
    assert len(pairs) == 8
    assert page.count("</script>") == 1, "the text of a line must not end the script"
    for pair in pairs:
        assert pair["text"].startswith(HOSTILE)
        levels = []
        for uri in pair["audio"]:
            data = base64.b64decode(uri.partition(",")[2])
            levels.append(speech_level_dbfs(*soundfile.read(io.BytesIO(data), dtype="float32")))
        assert levels[0] == pytest.approx(levels[1], abs=1.0)


def test_a_report_is_read_back_as_it_was(tmp_path):
    written = _report(similarity=0.9, faults=("click",))
    write_report(written, tmp_path / "new" / "report.json")
    assert read_report(tmp_path / "new") == written
    assert read_report(tmp_path / "new" / "report.json") == written


def test_what_is_no_report_is_named(tmp_path):
    with pytest.raises(BadReportError, match=r"report\.json"):
        read_report(tmp_path)
    (tmp_path / "report.json").write_text('{"lines": 3}')
    with pytest.raises(BadReportError):
        read_report(tmp_path)
