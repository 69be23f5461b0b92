"""Connections that never become a session: bounded in number, size and time, and told why."""

import asyncio
import socket

import anyio
import pytest
import structlog
from starlette.applications import Starlette
from structlog.testing import capture_logs

from realtime import wire
from realtime.gateway import http
from realtime.gateway.listener import FAULT_PAUSE_S, make_server, report_faults_calmly
from realtime.telemetry import logs
from tests.fakes.clock import FakeClock
from tests.gateway.harness import calling, config_of, running_gateway, until_true

pytestmark = [pytest.mark.anyio, pytest.mark.e2e]

UPGRADE = (
    b"GET /v1/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


async def _exchange(running, data: bytes) -> bytes:
    """Everything the service answers to some bytes before it closes."""
    answer = b""
    with anyio.fail_after(5):
        async with await anyio.connect_tcp("127.0.0.1", running.port) as stream:
            try:
                if data:
                    await stream.send(data)
                while True:
                    answer += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return answer


def _error_in(answer: bytes) -> wire.Error:
    return wire.decode_server_message(answer.partition(b"\r\n\r\n")[2].decode())


@pytest.mark.parametrize(
    "headers",
    [
        b"".join(b"X-%d: %s\r\n" % (n, b"x" * 1000) for n in range(70)),
        b"X-Long: " + b"x" * 10_000 + b"\r\n",
        b"".join(b"X-%d: y\r\n" % n for n in range(200)),
    ],
)
async def test_an_upgrade_with_too_much_of_a_head_is_answered(headers):
    async with running_gateway() as running:
        answer = await _exchange(running, UPGRADE + headers + b"\r\n")
        assert answer.split(b" ", 2)[1] in (b"400", b"431")
        if b"HTTP/1.1 431 " in answer:
            assert _error_in(answer).code == "request_head_too_large"
        async with calling(running):
            pass


@pytest.mark.parametrize("start", [b"", b"GET /healthz HT", UPGRADE])
async def test_a_request_that_never_completes_is_ended(monkeypatch, start):
    monkeypatch.setattr(http, "REQUEST_TIMEOUT_S", 0.1)
    async with running_gateway() as running:
        answer = await _exchange(running, start)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert _error_in(answer).code == "request_timeout"


async def test_a_second_request_on_a_connection_has_to_complete_as_well(monkeypatch):
    monkeypatch.setattr(http, "REQUEST_TIMEOUT_S", 0.1)
    async with (
        running_gateway() as running,
        await anyio.connect_tcp("127.0.0.1", running.port) as stream,
    ):
        with anyio.fail_after(4):
            await stream.send(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n")
            answer = b""
            while b"alive" not in answer:
                answer += await stream.receive()
            await stream.send(b"GET /hea")
            assert (await stream.receive()).startswith(b"HTTP/1.1 408 ")


async def test_connections_over_the_limit_are_told_so_and_others_go_on(monkeypatch):
    monkeypatch.setattr(http, "SPARE_CONNECTIONS", 3)
    async with running_gateway(config_of(max_sessions=1)) as running:
        async with calling(running) as caller:
            held = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(3)]
            answer = await _exchange(running, b"")
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"\r\nRetry-After: 5\r\n" in answer
            assert _error_in(answer).code == "too_many_sessions"
            assert (await caller.speak("a", "One.")).reason == "end_of_speech"
            for sock in held:
                sock.close()
        await until_true(lambda: running.gateway.num_sessions == 0)
        async with calling(running):
            pass


async def test_a_burst_over_the_limit_leaves_nobody_without_an_answer(monkeypatch):
    monkeypatch.setattr(http, "SPARE_CONNECTIONS", 3)
    monkeypatch.setattr(http, "REQUEST_TIMEOUT_S", 0.2)
    answers: dict[bytes, int] = {}
    async with running_gateway(config_of(max_sessions=1)) as running:

        async def connect() -> None:
            status = (await _exchange(running, b""))[:12]
            answers[status] = answers.get(status, 0) + 1

        async with anyio.create_task_group() as tasks:
            for _ in range(100):
                tasks.start_soon(connect)
        async with calling(running):
            pass
    assert sum(answers.values()) == 100
    assert set(answers) == {b"HTTP/1.1 503", b"HTTP/1.1 408"}


def test_a_limit_below_the_sessions_that_were_asked_for_is_logged(monkeypatch):
    monkeypatch.setattr(http.resource, "getrlimit", lambda which: (200, 200))
    with capture_logs() as logged:
        make_server(Starlette(), config_of(max_sessions=72).gateway)
        assert logged == []
        make_server(Starlette(), config_of(max_sessions=73).gateway)
        assert [entry["event"] for entry in logged] == ["open_files_limit_is_low"]


def test_the_limit_leaves_descriptors_for_everything_else(monkeypatch):
    limits = [(256, 300)]
    monkeypatch.setattr(http.resource, "getrlimit", lambda which: limits[-1])
    monkeypatch.setattr(http.resource, "setrlimit", lambda which, new: limits.append(new))
    assert http.connection_limit(10_000) < 300
    assert limits[-1] == (300, 300)
    limits.append((10**6, 10**6))
    assert http.connection_limit(1000) == 1000 + http.SPARE_CONNECTIONS
    assert limits[-1] == (10**6, 10**6)


def test_faults_of_the_event_loop_are_logged_once_a_while(capsys):
    logs.configure("info", "json")
    clock, loop = FakeClock(), asyncio.new_event_loop()
    try:
        report_faults_calmly(loop, clock)
        for _ in range(1000):
            loop.call_exception_handler({"message": "out of", "exception": OSError("files")})
        loop.call_exception_handler({"message": "another"})
        assert capsys.readouterr().err.count("event_loop_fault") == 2
        clock.advance(FAULT_PAUSE_S)
        loop.call_exception_handler({"message": "out of"})
        assert capsys.readouterr().err.count("event_loop_fault") == 1
    finally:
        loop.close()
        structlog.reset_defaults()  # the captured stream is closed behind this test
