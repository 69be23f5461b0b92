import socket
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from tests.e2e.service import ROOT, Service, started
from tests.engine.voice import write_voice


@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="session")
def voice_settings(tmp_path_factory) -> list[str]:
    """The voice that ships; a tiny one with random weights in a checkout without it."""
    if (ROOT / "models" / "voices" / "default" / "voice.json").exists():
        return []
    return [f"voice.directory={write_voice(tmp_path_factory.mktemp('voices'))}"]


@pytest.fixture(scope="session")
def service(voice_settings, tmp_path_factory) -> Service:
    """One service for all tests that leave it in order."""
    with started(_free_port(), tmp_path_factory.mktemp("service"), *voice_settings) as running:
        anyio.run(running.wait_ready)
        yield running


@pytest.fixture
def own_service(voice_settings, tmp_path: Path) -> Service:
    """A service that the test may break."""
    with started(_free_port(), tmp_path, *voice_settings) as running:
        anyio.run(running.wait_ready)
        yield running


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
