"""The examples and the client's own documentation run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import soundfile

import realtime.client
from tests.client.fake_server import FRAME_SAMPLES, fake_server
from tests.client.fake_thread import threaded_fake_server

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_example_speaks(tmp_path):
    with threaded_fake_server() as server:
        script = str(ROOT / "examples" / "ten_lines.py")
        program = (
            f"import runpy, sys; sys.path.insert(0, {str(ROOT)!r}); "
            f"sys.argv = ['ten_lines', {server.url!r}]; "
            f"runpy.run_path({script!r}, run_name='__main__')"
        )
        subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=60)
    text = "Hello there. This is spoken as it is written."
    assert "".join(server.texts()) == text
    assert len(soundfile.read(tmp_path / "hello.wav")[0]) == len(text) * FRAME_SAMPLES


@pytest.mark.anyio
async def test_the_lines_in_the_documentation_work():
    lines = re.search(r"```python\n(.*?)```", realtime.client.__doc__, re.DOTALL)[1]
    played: list[bytes] = []
    async with fake_server() as server:
        lines = lines.replace("ws://127.0.0.1:8765", server.url)
        program = "async def run():\n" + "".join(f"    {line}\n" for line in lines.splitlines())
        names = {"connect": realtime.client.connect, "play": played.append}
        exec(program, names)
        await names["run"]()
    assert len(b"".join(played)) == 2 * FRAME_SAMPLES * len("Hello there.")


def test_the_lines_in_the_readme_work(capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    lines = next(block for block in blocks if "realtime.client" in block)
    with threaded_fake_server() as server:
        exec(lines.replace("ws://127.0.0.1:8765", server.url), {})
        assert len(server.texts()) >= 1
    assert capsys.readouterr().out


@pytest.fixture
def anyio_backend():
    return "asyncio"
