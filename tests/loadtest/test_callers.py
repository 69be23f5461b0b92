"""The load tester against the fake service."""

import json
from types import SimpleNamespace

import anyio
import anyio.lowlevel
import pytest
from rich.console import Console
from typer.testing import CliRunner

from loadtest import __main__ as command
from loadtest import caller
from loadtest.caller import paced, run_callers
from loadtest.recorder import Recorder, Row
from loadtest.report import percentiles, show, summarise
from loadtest.scenario import Scenario, read_sentences
from realtime import wire
from tests.client.fake_server import RATE_HZ, fake_server
from tests.client.fake_thread import threaded_fake_server

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


def _scenario(url: str, *sentences: str, **options) -> Scenario:
    defaults = {"num_streams": 3, "duration_s": 0.3, "ramp_s": 0.05, "sentences_per_utterance": 1}
    return Scenario(url=url, sentences=sentences, **(defaults | options))


class VirtualTime:
    """A clock that moves 1 ms with every look and by every sleep, however busy the machine is."""

    def __init__(self) -> None:
        self._now = 1000.0

    def now(self) -> float:
        self._now += 0.001
        return self._now

    async def sleep(self, seconds: float) -> None:
        self._now += seconds
        await anyio.lowlevel.checkpoint()


@pytest.fixture
def clock(monkeypatch) -> VirtualTime:
    virtual = VirtualTime()
    names = {"sleep": virtual.sleep, "create_task_group": anyio.create_task_group}
    monkeypatch.setattr(caller, "anyio", SimpleNamespace(**names))
    return virtual


async def _run(scenario: Scenario, clock: VirtualTime) -> list[Row]:
    recorder = Recorder()
    await run_callers(scenario, recorder, clock)
    return recorder.rows


async def test_every_caller_speaks_until_the_time_is_up_and_finishes(clock):
    async with fake_server() as server:
        rows = await _run(_scenario(server.url, "Hello"), clock)
        assert server.num_open_contexts == 0
    assert {row.stream for row in rows} == {0, 1, 2}
    for row in rows:
        assert row.error is None
        assert row.reason == "end_of_speech"
        assert row.audio_s == pytest.approx(5 * 2048 / RATE_HZ)
        assert 0 < row.ttfb_s <= row.received_s <= row.total_s
        assert row.service.tokens == 35
    indexes = [row.index for row in rows if row.stream == 0]
    assert indexes == list(range(len(indexes)))


async def test_every_caller_speaks_once_even_if_connecting_took_longer_than_the_test(clock):
    async with fake_server() as server:
        rows = await _run(_scenario(server.url, "Hello", duration_s=1e-6), clock)
    assert [(row.stream, row.index) for row in rows] == [(0, 0), (1, 0), (2, 0)]


async def test_the_order_of_texts_depends_on_seed_and_stream_alone():
    scenario = _scenario("", *"abcdefgh", sentences_per_utterance=3)

    def first(stream: int, seed: int) -> list[str]:
        texts = Scenario(sentences=scenario.sentences, seed=seed).texts(stream)
        return [next(texts) for _ in range(5)]

    assert first(0, 1) == first(0, 1)
    assert first(0, 1) != first(1, 1)
    assert first(0, 1) != first(0, 2)


async def test_failures_are_rows_and_callers_go_on(clock):
    async with fake_server() as server:
        rows = await _run(
            _scenario(server.url, "!error at_capacity", num_streams=1, duration_s=5.0), clock
        )
    assert {row.error for row in rows} == {"at_capacity"}


async def test_a_lost_connection_is_opened_again(clock):
    async with fake_server() as server:
        rows = await _run(_scenario(server.url, "!drop", num_streams=1, duration_s=5.0), clock)
        hellos = [m for m in server.received if isinstance(m, wire.Hello)]
    assert {row.error for row in rows} == {"connection_lost"}
    assert len(hellos) == len(rows) >= 2


async def test_a_listening_caller_waits_until_all_was_heard(clock):
    async with fake_server() as server:
        rows = await _run(_scenario(server.url, "ab", num_streams=1, listens=True), clock)
    starts = [row.started_s for row in rows]
    assert len(starts) >= 2
    assert starts[1] - starts[0] >= rows[0].audio_s


async def test_paced_text_is_the_text():
    text = " Hello, extraordinary world.  \n"
    pieces = [piece async for piece in paced(text, 0.0)]
    assert "".join(pieces) == text
    assert max(len(piece.strip()) for piece in pieces) <= 5


def _row(stream: int, **facts) -> Row:
    return Row(stream=stream, index=0, started_s=0.0, text_chars=1, **facts)


def test_one_gap_or_error_spoils_its_stream_alone():
    service = wire.Metrics(tokens=100, real_time_factor=0.5)
    rows = [
        _row(0, ttfb_s=0.1, audio_s=2.0, service=service, reason="end_of_speech"),
        _row(1, ttfb_s=0.2, audio_s=2.0, num_underruns=2, underrun_s=0.3, service=service),
        _row(2, error="engine_lost"),
        _row(2, ttfb_s=0.9, audio_s=1.0, service=service),
    ]
    summary = summarise(rows, num_streams=4, wall_s=10.0)
    assert summary.num_gap_free_streams == 1  # stream 3 said nothing
    assert summary.gap_free_ratio == pytest.approx(2 / 3)
    assert summary.num_underruns == 2
    assert summary.tokens_per_s == pytest.approx(30.0)
    assert summary.speed == pytest.approx(0.5)
    assert summary.errors == {"engine_lost": 1}
    assert summary.ttfb_s == {50: 0.2, 90: 0.9, 99: 0.9}
    console = Console(record=True, width=100)
    show(summary, _scenario("", "a"), console)
    assert "1/4" in console.export_text()


def test_percentiles_are_recorded_values():
    assert percentiles([3.0, None, 1.0, 2.0]) == {50: 2.0, 90: 3.0, 99: 3.0}
    assert percentiles([None]) == {}


def test_sentence_files_skip_comments_and_blank_lines(tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text("# a comment\n\n One. \nTwo.\n")
    assert read_sentences(file) == ("One.", "Two.")
    file.write_text("\n")
    with pytest.raises(ValueError, match="no sentences"):
        read_sentences(file)


@pytest.mark.parametrize(("text", "code"), [("Hello", 0), ("!error engine_lost", 1)])
def test_the_command_keeps_raw_rows_and_exits_by_the_result(tmp_path, text, code):
    app = command.typer.Typer()
    app.command()(command.main)
    (tmp_path / "lines.txt").write_text(text)
    options = ["--sentences", str(tmp_path / "lines.txt"), "--per-utterance", "1"]
    options += [
        "--streams",
        "2",
        "--seconds",
        "0.2",
        "--ramp",
        "0",
        "--json",
        str(tmp_path / "out.json"),
    ]
    with threaded_fake_server() as server:
        result = CliRunner().invoke(app, [*options, "--url", server.url])
    assert result.exit_code == code, result.output
    saved = json.loads((tmp_path / "out.json").read_text())
    assert len(saved["rows"]) >= 2
    if code == 0:
        assert saved["summary"]["num_gap_free_streams"] == 2
        assert saved["rows"][0]["service"]["tokens"] == 35
        assert len(saved["rows"][0]["arrivals"]) == 5
