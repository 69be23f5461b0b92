"""Names of voices, and the speeds that they speak at."""

import msgspec
import pytest

from realtime.config import VoicesConfig
from realtime.errors import ConfigError, UnknownVoiceError, UnsupportedSpeedError
from realtime.gateway.voices import VoiceRegistry, check_names
from realtime.messages import VoiceFacts
from tests.gateway.driver import READY

FACTS = {"language": "en-US", "licence": "Apache-2.0", "description": "A test's"}
VOICES = (
    VoiceFacts(id="heart", aliases=("default", "alloy"), gender="female", **FACTS),
    VoiceFacts(id="michael", aliases=("echo",), gender="male", sample="/m.wav", **FACTS),
)


def registry(speed_range=(0.7, 1.3), **config) -> VoiceRegistry:
    ready = msgspec.structs.replace(READY, voices=VOICES, speed_range=speed_range)
    return VoiceRegistry(ready, VoicesConfig(**config))


@pytest.mark.parametrize(
    ("name", "index"),
    [(None, 0), ("", 0), ("heart", 0), ("alloy", 0), ("michael", 1), ("echo", 1)],
)
def test_id_or_alias_finds_its_voice_and_no_name_the_first(name, index):
    assert registry().find(name) == index


def test_unknown_name_is_refused_with_the_names_there_are():
    with pytest.raises(UnknownVoiceError, match="heart, michael, default, alloy, echo"):
        registry().find("tara")


def test_fallback_answers_to_unknown_names_only():
    names = registry(fallback="michael")
    assert (names.find("tara"), names.find("heart")) == (1, 0)


def test_configuration_adds_names_and_moves_the_default():
    names = registry(aliases={"tara": "michael", "alloy": "michael"}, default="tara")
    assert names.find("tara") == names.find("alloy") == names.find(None) == 1


def test_an_alias_never_takes_the_place_of_an_id():
    assert registry(aliases={"heart": "michael"}).find("heart") == 0


@pytest.mark.parametrize("speed", [0.7, 1.0, 1.3])
def test_speed_within_the_range_is_taken(speed):
    assert registry().check_speed(speed) == speed


@pytest.mark.parametrize("speed", [0.69, 1.31, 0.0, -1.0])
def test_speed_outside_is_refused_with_the_range(speed):
    with pytest.raises(UnsupportedSpeedError, match=r"0\.7 to 1\.3"):
        registry().check_speed(speed)


def test_voices_without_speed_control_say_so():
    names = registry(speed_range=None)
    assert names.check_speed(1.0) == 1.0
    with pytest.raises(UnsupportedSpeedError, match="no speed control"):
        names.check_speed(1.1)


def test_the_list_has_every_name_once_and_says_who_is_the_default():
    listed = registry(aliases={"tara": "heart"}, default="echo").as_list()
    first, second = listed.voices
    assert first.aliases == ("tara", "default", "alloy")
    assert (first.is_default, second.is_default) == (False, True)
    assert (first.sample, second.sample) == (None, "/v1/voices/michael/sample")
    assert listed.speed_range == (0.7, 1.3)


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"aliases": {"tara": "nobody"}}, "voices.aliases.tara"),
        ({"default": "nobody"}, "voices.default"),
        ({"fallback": "nobody"}, "voices.fallback"),
    ],
)
def test_a_configuration_of_voices_that_are_not_there_is_refused(config, field):
    with pytest.raises(ConfigError, match=f"{field}: no voice `nobody`"):
        check_names(VOICES, VoicesConfig(**config))


def test_a_configuration_of_voices_that_are_there_is_taken():
    check_names(VOICES, VoicesConfig(default="alloy", fallback="heart", aliases={"leo": "michael"}))
