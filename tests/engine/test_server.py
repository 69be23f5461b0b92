"""The engine as a process of its own: what it answers, and that it is gone when it should be."""

import signal
import socket
import struct
import subprocess
import sys
import threading

import msgspec
import pytest

from realtime.config import load_config, to_toml
from realtime.engine.build import resident_bytes
from realtime.engine.server import watch_deadline
from realtime.messages import (
    AppendSegment,
    CapacityReport,
    EndText,
    EngineReady,
    Finished,
    FromEngine,
    OutputChunk,
    SamplingParams,
    Shutdown,
    StartRequest,
)
from tests.engine.voice import write_voice
from tests.fakes.clock import FakeClock

BREAK = {
    "": "",
    "hang": "ModelRunner.run = lambda self, plan: threading.Event().wait()",
    "raise": "ModelRunner.run = lambda self, plan: [][plan.num_tokens]",
    "codec": "CodecStage.decode = lambda self, outputs: 1 / 0",
}
CHILD = """
import sys, threading
from pathlib import Path
from realtime.config import load_config
from realtime.engine import server
from realtime.engine.calibrate import Calibration
from realtime.engine.codec_stage import CodecStage
from realtime.engine.runner import ModelRunner
calibrate = Calibration.run
def calibrate_then_break(self):
    costs = calibrate(self)
    {statement}
    return costs
Calibration.run = calibrate_then_break
sys.exit(server.run_engine(load_config(Path(sys.argv[1])), int(sys.argv[2])))
"""


class EngineProcess:
    """A real engine with the tiny voice; the test plays the gateway."""

    def __init__(self, folder, *, breaks="", **engine_settings):
        voices = write_voice(folder / "voices")
        sets = [f"{name}={value}" for name, value in engine_settings.items()]
        config = load_config(
            overrides=[
                f"voice.directory={voices}",
                "engine.max_streams=4",
                "engine.max_step_tokens=64",
                "telemetry.format=json",
                *(f"engine.{item}" for item in sets),
            ],
            environment={},
        )
        path = folder / "config.toml"
        path.write_text(to_toml(config))
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(60)
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                CHILD.format(statement=BREAK[breaks]),
                path,
                str(theirs.fileno()),
            ],
            pass_fds=[theirs.fileno()],
            stderr=subprocess.PIPE,
            text=True,
        )
        theirs.close()
        self._decoder = msgspec.msgpack.Decoder(FromEngine)

    def send(self, *messages):
        for message in messages:
            body = msgspec.msgpack.encode(message)
            self.socket.sendall(struct.pack("<I", len(body)) + body)

    def receive(self):
        (length,) = struct.unpack("<I", self._exactly(4))
        return self._decoder.decode(self._exactly(length))

    def _exactly(self, count):
        data = self.socket.recv(count, socket.MSG_WAITALL)
        if len(data) < count:
            raise EOFError
        return data

    def until(self, kind):
        """All messages up to the first of a kind, capacity reports left out unless wished."""
        messages = []
        while not messages or not isinstance(messages[-1], kind):
            message = self.receive()
            if kind is CapacityReport or not isinstance(message, CapacityReport):
                messages.append(message)
        return messages

    def say(self, request_id, phonemes="hɛlO wɜɹld.", *, ends=True):
        self.send(
            StartRequest(request_id=request_id, sampling=SamplingParams(seed=1)),
            AppendSegment(request_id=request_id, index=0, phonemes=phonemes),
            *([EndText(request_id=request_id)] if ends else []),
        )

    def exit_within(self, seconds):
        """Exit status and log."""
        _, log = self.process.communicate(timeout=seconds)
        return self.process.returncode, log


@pytest.fixture
def spawn(tmp_path):
    running = []

    def start(**options):
        engine = EngineProcess(tmp_path, **options)
        running.append(engine)
        (ready,) = engine.until(EngineReady)
        assert ready.pid == engine.process.pid
        return engine

    yield start
    for engine in running:
        engine.socket.close()
        engine.process.kill()
        engine.process.wait()
        engine.process.stderr.close()


@pytest.mark.e2e
@pytest.mark.slow
def test_engine_speaks_reports_and_is_gone_with_its_gateway(spawn):
    engine = spawn()
    engine.say(1)
    messages = engine.until(Finished)
    chunks = [m for m in messages if isinstance(m, OutputChunk)]
    assert sum(m.num_frames for m in chunks) == messages[-1].num_frames > 0
    assert sum(len(m.pcm) for m in chunks) == messages[-1].num_frames * 4096
    idle = [engine.until(CapacityReport)[-1] for _ in range(2)]
    assert idle[-1].num_running == 0
    assert idle[-1].free_blocks == idle[-1].num_blocks
    engine.say(2, "hɛlO " * 20)
    engine.until(OutputChunk)
    engine.socket.close()
    assert engine.exit_within(2.0)[0] == 0


@pytest.mark.e2e
@pytest.mark.slow
def test_engine_is_gone_with_its_gateway_also_while_a_step_hangs(spawn):
    engine = spawn(breaks="hang", step_deadline_s=60.0)
    engine.say(1)
    engine.until(CapacityReport)
    engine.socket.close()
    assert engine.exit_within(2.0)[0] == 0


@pytest.mark.e2e
@pytest.mark.slow
def test_hung_step_ends_the_process(spawn):
    engine = spawn(breaks="hang", step_deadline_s=0.5)
    engine.say(1)
    status, log = engine.exit_within(20)
    assert status == 70
    assert '"event": "step_hung"' in log


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.parametrize(
    ("breaks", "event", "error"),
    [("raise", "engine_failed", "IndexError"), ("codec", "codec_failed", "ZeroDivisionError")],
)
def test_failure_ends_the_process_with_its_traceback(spawn, breaks, event, error):
    engine = spawn(breaks=breaks)
    engine.say(1)
    status, log = engine.exit_within(20)
    assert status == 70
    assert f'"event": "{event}"' in log
    assert "Traceback" in log
    assert error in log


@pytest.mark.e2e
@pytest.mark.slow
def test_sigterm_drains(spawn):
    engine = spawn()
    engine.say(1, "hɛlO " * 20, ends=False)
    engine.until(OutputChunk)
    engine.process.send_signal(signal.SIGINT)  # a terminal sends it to the gateway as well
    engine.process.send_signal(signal.SIGTERM)
    engine.send(EndText(request_id=1))
    assert engine.until(Finished)[-1].reason in {"end_of_speech", "guard"}
    assert engine.exit_within(10)[0] == 0


@pytest.mark.e2e
@pytest.mark.slow
def test_shutdown_stops_in_the_middle(spawn):
    engine = spawn()
    engine.say(1, "hɛlO " * 20)
    engine.until(OutputChunk)
    engine.send(Shutdown())
    with pytest.raises(EOFError):
        engine.until(Finished)
    assert engine.exit_within(10)[0] == 0


def test_watchdog_tells_a_hang_from_a_pause():
    clock, hung = FakeClock(), threading.Event()
    busy, seen = [None, 1000.0], []

    def on_hang(busy_s):
        seen.append(busy_s)
        hung.set()

    watch_deadline(clock, 5.0, lambda: busy, on_hang)
    assert not hung.wait(0.5)
    clock.advance(6.0)
    assert hung.wait(10)
    assert seen == [6.0]


def test_resident_memory_is_that_of_this_process():
    assert 10_000_000 < resident_bytes() < 20_000_000_000
