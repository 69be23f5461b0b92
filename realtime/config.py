"""Every knob of the service: defaults < TOML file < environment (`SPEECH_SECTION__FIELD`) < `--set
section.field=value`.

Resolved once into a frozen `ServiceConfig`; nothing else in the project reads the environment.
"""

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta

from realtime.errors import ConfigError

ENV_PREFIX = "SPEECH_"
Positive = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1)]


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all sections: immutable, and a typo is an error."""


class GatewayConfig(_Section, frozen=True, kw_only=True):
    """The listening side.

    Attributes:
        host: Address to bind; the default accepts only this machine.
        port: TCP port; 0 takes a free one, which the log names.
        api_keys: Accepted credentials; empty accepts everyone who can reach the port.
        allowed_origins: Browser origins that may open a socket besides pages served from this host
            itself.
        max_sessions: Open sockets at once.
        max_contexts: Open contexts per session at most.
        max_message_bytes: Largest client message.
        max_text_chars: Longest text of one context.
        hello_timeout_s: Time to send `hello`.
        text_timeout_s: How long a context may stay open without new text, flush or end while it has
            nothing to speak.
        max_unsent_bytes: Audio held for one context whose socket does not take it; more than
            `engine.max_unheard_s` of audio, which keeps the engine from getting there.
        slow_reader_timeout_s: How long a connection may refuse data before it is closed.
        ping_interval_s: Keep-alive period of the WebSocket itself.
        drain_timeout_s: After SIGTERM, how long open contexts may finish.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8765
    api_keys: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    max_sessions: Count = 1024
    max_contexts: Count = 16
    max_message_bytes: Annotated[int, Meta(ge=1024)] = 256 * 1024
    max_text_chars: Count = 100_000
    hello_timeout_s: Positive = 5.0
    text_timeout_s: Positive = 120.0
    max_unsent_bytes: Annotated[int, Meta(ge=4096)] = 1024 * 1024
    slow_reader_timeout_s: Positive = 20.0
    ping_interval_s: Positive = 20.0
    drain_timeout_s: Annotated[float, Meta(ge=0)] = 10.0


class TextConfig(_Section, frozen=True, kw_only=True):
    """The text front end.

    Attributes:
        first_min_chars: The first segment is released at the first clause or word boundary past
            this many characters.
        max_segment_chars: Longer sentences are cut at a clause, else at a word.
        workers: Threads that normalise and phonemise.
    """

    first_min_chars: Annotated[int, Meta(ge=1, le=1000)] = 40
    max_segment_chars: Annotated[int, Meta(ge=40, le=2000)] = 240
    workers: Annotated[int, Meta(ge=1, le=64)] = 1


