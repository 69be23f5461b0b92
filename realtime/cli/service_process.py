"""A private service for one command: started on a free port, ready, and gone afterwards."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import anyio

from realtime.cli.options import resolve
from realtime.clock import MonotonicClock
from realtime.errors import EngineError

_HOST = "127.0.0.1"
_POLL_S = 0.1
_STOP_MARGIN_S = 10.0
_START_MARGIN_S = 30.0
_GROUP_GRACE_S = 2.0  # the engine ends by itself when the gateway is gone
_LOG_TAIL_LINES = 12


class ServiceFailedError(EngineError):
    """The private service did not start, or did not stop cleanly."""

    code = "service_failed"
    is_retryable = False


@dataclass(frozen=True, slots=True)
class PrivateService:
    """A running service.

    Attributes:
        url: Where to connect.
        credential: A key it accepts; `None` where it asks for none.
        pid: Of the gateway, which leads the process group of everything it starts.
        ready_after_s: How long the start took.
    """

    url: str
    credential: str | None
    pid: int
    ready_after_s: float


@asynccontextmanager
async def private_service(
    file: Path | None = None, overrides: Sequence[str] = ()
) -> AsyncGenerator[PrivateService, None]:
    """Start a service on this machine, wait until it is ready, and stop it at the end.

    Args:
        file: Its configuration file.
        overrides: `section.field=value` settings; host and port are decided here.

    Raises:
        ConfigError: The configuration is not usable.
        ServiceFailedError: It did not become ready, or left processes behind.
    """
    config = resolve(file, [*overrides])
    port = _free_port()
    own = [f"gateway.host={_HOST}", f"gateway.port={port}"]
    command = [sys.executable, "-m", "realtime", "serve"]
    command += ["--config", str(file)] if file else []
    command += [word for setting in [*overrides, *own] for word in ("--set", setting)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(  # noqa: ASYNC220 - spawning takes no time worth a thread
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        try:
            deadline_s = config.engine.start_timeout_s + _START_MARGIN_S
            ready_after_s = await _wait_until_ready(process, port, deadline_s)
            credential = next(iter(config.gateway.api_keys), None)
            yield PrivateService(f"ws://{_HOST}:{port}", credential, process.pid, ready_after_s)
        except ServiceFailedError as error:
            raise ServiceFailedError(f"{error}\n{_tail(log)}") from error
        finally:
            with anyio.CancelScope(shield=True):
                await _stop(process, config.gateway.drain_timeout_s + _STOP_MARGIN_S)
    if not await _group_ends(process.pid):
        os.killpg(process.pid, signal.SIGKILL)
        raise ServiceFailedError("the service left processes behind; they were killed")


def has_process_group(pid: int) -> bool:
    """Whether any process of the group that `pid` led is left, zombies not counted."""
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    stats = [*Path("/proc").glob("[0-9]*/stat")]
    return not stats or any(_is_alive_in_group(stat, pid) for stat in stats)


def _is_alive_in_group(stat: Path, pid: int) -> bool:
    """proc(5): after the parenthesised name come state, parent and process group."""
    try:
        state, _, group = stat.read_text().rpartition(")")[2].split()[:3]
    except (OSError, ValueError):
        return False  # it ended meanwhile
    return int(group) == pid and state not in "ZX"


async def _group_ends(pid: int) -> bool:
    return await _becomes_true(lambda: not has_process_group(pid), _GROUP_GRACE_S)


async def _becomes_true(condition: Callable[[], bool], limit_s: float) -> bool:
    """Poll: the end of a process that is not ours to wait for announces itself to nobody."""
    with anyio.move_on_after(limit_s):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(_POLL_S)
    return condition()


async def _wait_until_ready(process: "subprocess.Popen[bytes]", port: int, limit_s: float) -> float:
    clock = MonotonicClock()
    started_at = clock.now()
    while clock.now() - started_at < limit_s:
        if process.poll() is not None:
            raise ServiceFailedError(f"the service ended with exit code {process.returncode}")
        if await _is_ready(port):
            return clock.now() - started_at
        await anyio.sleep(_POLL_S)
    raise ServiceFailedError(f"the service was not ready after {limit_s:.0f} s")


async def _is_ready(port: int) -> bool:
    request = f"GET /readyz HTTP/1.1\r\nHost: {_HOST}\r\nConnection: close\r\n\r\n"
    try:
        with anyio.fail_after(2.0):
            async with await anyio.connect_tcp(_HOST, port) as stream:
                await stream.send(request.encode())
                return b" 200 " in (await stream.receive()).split(b"\r\n", 1)[0]
    except (OSError, TimeoutError, anyio.EndOfStream, anyio.BrokenResourceError):
        return False


async def _stop(process: "subprocess.Popen[bytes]", limit_s: float) -> None:
    process.terminate()
    if await _becomes_true(lambda: process.poll() is not None, limit_s):
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind((_HOST, 0))
        return probe.getsockname()[1]


def _tail(log: IO[bytes]) -> str:
    log.seek(0)
    lines = log.read().decode(errors="replace").splitlines()
    return "\n".join(lines[-_LOG_TAIL_LINES:])
