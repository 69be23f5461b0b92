"""`realtime config` and what all commands share."""

import tomllib

import pytest
from typer.testing import CliRunner

from realtime.cli.app import build_app


def _run(*words: str):
    return CliRunner().invoke(build_app(), [*words])


def test_prints_what_the_service_would_run_with(tmp_path):
    file = tmp_path / "service.toml"
    file.write_text("[gateway]\nport = 9000\n[engine]\nthreads = 2\n")
    result = _run("config", "--config", str(file), "--set", "engine.threads=3")
    assert result.exit_code == 0
    printed = tomllib.loads(result.stdout)
    assert printed["gateway"]["port"] == 9000
    assert printed["engine"]["threads"] == 3


def test_check_is_silent_on_standard_output():
    result = _run("config", "--check")
    assert (result.exit_code, result.stdout) == (0, "")


@pytest.mark.parametrize("command", [["config"], ["config", "--check"], ["serve"], ["demo"]])
@pytest.mark.parametrize("setting", ["engine.max_num_seq=1", "engine.threads=none", "nonsense"])
def test_a_bad_setting_is_one_line_and_exit_code_2(command, setting):
    result = _run(*command, "--set", setting)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("error: ")


def test_a_missing_file_is_named():
    result = _run("config", "--config", "missing.toml")
    assert result.exit_code == 2
    assert "missing.toml" in result.stderr


def test_version_and_help():
    assert _run("--version").stdout.startswith("realtime-speech ")
    assert "speak" in _run("--help").stdout
    assert "engine" not in _run("--help").stdout
