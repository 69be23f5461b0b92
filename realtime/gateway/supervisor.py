"""Keeps one engine process alive: start, readiness, heartbeat, restart. Leaves no child behind.

The engine is the child of this process and the other end of a socketpair: whichever side dies, the
other sees the end of the link.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import cast

import anyio
import anyio.abc
import msgspec
import structlog

from realtime.clock import Clock
from realtime.config import GatewayConfig, ServiceConfig, child_environment, to_toml
from realtime.errors import (
    EngineError,
    EngineLostError,
    EngineNotReadyError,
    SpeechError,
)
from realtime.gateway.engine_client import EngineClient
from realtime.gateway.signal import Signal
from realtime.link import AsyncLink, LinkClosedError
from realtime.messages import EngineReady
from realtime.telemetry.metrics import ServiceMetrics

HEARTBEAT_MARGIN_S = 2.0
SECOND_LOOK_S = 0.25
STOP_GRACE_S = 5.0
EXIT_GRACE_S = 1.0
MAX_FIRST_STARTS = 3

_log = structlog.get_logger()


def engine_command(link_fd: int, config_path: str) -> list[str]:
    """How the engine process is started."""
    link = ["--link-fd", str(link_fd)]
    return [sys.executable, "-m", "realtime", "engine", *link, "--config", config_path]


class EngineSupervisor:
    """Owner of the engine process; `run` it in a task group.

    Args:
        config: Handed to the engine, without what only the gateway may know.
        clock: The service's clock.
        metrics: Engine state and load go here.
        command: Builds the command line from the number of the link's file descriptor and the path
            of a configuration file.
    """

    def __init__(
        self,
        config: ServiceConfig,
        clock: Clock,
        metrics: ServiceMetrics,
        *,
        command: Callable[[int, str], Sequence[str]] = engine_command,
    ) -> None:
        self._config = config
        self._clock = clock
        self._metrics = metrics
        self._command = command
        self._client: EngineClient | None = None
        self._process: anyio.abc.Process | None = None
        self._changed = Signal()
        self._has_been_ready = False

    @property
    def client(self) -> EngineClient | None:
        """The running engine; `None` while it starts."""
        return self._client

    @property
    def ready(self) -> EngineReady | None:
        """The running engine's facts; `None` while it starts."""
        return None if self._client is None else self._client.ready

    @property
    def pid(self) -> int | None:
        """The engine's process id; `None` while there is none."""
        return None if self._process is None else self._process.pid

    def refusal(self) -> SpeechError | None:
        """Why no request can be taken now; whether there is room for one is the engine's to say."""
        if self._client is None:
            return EngineNotReadyError("the engine is starting")
        return None

    async def wait_ready(self) -> None:
        """Wait for the first readiness. For one waiter."""
        while self._client is None:
            await self._changed.wait()

    async def run(self) -> None:
        """Keep an engine running until cancelled; then stop it.

        Raises:
            EngineError: It could not be started even once.
        """
        failures = 0
        while True:
            started_at = self._clock.now()
            try:
                await self._run_once()
            except EngineError as error:
                was_ready = self._client is not None
                self._lose(error)
                failures = 0 if was_ready else failures + 1
                _log.error(
                    "engine_lost" if was_ready else "engine_start_failed",
                    reason=error.message,
                    after_s=round(self._clock.now() - started_at, 3),
                )
                if not self._has_been_ready and failures >= MAX_FIRST_STARTS:
                    raise
            if failures:
                await anyio.sleep(
                    self._config.engine.restart_backoff_s * min(8, 2 ** (failures - 1))
                )

    async def _run_once(self) -> None:
        """Start an engine and serve it until it is gone, which raises `EngineError`."""
        process, link = await self._spawn()
        self._process = process
        try:
            ready = await self._await_ready(process, link)
            client = EngineClient(
                link,
                ready,
                self._clock,
                on_report=self._metrics.engine_load.take,
                on_late=self._metrics.engine_late.inc,
                on_cancelled=self._metrics.observe_cancel,
            )
            self._become_ready(client)
            await self._serve(process, client)
        except EngineError:
            _kill(process)  # it hangs or is half dead: nothing it could still say is wanted
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await _stop(process, link)
            self._process = None

    async def _spawn(self) -> tuple[anyio.abc.Process, AsyncLink]:
        try:
            ours, theirs = socket.socketpair()
            config_fd, config_end = os.pipe()
        except OSError as error:  # out of descriptors: as any other failed start
            raise EngineError(f"the engine process cannot be started: {error}") from error
        try:
            text = to_toml(_without_secrets(self._config)).encode()
            if os.write(config_end, text) != len(text):
                raise EngineError("the configuration does not fit into a pipe")
            os.close(config_end)
            process = await anyio.open_process(
                self._command(theirs.fileno(), f"/dev/fd/{config_fd}"),
                stdin=subprocess.DEVNULL,
                stdout=None,
                stderr=None,
                env=child_environment(),
                pass_fds=(theirs.fileno(), config_fd),
                start_new_session=True,  # Ctrl-C is for the gateway, which drains first
            )
        except OSError as error:
            ours.close()
            raise EngineError(f"the engine process cannot be started: {error}") from error
        finally:
            theirs.close()
            os.close(config_fd)
        _log.info("engine_starting", pid=process.pid)
        ours.setblocking(False)
        return process, await AsyncLink.from_socket(ours)

    async def _await_ready(self, process: anyio.abc.Process, link: AsyncLink) -> EngineReady:
        timeout_s = self._config.engine.start_timeout_s
        try:
            with anyio.fail_after(timeout_s):
                while True:
                    message = await link.receive()
                    if isinstance(message, EngineReady):
                        return message
        except TimeoutError as error:
            raise EngineError(f"the engine was not ready within {timeout_s:g} s") from error
        except LinkClosedError as error:
            with anyio.move_on_after(STOP_GRACE_S):
                await process.wait()
            raise EngineError(
                f"the engine ended while starting, exit status {process.returncode}"
            ) from error

    async def _serve(self, process: anyio.abc.Process, client: EngineClient) -> None:
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch_heartbeat, client)
                tasks.start_soon(_watch_exit, process)
                await client.run()
        except ExceptionGroup as group:
            if group.subgroup(LinkClosedError) is not None:
                with anyio.move_on_after(EXIT_GRACE_S):
                    await process.wait()
            raise _as_loss(group, process.returncode) from group

    async def _watch_heartbeat(self, client: EngineClient) -> None:
        limit_s = self._config.engine.step_deadline_s + HEARTBEAT_MARGIN_S
        while True:
            heard_at = client.heard_at
            silent_s = self._clock.now() - heard_at
            await anyio.sleep(max(SECOND_LOOK_S, limit_s - silent_s))
            # The second look spares an engine whose gateway was itself stopped for a while.
            if silent_s > limit_s and client.heard_at == heard_at:
                raise EngineLostError(f"the engine was silent for {silent_s:.1f} s")

    def _become_ready(self, client: EngineClient) -> None:
        self._client = client
        self._has_been_ready = True
        self._metrics.engine_ready.set(1)
        self._changed.set()
        _log.info("engine_ready", **msgspec.structs.asdict(client.ready))

    def _lose(self, error: EngineError) -> None:
        client, self._client = self._client, None
        self._metrics.engine_ready.set(0)
        if client is not None:
            self._metrics.engine_restarts.inc()
            self._metrics.engine_load.lose()
            client.lose(EngineLostError(error.message))