class EngineConfig(_Section, frozen=True, kw_only=True):
    """The generation loop.

    Attributes:
        device: `auto` takes CUDA where present.
        dtype: `auto` is float32 on the CPU and bfloat16 on CUDA.
        threads: Torch threads of the loop; one, because a second one on a busy core costs more than
            it brings.
        kv_dtype: Of cached keys and values. `auto` is float16 on the CPU, where reading them bounds
            the number of streams (arithmetic stays float32), and `dtype` on CUDA.
        compile: `auto` uses the compiled CPU path where a C++ compiler is at hand, `required` fails
            without, `off` never.
        max_streams: Sequences that generate at once.
        max_waiting: Requests that may wait for their start; beyond it a request is refused.
        max_wait_s: A request whose place will not be free within this time is refused at once.
        headroom_ratio: Share of the time that admission keeps free for prompts, starts and other
            people's load.
        urgent_s: A stream whose listener holds less speech than this comes first.
        comfort_s: A stream whose listener holds more than this stands back for urgent ones.
        low_water_s: A parked stream goes on once its listener holds no more than this.
        high_water_s: A stream whose listener holds more than this is parked.
        block_size: Tokens per KV block, a multiple of 8 (the kernels' vector width).
        kv_memory_mib: Memory for keys and values; 0 sizes it for `max_streams` sequences of the
            trained length, or what is free where that is less.
        kv_memory_margin_ratio: Share of the free memory that such a sizing leaves.
        prefix_cache: Keep computed blocks findable, so that equal beginnings, restarts and
            preempted streams are not computed again.
        prefix_cache_ratio: Share of the blocks that stay findable without a holder even where
            giving them up would spare untouched memory. On the CPU memory is used as blocks are,
            so this is what the cache costs; on a GPU, which reserves everything, 1 costs nothing.
        max_step_tokens: Tokens per step, prefill and decode together. Every stream waits while a
            step runs: on one core 64 rows take about 25 ms, a whole prompt at once would be heard
            as a gap by the others. A GPU bears 512 and more.
        max_unheard_s: A stream this many seconds of audio ahead of what its socket accepted is held
            back.
        max_request_s: Longest audio of one request; beyond it the request ends with `length`.
        max_repetition_s: Speech that repeats itself exactly for this long is mended once in a
            segment; the second time the segment ends, and the request's reason is `guard`.
        max_silence_s: Likewise a pause of this length within a segment; the shipped voice's longest
            one at punctuation is 0.85 s.
        codec_thread: Decode audio on a second thread behind a bounded queue.
        step_deadline_s: A step longer than this is a hang: the engine ends itself and is restarted.
        start_timeout_s: Time for the engine to become ready.
        restart_backoff_s: Pause before a restart after a failed start.
    """

    device: Literal["auto", "cpu", "cuda"] = "auto"
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    kv_dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    threads: Annotated[int, Meta(ge=1, le=256)] = 1
    compile: Literal["auto", "off", "required"] = "auto"
    max_streams: Annotated[int, Meta(ge=1, le=4096)] = 32
    max_waiting: Annotated[int, Meta(ge=0)] = 256
    max_wait_s: Positive = 0.1
    headroom_ratio: Annotated[float, Meta(ge=0, lt=1)] = 0.1
    urgent_s: Positive = 0.25
    comfort_s: Positive = 0.6
    low_water_s: Positive = 1.0
    high_water_s: Positive = 2.0
    block_size: Annotated[int, Meta(ge=8, le=1024, multiple_of=8)] = 32
    kv_memory_mib: Annotated[int, Meta(ge=0)] = 0
    kv_memory_margin_ratio: Annotated[float, Meta(ge=0, lt=1)] = 0.1
    prefix_cache: bool = True
    prefix_cache_ratio: Annotated[float, Meta(ge=0, le=1)] = 0.05
    max_step_tokens: Annotated[int, Meta(ge=16)] = 64
    max_unheard_s: Positive = 20.0
    max_request_s: Positive = 1800.0
    max_repetition_s: Positive = 1.2
    max_silence_s: Positive = 1.5
    codec_thread: bool = True
    step_deadline_s: Positive = 5.0
    start_timeout_s: Positive = 120.0
    restart_backoff_s: Positive = 1.0

    def __post_init__(self) -> None:
        if self.max_step_tokens < self.max_streams:
            raise ValueError(
                f"max_step_tokens {self.max_step_tokens} is below max_streams {self.max_streams}: "
                "every stream needs a token a step"
            )
        marks = (self.urgent_s, self.comfort_s, self.low_water_s, self.high_water_s)
        if list(marks) != sorted(marks) or self.low_water_s == self.high_water_s:
            raise ValueError(
                f"want urgent_s <= comfort_s <= low_water_s < high_water_s, not {marks}"
            )


class VoiceConfig(_Section, frozen=True, kw_only=True):
    """Which voice folder is loaded; it holds the weights of one or more voices.

    Attributes:
        directory: Folder with one sub-folder a set of voices; empty takes what ships.
        default: The sub-folder.
    """

    directory: str = ""
    default: str = "default"


