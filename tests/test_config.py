"""One configuration, resolved once, strict."""

import msgspec
import pytest

from realtime.config import ServiceConfig, child_environment, load_config, to_toml
from realtime.errors import ConfigError


def test_defaults_need_no_file():
    assert load_config(environment={}) == ServiceConfig()


def test_override_beats_environment_beats_file_beats_default(tmp_path):
    path = tmp_path / "service.toml"
    path.write_text("[gateway]\nport = 1\nmax_sessions = 2\n[engine]\nthreads = 3\n")
    environment = {"SPEECH_GATEWAY__PORT": "4", "SPEECH_ENGINE__THREADS": "5", "OTHER": "x"}
    config = load_config(path, overrides=["engine.threads=6"], environment=environment)
    assert (config.gateway.port, config.gateway.max_sessions, config.engine.threads) == (4, 2, 6)
    assert config.gateway.host == "127.0.0.1"


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("engine.max_num_seq=3", r"unknown field `max_num_seq` - at `\$.engine`"),
        ("motor.threads=3", "unknown field `motor`"),
        ("engine.threads=0", r"\$.engine.threads"),
        ("engine.threads=many", r"\$.engine.threads"),
        ("gateway.port=70000", r"\$.gateway.port"),
        ("threads=3", "want section.field=value"),
        ("engine.threads", "want section.field=value"),
    ],
)
def test_mistake_is_named(override, says):
    with pytest.raises(ConfigError, match=says) as error:
        load_config(overrides=[override], environment={})
    assert error.value.code == "bad_config"


def test_unreadable_or_malformed_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.toml"):
        load_config(tmp_path / "nowhere.toml", environment={})
    path = tmp_path / "broken.toml"
    path.write_text("[engine\n")
    with pytest.raises(ConfigError, match=r"broken\.toml"):
        load_config(path, environment={})
    path.write_text("engine = 3\n")
    with pytest.raises(ConfigError, match="`engine` is not a section"):
        load_config(path, overrides=["engine.threads=1"], environment={})


def test_text_values_need_no_quotes_and_lists_are_toml():
    config = load_config(
        overrides=["gateway.host=0.0.0.0", 'gateway.api_keys=["a", "b"]'], environment={}
    )
    assert (config.gateway.host, config.gateway.api_keys) == ("0.0.0.0", ("a", "b"))


def test_written_configuration_reads_back_equal(tmp_path):
    changes = ['gateway.api_keys=["quote\\"d", "ü"]', "engine.device=cpu", "voice.directory=/v"]
    config = load_config(overrides=changes, environment={})
    path = tmp_path / "resolved.toml"
    path.write_text(to_toml(config), encoding="utf-8")
    assert load_config(path, environment={}) == config


def test_child_gets_the_environment_without_what_was_resolved(monkeypatch):
    monkeypatch.setenv("SPEECH_ENGINE__THREADS", "7")
    monkeypatch.setenv("SPEECH", "kept")
    environment = child_environment()
    assert "SPEECH_ENGINE__THREADS" not in environment
    assert environment["SPEECH"] == "kept"
    assert "PATH" in environment


def test_configuration_cannot_be_changed():
    with pytest.raises(AttributeError):
        ServiceConfig().engine.threads = 2
    assert msgspec.structs.replace(ServiceConfig().engine, threads=2).threads == 2


def test_names_of_voices_survive_the_way_through_toml(tmp_path):
    names = 'voices.aliases={alloy = "ada", "a \\"b\\" = c" = "bob"}'
    config = load_config(overrides=[names, "voices.fallback=ada"], environment={})
    assert config.voices.aliases == {"alloy": "ada", 'a "b" = c': "bob"}
    path = tmp_path / "config.toml"
    path.write_text(to_toml(config), encoding="utf-8")
    assert load_config(path, environment={}) == config
