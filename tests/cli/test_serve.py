"""`realtime serve` refuses what cannot start, before it starts anything."""

import pytest
from typer.testing import CliRunner

from models.spec import write_voice_spec
from realtime.cli.app import build_app
from realtime.gateway import app as gateway_app
from tests.engine.voice import VOICE


@pytest.fixture
def started(monkeypatch):
    """The configurations that a service was started with."""
    configs = []

    async def serve(config):
        configs.append(config)

    monkeypatch.setattr(gateway_app, "serve", serve)
    return configs


@pytest.fixture
def voices(tmp_path):
    folder = tmp_path / "voices"
    (folder / "ada").mkdir(parents=True)
    write_voice_spec(folder / "ada", VOICE)
    return folder


def _serve(*settings: str):
    words = [word for setting in settings for word in ("--set", setting)]
    return CliRunner().invoke(build_app(), ["serve", *words])


def test_a_missing_voice_folder_is_one_line(started, tmp_path):
    result = _serve(f"voice.directory={tmp_path / 'none'}")
    assert result.exit_code == 2
    assert result.stderr == f"error: voice.directory: there is no folder {tmp_path / 'none'}\n"
    assert not started


def test_an_unknown_default_voice_is_one_line_that_names_the_voices(started, voices):
    result = _serve(f"voice.directory={voices}", "voice.default=bob")
    assert result.exit_code == 2
    assert result.stderr == f"error: voice.default: no voice `bob` in {voices}; there are: ada\n"
    assert not started


def test_a_folder_without_voices_is_one_line(started, tmp_path):
    result = _serve(f"voice.directory={tmp_path}")
    assert result.exit_code == 2
    assert result.stderr.endswith("there are: none\n")
    assert not started


def test_a_voice_that_is_there_starts_the_service(started, voices):
    result = _serve(f"voice.directory={voices}", "voice.default=ada")
    assert result.exit_code == 0, result.output
    assert [config.voice.default for config in started] == ["ada"]


def test_the_voices_that_ship_need_no_setting(started):
    assert _serve().exit_code == 0
    assert len(started) == 1


def test_a_spec_that_cannot_be_read_is_one_line(started, voices):
    (voices / "ada" / "voice.json").write_text("{}")
    result = _serve(f"voice.directory={voices}", "voice.default=ada")
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert not started


def test_a_name_for_a_voice_that_is_not_there_is_one_line(started, voices):
    here = (f"voice.directory={voices}", "voice.default=ada")
    result = _serve(*here, 'voices.aliases={alloy="bob"}')
    assert result.exit_code == 2
    assert result.stderr == "error: voices.aliases.alloy: no voice `bob`; there are tiny\n"
    assert _serve(*here, 'voices.aliases={alloy="tiny"}', "voices.fallback=tiny").exit_code == 0
    assert len(started) == 1


def test_help_states_the_exit_codes():
    assert "Exit codes" in CliRunner().invoke(build_app(), ["serve", "--help"]).output
