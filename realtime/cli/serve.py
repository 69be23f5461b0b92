"""`realtime serve`: run the service in the foreground."""

from typing import TYPE_CHECKING, Annotated

import typer

from realtime.cli.exits import exit_codes
from realtime.cli.options import ConfigFile, Overrides, resolve
from realtime.errors import ConfigError

if TYPE_CHECKING:
    from realtime.config import ServiceConfig


def serve(
    file: ConfigFile = None,
    overrides: Overrides = None,
    host: Annotated[str | None, typer.Option(help="Short for --set gateway.host=...")] = None,
    port: Annotated[int | None, typer.Option(help="Short for --set gateway.port=...")] = None,
) -> None:
    """Run the service until interrupted. Callers connect to ws://HOST:PORT/v1/stream.

    Exit codes: 0 stopped by SIGINT or SIGTERM; 1 the engine could not be started; 2 wrong use or
    configuration, such as a port in use.
    """
    with exit_codes():
        changes = [*(overrides or [])]
        changes += [f"gateway.host={host}"] if host is not None else []
        changes += [f"gateway.port={port}"] if port is not None else []
        resolved = resolve(file, changes)
        _require_voice(resolved)
        import anyio  # noqa: PLC0415 - keeps `--help` fast

        from realtime.gateway.app import serve as serve_until_stopped  # noqa: PLC0415

        anyio.run(serve_until_stopped, resolved)


def _require_voice(config: "ServiceConfig") -> None:
    """Refuse a voice that is not there now, rather than start an engine that fails to load it.

    Raises:
        ConfigError: Naming the field.
    """
    import msgspec  # noqa: PLC0415 - keeps `--help` fast

    from models.spec import read_voice_spec  # noqa: PLC0415
    from realtime.engine.voice import voice_facts, voice_folder  # noqa: PLC0415
    from realtime.gateway.voices import check_names  # noqa: PLC0415

    folder = voice_folder(config.voice)
    if (folder / "voice.json").is_file():
        try:
            spec = read_voice_spec(folder)
        except msgspec.DecodeError as error:
            raise ConfigError(f"{folder / 'voice.json'}: {error}") from error
        check_names(voice_facts(spec, folder), config.voices)
        return
    if not folder.parent.is_dir():
        raise ConfigError(f"voice.directory: there is no folder {folder.parent}")
    names = sorted(path.parent.name for path in folder.parent.glob("*/voice.json"))
    raise ConfigError(
        f"voice.default: no voice `{config.voice.default}` in {folder.parent}; "
        f"there are: {', '.join(names) or 'none'}"
    )