class VoicesConfig(_Section, frozen=True, kw_only=True):
    """What callers may call the voices of the loaded folder.

    Attributes:
        default: Voice of a session that names none; empty takes the folder's first.
        fallback: Voice that answers to every unknown name; `error` refuses such names.
        aliases: Further names, each with the voice that it stands for; they go before the folder's
            own aliases.
    """

    default: str = ""
    fallback: str = "error"
    aliases: dict[str, str] = {}


class TelemetryConfig(_Section, frozen=True, kw_only=True):
    """Logs and metrics.

    Attributes:
        level: Least severe event that is logged.
        format: `console` for people, `json` for machines, `auto` by whether standard error is a
            terminal.
        audible_dbfs: Level at which a sample counts as audible, in dB relative to full scale.
    """

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "console", "json"] = "auto"
    audible_dbfs: Annotated[float, Meta(le=0)] = -45.0


class ServiceConfig(_Section, frozen=True, kw_only=True):
    """All sections."""

    gateway: GatewayConfig = GatewayConfig()
    text: TextConfig = TextConfig()
    engine: EngineConfig = EngineConfig()
    voice: VoiceConfig = VoiceConfig()
    voices: VoicesConfig = VoicesConfig()
    telemetry: TelemetryConfig = TelemetryConfig()


def load_config(
    path: Path | None = None,
    *,
    overrides: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> ServiceConfig:
    """Resolve the configuration.

    Args:
        path: TOML file with one table a section; `None` reads no file.
        overrides: `section.field=value` strings, strongest; the value is TOML, or a plain string
            where it is not valid TOML.
        environment: Where `SPEECH_SECTION__FIELD` is looked up; `None` is the process's own.

    Raises:
        ConfigError: Naming the file, variable or override and the field.
    """
    tree: dict[str, Any] = {}
    if path is not None:
        try:
            tree = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"{path}: {error}") from error
    variables = os.environ if environment is None else environment
    for name, value in sorted(variables.items()):
        if name.startswith(ENV_PREFIX) and "__" in name:
            section, field = name.removeprefix(ENV_PREFIX).lower().split("__", 1)
            _assign(tree, section, field, value, source=name)
    for override in overrides:
        key, equals, value = override.partition("=")
        section, dot, field = key.strip().partition(".")
        if not equals or not dot:
            raise ConfigError(f"--set {override}: want section.field=value")
        _assign(tree, section, field, value.strip(), source=f"--set {override}")
    try:
        return msgspec.convert(tree, ServiceConfig)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{error}{f' (file {path})' if path else ''}") from error


def _assign(tree: dict[str, Any], section: str, field: str, text: str, *, source: str) -> None:
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text  # a bare word, such as a host name
    table = tree.setdefault(section, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{source}: `{section}` is not a section")
    cast(dict[str, Any], table)[field] = value


def to_toml(config: ServiceConfig) -> str:
    """The resolved configuration as a TOML file that `load_config` reads back to an equal value."""
    lines: list[str] = []
    for section, table in msgspec.to_builtins(config).items():
        lines.append(f"[{section}]")
        lines += [f"{field} = {_toml_value(value)}" for field, value in table.items()]
        lines.append("")
    return "\n".join(lines)


def _toml_value(value: Any) -> str:
    """JSON is TOML but for tables."""
    if isinstance(value, dict):
        pairs = cast(dict[str, Any], value).items()
        return "{" + ", ".join(f"{_toml_value(key)} = {_toml_value(v)}" for key, v in pairs) + "}"
    return msgspec.json.encode(value).decode()


def child_environment() -> dict[str, str]:
    """The environment for a child that is handed the resolved configuration.

    It is ours without the variables that went into that configuration.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if not (name.startswith(ENV_PREFIX) and "__" in name)
    }


def user_cache_dir() -> Path:
    """Where compiled kernels are kept between starts: XDG_CACHE_HOME, else ~/.cache, with a
    sub-folder of our own.
    """
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "realtime-speech"


def compiler_command() -> str | None:
    """The C++ compiler the user asked for with CXX; `None` lets the kernels look for one."""
    return os.environ.get("CXX") or None
