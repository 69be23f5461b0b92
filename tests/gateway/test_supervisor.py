"""One engine process at a time, whatever happens to it."""

import os
import signal
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import msgspec
import psutil
import pytest

from realtime import wire
from realtime.clock import MonotonicClock
from realtime.errors import EngineError
from realtime.gateway.app import Gateway
from realtime.gateway.listener import bind, make_server
from realtime.gateway.supervisor import EngineSupervisor
from realtime.telemetry.metrics import ServiceMetrics
from tests.fakes.text import FakeTextSource
from tests.gateway.harness import calling, config_of, until_true

pytestmark = [pytest.mark.anyio, pytest.mark.e2e]
ROOT = str(Path(__file__).parents[2])
PROGRAM = f"import sys; sys.path.insert(0, {ROOT!r}); from tests.fakes.engine import main; main()"


def fake_command(extra: tuple[str, ...], link_fd: int, config_path: str) -> list[str]:
    link = ["--link-fd", str(link_fd), "--config", config_path]
    return [sys.executable, "-c", PROGRAM, *link, *extra]


class _Service:
    def __init__(self, port, gateway, supervisor):
        self.url = f"ws://127.0.0.1:{port}{wire.STREAM_PATH}"
        self.gateway = gateway
        self.supervisor = supervisor

    async def ready_again(self, old_pid: int) -> None:
        await until_true(lambda: self.supervisor.pid != old_pid, 20)
        await until_true(lambda: self.supervisor.ready is not None, 20)


def _config(**engine):
    config = config_of()
    defaults = {"restart_backoff_s": 0.05, "start_timeout_s": 20.0}
    return msgspec.structs.replace(
        config, engine=msgspec.structs.replace(config.engine, **(defaults | engine))
    )


def _children() -> set[psutil.Process]:
    """Child processes now; other tests of the same run may have some of their own."""
    return set(psutil.Process().children())


@asynccontextmanager
async def _service(*extra: str, **engine):
    others = _children()
    config = _config(**engine)
    metrics = ServiceMetrics()
    command = partial(fake_command, extra)
    supervisor = EngineSupervisor(config, MonotonicClock(), metrics, command=command)
    gateway = Gateway(
        config,
        clock=MonotonicClock(),
        engine=supervisor,
        metrics=metrics,
        new_text_source=FakeTextSource,
    )
    listener = bind(config.gateway)
    server = make_server(gateway.app, config.gateway)
    async with AsyncExitStack() as stack:
        stack.enter_context(listener)
        tasks = await stack.enter_async_context(anyio.create_task_group())
        tasks.start_soon(supervisor.run)
        async with anyio.create_task_group() as serving:
            serving.start_soon(partial(server.serve, sockets=[listener]))
            with anyio.fail_after(20):
                await supervisor.wait_ready()
            try:
                yield _Service(listener.getsockname()[1], gateway, supervisor)
            finally:
                server.should_exit = True
        tasks.cancel_scope.cancel()
    assert _children() <= others


async def test_killed_engine_fails_every_open_context_and_comes_back():
    async with _service("--frame-s", "0.01", "--frames-per-segment", "100000") as service:
        pid = service.supervisor.pid
        async with calling(service) as first, calling(service) as second:
            for caller in (first, second):
                for name in ("a", "b"):
                    await caller.send(wire.Text(context=name, text="One."))
                    await caller.until(wire.AudioFrame)
            os.kill(pid, signal.SIGKILL)
            for caller in (first, second):
                for _ in range(2):
                    error = await caller.until(wire.Error)
                    assert (error.code, error.retryable) == ("engine_lost", True)
                    assert error.retry_after_s is not None
                    done = await caller.until(wire.Done, context=error.context)
                    assert done.reason == "error"
            await service.ready_again(pid)
            await first.send(wire.End(context="a"), wire.Text(context="c", text="Two."))
            await first.until(wire.AudioFrame)
            await first.send(wire.Cancel(context="c"))
            assert (await first.until(wire.Done)).reason == "cancelled"
        assert not psutil.pid_exists(pid)


@pytest.mark.slow
async def test_hung_engine_is_killed_and_replaced():
    async with _service(step_deadline_s=0.1) as service:
        pid = service.supervisor.pid
        async with calling(service) as caller:
            await caller.send(wire.Text(context="a", text="!hang!."))
            error = await caller.until(wire.Error)
            assert (error.code, error.retryable) == ("engine_lost", True)
            await service.ready_again(pid)
            await caller.send(wire.End(context="a"))
            assert (await caller.speak("b", "Two.")).reason == "end_of_speech"
        assert not psutil.pid_exists(pid)


@pytest.mark.parametrize(("way", "timeout_s"), [("die", 20.0), ("hang", 0.3)])
async def test_engine_that_never_starts_ends_the_service(way, timeout_s):
    others = _children()
    reason = {"die": "while starting, exit status 3", "hang": "was not ready within"}[way]
    config = _config(start_timeout_s=timeout_s, restart_backoff_s=0.01)
    command = partial(fake_command, ("--start", way))
    supervisor = EngineSupervisor(config, MonotonicClock(), ServiceMetrics(), command=command)
    with pytest.raises(EngineError, match=reason):
        await supervisor.run()
    assert _children() <= others
