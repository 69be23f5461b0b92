"""What callers may call the engine's voices, and how fast these may speak. Pure.

A voice is data: the loaded folder says its name, aliases, language and licence, the configuration
adds names, a default and a fallback.
"""

from collections.abc import Sequence

from realtime import wire
from realtime.config import VoicesConfig
from realtime.errors import ConfigError, UnknownVoiceError, UnsupportedSpeedError
from realtime.messages import EngineReady, VoiceFacts

VOICES_PATH = "/v1/voices"
REFUSE = "error"


class VoiceRegistry:
    """The names of an engine's voices.

    Args:
        ready: What the engine said of itself.
        config: What the configuration adds. An alias for a voice that is not there is no name.
    """

    def __init__(self, ready: EngineReady, config: VoicesConfig) -> None:
        self._voices = ready.voices
        self._speed_range = ready.speed_range
        self._indices = _indices_of_names(ready.voices, config.aliases)
        self._default = self._indices.get(config.default, 0)
        has_fallback = config.fallback != REFUSE
        self._fallback = self._indices.get(config.fallback) if has_fallback else None

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that a request may use: ids first, then aliases."""
        return tuple(self._indices)

    def find(self, name: str | None) -> int:
        """Place of the voice of this name; `None` and the empty name ask for the default.

        Raises:
            UnknownVoiceError: There is none and no fallback; the message names those there are.
        """
        if not name:
            return self._default
        index = self._indices.get(name, self._fallback)
        if index is None:
            raise UnknownVoiceError(f"no voice {name!r}; there are {', '.join(self.names)}")
        return index

    def check_speed(self, speed: float) -> float:
        """`speed`, where the voices speak at it.

        Raises:
            UnsupportedSpeedError: They do not.
        """
        if self._speed_range is None:
            if speed != 1.0:
                raise UnsupportedSpeedError(
                    f"speed {speed:g}: this service's voices have no speed control"
                )
            return speed
        slowest, fastest = self._speed_range
        if not slowest <= speed <= fastest:
            raise UnsupportedSpeedError(f"speed {speed:g} is not from {slowest:g} to {fastest:g}")
        return speed

    def as_list(self) -> wire.VoiceList:
        """The voices as `GET /v1/voices` shows them."""
        return wire.VoiceList(
            voices=tuple(self._entry(index) for index in range(len(self._voices))),
            speed_range=self._speed_range,
        )

    def _entry(self, index: int) -> wire.Voice:
        facts = self._voices[index]
        aliases = (name for name, place in self._indices.items() if place == index)
        return wire.Voice(
            id=facts.id,
            aliases=tuple(name for name in aliases if name != facts.id),
            language=facts.language,
            licence=facts.licence,
            description=facts.description,
            gender=facts.gender,
            sample=f"{VOICES_PATH}/{facts.id}/sample" if facts.sample else None,
            is_default=index == self._default,
        )


def check_names(voices: Sequence[VoiceFacts], config: VoicesConfig) -> None:
    """Refuse a configuration that speaks of voices that are not there.

    Raises:
        ConfigError: Naming the field.
    """
    known = _indices_of_names(voices, config.aliases)
    ids = [voice.id for voice in voices]
    wanted = {f"voices.aliases.{name}": target for name, target in config.aliases.items()}
    there_are = f"there are {', '.join(ids)}"
    for field, name in wanted.items():
        if name not in ids:
            raise ConfigError(f"{field}: no voice `{name}`; {there_are}")
    if config.default and config.default not in known:
        raise ConfigError(f"voices.default: no voice `{config.default}`; {there_are}")
    if config.fallback != REFUSE and config.fallback not in known:
        raise ConfigError(
            f"voices.fallback: no voice `{config.fallback}`; want `{REFUSE}` or one of these: "
            f"{', '.join(ids)}"
        )


def _indices_of_names(voices: Sequence[VoiceFacts], further: dict[str, str]) -> dict[str, int]:
    """Place by name; an id goes before an alias, a configured alias before a folder's."""
    indices = {voice.id: index for index, voice in enumerate(voices)}
    for name, target in further.items():
        if target in indices:
            indices.setdefault(name, indices[target])
    for index, voice in enumerate(voices):
        for name in voice.aliases:
            indices.setdefault(name, index)
    return indices