async def _watch_exit(process: anyio.abc.Process) -> None:
    status = await process.wait()
    raise EngineLostError(f"the engine process ended, exit status {status}")


async def _stop(process: anyio.abc.Process, link: AsyncLink) -> None:
    """End the process: it exits when its link closes, and if not it is killed."""
    await link.aclose()
    with anyio.move_on_after(STOP_GRACE_S):
        await process.wait()
    _kill(process)
    await process.aclose()


def _kill(process: anyio.abc.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()


def _as_loss(group: BaseExceptionGroup[BaseException], exit_status: int | None) -> EngineError:
    error = engine_error_in(group)
    if error is not None:
        return error
    if group.subgroup(LinkClosedError) is not None:
        return EngineLostError(f"the engine closed the link, exit status {exit_status}")
    return EngineLostError("the link to the engine failed")


def engine_error_in(group: BaseExceptionGroup[BaseException]) -> EngineError | None:
    """The engine's own error among those that ended a task group; `None` if there is none."""
    errors = (error for error in _leaves(group) if isinstance(error, EngineError))
    return next(errors, None)


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(cast(BaseExceptionGroup[BaseException], error))
        else:
            yield error


def _without_secrets(config: ServiceConfig) -> ServiceConfig:
    return msgspec.structs.replace(config, gateway=GatewayConfig())
