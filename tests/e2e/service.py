"""The real service as a process, with the voice that ships."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import httpx
import psutil

from realtime.clock import MonotonicClock

ROOT = Path(__file__).resolve().parents[2]
READY_LIMIT_S = 180.0


class Service:
    """A gateway process and the engine under it."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
        self.process = process
        self.gateway = psutil.Process(process.pid)
        self.url = f"ws://127.0.0.1:{port}"
        self._http = f"http://127.0.0.1:{port}"
        self._log = log

    def engine(self) -> psutil.Process:
        return self.gateway.children()[0]

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"{self._http}/readyz", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    async def wait_ready(self) -> float:
        """Seconds until it was ready."""
        clock = MonotonicClock()
        started_at = clock.now()
        await until(self.is_ready, READY_LIMIT_S, lambda: self._log.read_text()[-3000:])
        return clock.now() - started_at

    def log(self) -> str:
        return self._log.read_text()


async def until(
    condition: Callable[[], bool], limit_s: float, explain: Callable[[], str] = lambda: ""
) -> None:
    with anyio.move_on_after(limit_s):
        while not condition():  # noqa: ASYNC110 - other processes tell nobody
            await anyio.sleep(0.05)
    assert condition(), f"not within {limit_s} s: {explain()}"


def is_gone(process: psutil.Process) -> bool:
    """Ended; a zombie counts, because the reaper of orphans is not the product's business."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@contextmanager
def started(port: int, folder: Path, *overrides: str) -> Iterator[Service]:
    # on a busy machine callers shall wait for their turn, not be told to come back
    patience = "engine.max_wait_s=600"
    settings = [f"gateway.port={port}", "telemetry.format=json", patience, *overrides]
    command = [sys.executable, "-m", "realtime", "serve"]
    command += [word for setting in settings for word in ("--set", setting)]
    log = folder / "service.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
    service = Service(process, port, log)
    family = [service.gateway]
    try:
        yield service
        if process.poll() is None:
            family += service.gateway.children(recursive=True)
            process.terminate()
            assert process.wait(30) == 0, log.read_text()[-3000:]
            assert all(is_gone(member) for member in family), "the service left processes behind"
    finally:
        if process.poll() is None:
            for member in service.gateway.children(recursive=True):
                member.kill()
            process.kill()
            process.wait()
