"""`realtime` as a process between pipes."""

import io
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import soundfile

from realtime import wire
from tests.client.fake_server import FRAME_SAMPLES
from tests.client.fake_thread import threaded_fake_server

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]  # the package may not be installed


def _start(*words: str, **options) -> subprocess.Popen[bytes]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(
        [sys.executable, "-m", "realtime", *words], cwd=ROOT, **(pipes | options)
    )


def _read_exactly(stream, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = stream.read(size - len(data))
        assert more, "the stream ended early"
        data += more
    return data


def test_speaks_while_standard_input_grows(server):
    with _start("speak", "-", "--url", server.url, "-o", "-") as process:
        process.stdin.write("Hé".encode()[:2])  # half a character
        process.stdin.flush()
        _read_exactly(process.stdout, 44 + 2 * FRAME_SAMPLES)
        assert server.texts() == ["H"]
        process.stdin.write("Hé".encode()[2:])
        process.stdin.flush()
        _read_exactly(process.stdout, 2 * FRAME_SAMPLES)
        assert server.texts() == ["H", "é"]
        output, complaints = process.communicate(b"!", timeout=20)
    assert process.returncode == 0, complaints
    assert len(output) == 2 * FRAME_SAMPLES
    assert isinstance(server.received[-1], wire.End)


def test_wav_on_standard_output_is_readable(server):
    run = subprocess.run(
        [sys.executable, "-m", "realtime", "speak", "Hi", "--url", server.url, "-o", "-"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=30,
    )
    samples, rate = soundfile.read(io.BytesIO(run.stdout))
    assert (len(samples), rate) == (2 * FRAME_SAMPLES, 24_000)


def test_a_plain_file_works_as_standard_input(server, tmp_path):
    (tmp_path / "text.txt").write_text("Hello")
    output = str(tmp_path / "a.wav")
    with (
        (tmp_path / "text.txt").open("rb") as text,
        _start("speak", "-", "--url", server.url, "-o", output, stdin=text) as process,
    ):
        process.communicate(timeout=20)
    assert process.returncode == 0
    assert server.texts() == ["Hello"]


def test_standard_input_that_cannot_be_watched_is_read_to_its_end(server, tmp_path):
    output = str(tmp_path / "a.wav")
    with _start("speak", "--url", server.url, "-o", output, stdin=subprocess.DEVNULL) as process:
        _, complaints = process.communicate(timeout=20)
    assert process.returncode == 0, complaints
    assert isinstance(server.received[-1], wire.End)


@pytest.mark.parametrize(
    ("redirection", "words", "code", "complaint"),
    [
        ("<&-", "- -o OUTPUT", 2, "standard input is closed"),
        (">&-", "Hi -o -", 2, "standard output is closed"),
        (">&-", "Hi --json", 2, "standard output is closed"),
        (">/dev/full", "Hi --json", 1, "No space left"),
        (">/dev/full", "Hi -o -", 1, "No space left"),
    ],
)
def test_a_stream_that_cannot_be_used_is_one_line(
    server, tmp_path, redirection, words, code, complaint
):
    words = words.replace("OUTPUT", f"{tmp_path}/a.wav")
    command = f'exec "$0" -m realtime speak {words} --url {server.url} {redirection}'
    run = subprocess.run(
        ["/bin/sh", "-c", command, sys.executable],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        timeout=30,
        text=True,
        check=False,
    )
    assert (run.returncode, len(run.stderr.splitlines())) == (code, 1), run.stderr
    assert complaint in run.stderr


def test_closed_standard_error_does_not_stop_the_speech(server, tmp_path):
    command = f'exec "$0" -m realtime speak - -o {tmp_path}/a.wav --url {server.url} 2>&-'
    subprocess.run(
        ["/bin/sh", "-c", command, sys.executable],
        cwd=ROOT,
        input=b"Hi",
        timeout=30,
        check=True,
    )
    assert len(soundfile.read(tmp_path / "a.wav")[0]) == 2 * FRAME_SAMPLES


def test_bytes_that_are_no_text_are_refused(server):
    with _start("speak", "-", "--url", server.url, "--json") as process:
        _, complaints = process.communicate(b"abc\xff\xfe", timeout=20)
    assert process.returncode == 2
    assert b"not UTF-8" in complaints


def test_interrupt_cancels_politely_and_keeps_the_audio_so_far(tmp_path):
    with threaded_fake_server(frame_pause_s=0.01) as server:
        with _start("speak", "!endless", "--url", server.url, "-o", "-") as process:
            _read_exactly(process.stdout, 44 + 2 * FRAME_SAMPLES)
            process.send_signal(signal.SIGINT)
            _, complaints = process.communicate(timeout=20)
        assert process.returncode == 130
        assert b"interrupted" in complaints
        assert b"Traceback" not in complaints
        assert isinstance(server.received[-1], wire.Cancel)


def test_a_reader_that_leaves_ends_the_command_quietly(server):
    with _start("speak", "!endless", "--url", server.url, "-o", "-") as process:
        _read_exactly(process.stdout, 44)
        process.stdout.close()
        complaints = process.stderr.read()
        process.wait(20)
    assert process.returncode == 141
    assert complaints == b""


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from realtime.cli.app import build_app\n"
        "try: build_app()(['speak', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'anyio', 'websockets', 'starlette'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=30, check=False
    )
    assert run.returncode == 0, run.stderr
    assert b"--temperature" in run.stdout
