"""Speech through the real service: whole, repeatable, independent of company."""

import json
import subprocess
import sys

import anyio
import anyio.lowlevel
import pytest
import soundfile

from loadtest.caller import run_callers
from loadtest.recorder import Recorder
from loadtest.scenario import Scenario, read_sentences
from realtime import wire
from realtime.audio.level import rms_dbfs
from realtime.client import AudioChunk, connect
from realtime.clock import MonotonicClock
from tests.e2e.service import ROOT

pytestmark = [pytest.mark.anyio, pytest.mark.e2e, pytest.mark.slow]
SENTENCES = read_sentences(ROOT / "tests" / "data" / "sentences.txt")
ENDS = ("end_of_speech", "guard")  # a voice may speak on until it is stopped
SPLIT_TEXT = "Dr. Lee paid 3.50, then left. Fine!"


def _realtime(*words: str, **options) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-m", "realtime", *words]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, timeout=240, check=False, **options
    )


def test_the_demo_runs_from_start_to_end(voice_settings, tmp_path):
    file = tmp_path / "demo.wav"
    settings = [word for setting in voice_settings for word in ("--set", setting)]
    run = _realtime("demo", "-o", str(file), *settings)
    assert run.returncode == 0, run.stderr.decode()
    samples, rate = soundfile.read(file, dtype="int16")
    assert rate == 24_000
    assert rms_dbfs(samples.tobytes()) > -50
    assert b"no process left" in run.stdout
    assert b"ttfb_s" in run.stdout


def test_speak_writes_a_file_and_tells_its_figures(service, tmp_path):
    file = tmp_path / "hello.wav"
    run = _realtime("speak", "Hello there.", "-o", str(file), "--json", "--url", service.url)
    assert run.returncode == 0, run.stderr.decode()
    report = json.loads(run.stdout)
    assert report["samples"] == len(soundfile.read(file)[0]) > 0
    assert report["metrics"]["tokens"] == 7 * report["samples"] // 2048
    assert report["sentences"][-1]["end_char"] == len("Hello there.")


def test_speak_reads_standard_input(service, tmp_path):
    file = tmp_path / "piped.wav"
    run = _realtime("speak", "-", "-o", str(file), "--url", service.url, input=b"Hello there.")
    assert run.returncode == 0, run.stderr.decode()
    assert len(soundfile.read(file)[0]) > 0


async def test_eight_sessions_at_once_get_all_their_audio(service):
    scenario = Scenario(
        url=service.url,
        sentences=SENTENCES[:20],
        num_streams=8,
        duration_s=5.0,
        sentences_per_utterance=2,
    )
    recorder = Recorder()
    await run_callers(scenario, recorder, MonotonicClock())
    assert {row.stream for row in recorder.rows} == set(range(8))
    for row in recorder.rows:
        assert row.error is None
        assert row.reason in ENDS
        assert row.audio_s == pytest.approx(row.service.audio_s)


async def test_audio_is_contiguous_and_sentences_tile_it(service):
    text = "One moment, please. It is twelve o'clock."
    async with connect(service.url) as session, session.utterance() as utterance:
        utterance.feed(text)
        events = [event async for event in utterance]
    chunks = [event for event in events if isinstance(event, AudioChunk)]
    offset = 0
    for chunk in chunks:
        assert chunk.sample_offset == offset
        offset += chunk.num_samples
    assert [chunk.is_last for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    sentences = [event for event in events if isinstance(event, wire.Sentence)]
    assert [text[s.start_char : s.end_char].strip() for s in sentences] == [
        "One moment, please.",
        "It is twelve o'clock.",
    ]
    assert sentences[0].start_sample == 0
    assert sentences[0].end_sample == sentences[1].start_sample
    assert sentences[1].end_sample == offset == events[-1].samples


async def _codes(session, pieces: list[str]) -> tuple[int, ...]:
    codes: list[int] = []
    async with session.utterance() as utterance:
        for piece in pieces:
            await utterance.append(piece)
            await anyio.lowlevel.checkpoint()
        await utterance.end()
        async for event in utterance:
            if isinstance(event, wire.Tokens):
                assert event.first_frame * 7 == len(codes)
                codes += event.codes
    assert utterance.done.reason in ENDS
    return tuple(codes)


async def test_tokens_do_not_depend_on_how_the_text_was_split_or_on_company(service):
    splits = [[SPLIT_TEXT[:i], SPLIT_TEXT[i:]] for i in range(1, len(SPLIT_TEXT))]
    splits += [[*SPLIT_TEXT]]
    results: dict[tuple[str, ...], tuple[int, ...]] = {}
    async with connect(
        service.url,
        outputs=("tokens",),
        sampling=wire.Sampling(seed=11, temperature=0.7),
        max_contexts=8,
    ) as session:
        whole = await _codes(session, [SPLIT_TEXT])
        waiting = iter(splits)

        async def worker() -> None:
            for pieces in waiting:
                results[tuple(pieces)] = await _codes(session, pieces)

        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(worker)
    assert len(whole) > 0
    assert len(results) == len(splits)
    assert [pieces for pieces, codes in results.items() if codes != whole] == []


async def test_another_seed_is_another_reading(service):
    async with connect(service.url, outputs=("tokens",)) as session:
        readings = set()
        for seed in (1, 2):
            sampling = wire.Sampling(seed=seed, temperature=0.7)
            async with session.utterance(sampling=sampling) as utterance:
                utterance.feed("Hello.")
                events = [event async for event in utterance]
            tokens = [event.codes for event in events if isinstance(event, wire.Tokens)]
            readings.add(tuple(code for codes in tokens for code in codes))
    assert len(readings) == 2
