"""The whole gateway process: readiness, draining, and nothing left behind."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import psutil
import pytest

from realtime import wire
from tests.gateway.harness import calling, until_true

pytestmark = [pytest.mark.anyio, pytest.mark.e2e, pytest.mark.slow]
ROOT = str(Path(__file__).parents[2])
PROGRAM = f"""
import sys; sys.path.insert(0, {ROOT!r})
from functools import partial
import anyio
from realtime.config import load_config
from realtime.gateway.app import serve
from tests.gateway.test_supervisor import fake_command

config = load_config(None, overrides=sys.argv[1:], environment={{}})
extra = ("--frame-s", "0.01", "--frames-per-segment", "50")
anyio.run(partial(serve, config, command=partial(fake_command, extra)))
"""


@dataclass
class Service:
    process: subprocess.Popen
    events: list[dict] = field(default_factory=list)
    reached: dict[str, threading.Event] = field(
        default_factory=lambda: defaultdict(threading.Event)
    )

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.event('service_ready')['port']}{wire.STREAM_PATH}"

    def event(self, name: str) -> dict:
        return next(event for event in self.events if event["event"] == name)

    def has_said(self, name: str) -> bool:
        return any(event["event"] == name for event in self.events)

    def read_log(self) -> None:
        for line in self.process.stderr:
            self.events.append(json.loads(line))
            self.reached[self.events[-1]["event"]].set()


@contextmanager
def started(*overrides: str, event: str = "service_ready"):
    settings = ["gateway.port=0", "telemetry.format=json", *overrides]
    command = [sys.executable, "-c", PROGRAM, *settings]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        service = Service(process)
        log = threading.Thread(target=service.read_log)
        log.start()
        try:
            assert service.reached[event].wait(60), service.events
            yield service
        finally:
            process.kill()
            log.join()


def _is_gone(pid: int, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.02)
    return False


async def test_sigterm_lets_open_contexts_finish_and_leaves_nothing():
    with started() as service:
        engine_pid = service.event("engine_ready")["pid"]
        async with calling(service) as caller, calling(service) as idle:
            await caller.send(wire.Text(context="a", text="One sentence."), wire.End(context="a"))
            await caller.until(wire.AudioFrame)
            service.process.send_signal(signal.SIGTERM)
            await until_true(lambda: service.has_said("draining"))
            await idle.send(wire.Text(context="b", text="Too late."))
            assert (await idle.until(wire.Error)).code == "shutting_down"
            assert (await caller.until(wire.Done)).reason == "end_of_speech"
            assert (await caller.until(wire.Error)).code == "shutting_down"
            assert [await caller.close_code(), await idle.close_code()] == [1001, 1001]
        assert await anyio.to_thread.run_sync(service.process.wait, 10) == 0
        assert _is_gone(engine_pid, 0.1)
    assert service.events[-1]["event"] == "service_stopped"
    line = next(event for event in service.events if event["event"] == "request_done")
    assert line["outcome"] == "end_of_speech"
    assert line["tokens"] == 350
    assert not any(
        "sentence" in str(value).lower() for event in service.events for value in event.values()
    )


async def test_contexts_that_do_not_finish_in_time_are_told_why():
    with started("gateway.drain_timeout_s=0.2") as service:
        async with calling(service) as caller:
            await caller.send(wire.Text(context="a", text="No end."), wire.Flush(context="a"))
            await caller.until(wire.AudioFrame)
            service.process.send_signal(signal.SIGINT)
            assert (await caller.until(wire.Error)).code == "shutting_down"
            assert await caller.close_code() == 1001
        assert await anyio.to_thread.run_sync(service.process.wait, 10) == 0


async def test_killed_gateway_leaves_no_engine():
    with started() as service:
        engine_pid = service.event("engine_ready")["pid"]
        os.kill(service.process.pid, signal.SIGKILL)
        assert _is_gone(engine_pid, 2.0)


async def test_signal_during_the_start_stops_everything():
    with started(event="engine_starting") as service:
        engine_pid = service.event("engine_starting")["pid"]
        service.process.send_signal(signal.SIGTERM)
        assert await anyio.to_thread.run_sync(service.process.wait, 20) == 0
        assert _is_gone(engine_pid, 0.1)
