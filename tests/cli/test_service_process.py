"""Private services, with small scripts in place of the real one."""

import stat
import sys

import anyio
import pytest

from realtime.cli import service_process
from realtime.cli.service_process import ServiceFailedError, has_process_group, private_service

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

READY_SERVICE = """
import http.server, subprocess, sys
port = int(next(word for word in sys.argv if word.startswith("gateway.port=")).split("=")[1])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/readyz" else 404)
        self.end_headers()
EXTRA
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def service(tmp_path, monkeypatch):
    """Replaces the service by a program in Python."""

    def replace(program: str) -> None:
        script = tmp_path / "service"
        script.write_text(f"#!{sys.executable}\n{program}")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setattr(service_process.sys, "executable", str(script))

    return replace


async def test_is_reachable_inside_the_block_and_gone_after_it(service):
    service(READY_SERVICE.replace("EXTRA", ""))
    async with private_service() as running:
        port = int(running.url.rsplit(":", 1)[1])
        async with await anyio.connect_tcp("127.0.0.1", port):
            pass
        assert has_process_group(running.pid)
    assert not has_process_group(running.pid)


async def test_is_gone_after_an_exception_too(service):
    service(READY_SERVICE.replace("EXTRA", ""))
    with pytest.raises(ZeroDivisionError):
        async with private_service() as running:
            raise ZeroDivisionError
    assert not has_process_group(running.pid)


async def test_a_failed_start_shows_the_end_of_the_log(service):
    service("import sys; sys.exit('no such voice')")
    with pytest.raises(ServiceFailedError, match=r"exit code 1\nno such voice"):
        async with private_service():
            pytest.fail("it started")


async def test_a_left_over_process_is_reported_and_killed(service, monkeypatch):
    monkeypatch.setattr(service_process, "_GROUP_GRACE_S", 0.1)
    service(READY_SERVICE.replace("EXTRA", "subprocess.Popen(['sleep', '60'])"))
    with pytest.raises(ServiceFailedError, match="left processes behind"):
        async with private_service() as running:
            pass
    with anyio.fail_after(5):
        while has_process_group(running.pid):  # noqa: ASYNC110 - its end tells nobody
            await anyio.sleep(0.01)


async def test_one_that_ignores_the_signal_is_killed(service, monkeypatch):
    monkeypatch.setattr(service_process, "_STOP_MARGIN_S", 0.2)
    service(
        READY_SERVICE.replace(
            "EXTRA", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
        )
    )
    async with private_service(overrides=["gateway.drain_timeout_s=0"]) as running:
        pass
    assert not has_process_group(running.pid)
