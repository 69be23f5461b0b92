"""`realtime speak` against a fake service."""

import json
import sys
import types

import numpy as np
import pytest
import soundfile
from typer.testing import CliRunner

from realtime import wire
from realtime.cli.app import build_app
from tests.client.fake_server import FRAME_SAMPLES, ramp

RAMP_5 = np.frombuffer(ramp(0, 5 * FRAME_SAMPLES), dtype="<i2")


@pytest.fixture
def no_device(monkeypatch):
    monkeypatch.setitem(sys.modules, "sounddevice", None)


@pytest.fixture
def device(monkeypatch):
    """A sound device that keeps what it is given."""
    fake = types.ModuleType("sounddevice")
    fake.played = b""
    fake.calls = []

    class RawOutputStream:
        def __init__(self, **options):
            fake.options = options

        def __getattr__(self, name):
            return lambda: fake.calls.append(name)

        def write(self, pcm):
            fake.played += pcm

    fake.RawOutputStream = RawOutputStream
    fake.PortAudioError = RuntimeError
    fake.query_devices = lambda kind: {}
    monkeypatch.setitem(sys.modules, "sounddevice", fake)
    return fake


def _run(*words: str):
    return CliRunner().invoke(build_app(), ["speak", *words])


def test_writes_the_file_it_was_asked_for(server, tmp_path):
    result = _run("Hello", "--url", server.url, "-o", "out.wav")
    assert result.exit_code == 0, result.output
    samples, rate = soundfile.read(tmp_path / "out.wav", dtype="int16")
    assert rate == 24_000
    assert np.array_equal(samples, RAMP_5)
    assert result.stdout == ""
    assert "out.wav: 0.43 s of audio" in result.stderr


def test_words_are_joined(server):
    assert _run("Hello", "there", "--url", server.url).exit_code == 0
    assert server.texts() == ["Hello there"]


@pytest.mark.usefixtures("no_device")
def test_without_a_device_or_a_wish_it_writes_speech_wav_and_says_so(server, tmp_path):
    result = _run("Hello", "--url", server.url)
    assert result.exit_code == 0
    assert "speech.wav" in result.stderr
    assert len(soundfile.read(tmp_path / "speech.wav")[0]) == 5 * FRAME_SAMPLES


@pytest.mark.parametrize("words", [[], ["--play"]])
def test_plays_where_there_is_a_device(server, device, tmp_path, words):
    result = _run("Hello", "--url", server.url, *words)
    assert result.exit_code == 0, result.output
    assert device.played == RAMP_5.tobytes()
    assert device.options["samplerate"] == 24_000
    assert device.calls == ["start", "stop", "abort", "close"]
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("no_device")
def test_play_without_a_device_is_a_clear_error(server):
    result = _run("Hello", "--url", server.url, "--play")
    assert result.exit_code == 2
    assert "cannot play" in result.stderr
    assert "sounddevice" in result.stderr


def test_json_is_one_object_with_the_metrics_and_no_audio(server, tmp_path):
    result = _run("Hello", "--url", server.url, "--json", "--seed", "5")
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert report["metrics"]["tokens"] == 35
    assert report["seed"] == 5
    assert report["text_chars"] == 5
    assert report["reason"] == "end_of_speech"
    assert report["first_audio_s"] > 0
    assert report["sentences"][0]["end_char"] == 5
    assert not list(tmp_path.iterdir())


def test_sampling_reaches_the_service(server):
    options = ["--temperature", "0.5", "--top-k", "3", "--top-p", "0.9", "--min-p", "0.1"]
    _run("a", "--url", server.url, "--json", *options, "--repetition-penalty", "1.2")
    text = next(m for m in server.received if isinstance(m, wire.Text))
    assert text.sampling == wire.Sampling(
        temperature=0.5, top_k=3, top_p=0.9, min_p=0.1, repetition_penalty=1.2
    )


def test_voice_and_key_reach_the_service(server):
    settings = ["--set", 'gateway.api_keys=["k1"]']
    _run("a", "--url", server.url, "--json", "--voice", "other", *settings)
    hello = server.received[0]
    assert isinstance(hello, wire.Hello)
    assert (hello.voice, hello.credential) == ("other", "k1")


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("!error at_capacity", 4, "as asked (try again in 1.5 s)"),
        ("!error unspeakable_text", 2, "as asked"),
        ("!error engine_not_ready", 4, "as asked"),
        ("!error engine_lost", 1, "as asked"),
        ("!drop", 1, "the connection ended"),
    ],
)
def test_errors_of_the_service_have_their_exit_codes(server, text, code, words):
    result = _run(text, "--url", server.url, "--json")
    assert result.exit_code == code
    assert words in result.stderr
    assert json.loads(result.stdout)["error"]["message"]


def test_no_service_says_how_to_start_one(server):
    result = _run("Hello", "--url", "ws://127.0.0.1:1", "-o", "out.wav")
    assert result.exit_code == 3
    assert "realtime serve" in result.stderr
    assert "--serve" in result.stderr


@pytest.mark.parametrize("url", ["ws://[", "ws://127.0.0.1:99999", f"ws://{'a' * 64}.test"])
def test_a_senseless_address_is_no_service(url):
    result = _run("Hello", "--url", url, "--json")
    assert result.exit_code == 3
    assert url in result.stderr
    assert json.loads(result.stdout)["error"]["code"] == "no_service"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["  "], "nothing to say"),
        (["Hello", "-o", "out.xyz"], ".xyz"),
        (["Hello", "--json", "-o", "-"], "standard output"),
        (["Hello", "--set", "gateway.prot=1"], "prot"),
        (["caf\udce9"], "the text is not UTF-8"),
        (["Hello", "--voice", "\udcff"], "--voice is not UTF-8"),
        (["Hello", "--api-key", "\udcff"], "--api-key is not UTF-8"),
        (["Hello", "--set", "voice.default=\udcff"], "--set is not UTF-8"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(server, words, complaint):
    result = _run(*words, "--url", server.url)
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_an_address_that_is_not_utf8_is_one_line():
    result = _run("Hello", "--url", "ws://\udcff")
    assert result.exit_code == 2
    assert result.stderr == "error: --url is not UTF-8\n"


def test_a_file_name_need_not_be_utf8(server, tmp_path):
    assert _run("Hello", "--url", server.url, "-o", "\udcff.wav").exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["\udcff.wav"]


def test_an_impossible_path_is_an_error(server):
    result = _run("Hello", "--url", server.url, "-o", "no/such/folder.wav")
    assert result.exit_code == 1
    assert "No such file" in result.stderr


@pytest.mark.parametrize("name", ["full.wav", "full.ogg"])
def test_a_file_that_cannot_be_written_is_said_as_json_too(server, tmp_path, name):
    (tmp_path / name).symlink_to("/dev/full")
    result = _run("Hello", "--url", server.url, "-o", name, "--json")
    assert result.exit_code == 1
    error = json.loads(result.stdout)["error"]
    assert error["code"] == "file_error"
    assert f"{name}: cannot write" in error["message"]
    missing = _run("Hello", "--url", server.url, "-o", "no-folder/a.wav", "--json")
    assert json.loads(missing.stdout)["error"]["code"] == "file_error"


def test_help_of_commands_that_run_says_their_exit_codes():
    for command in ("speak", "serve"):
        assert "Exit codes: 0 " in CliRunner().invoke(build_app(), [command, "--help"]).output
