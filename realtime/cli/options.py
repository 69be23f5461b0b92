"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from realtime.cli.exits import require_utf8
from realtime.config import ServiceConfig, load_config

ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="TOML file with the configuration.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="SECTION.FIELD=VALUE",
        help="Override one setting; may be given many times.",
    ),
]


def resolve(path: Path | None, overrides: list[str] | None) -> ServiceConfig:
    """The configuration from file, environment and `--set`.

    Raises:
        ConfigError: Naming the field.
        UsageError: A setting is not UTF-8.
    """
    for override in overrides or ():
        require_utf8("--set", override)
    return load_config(path, overrides=overrides or ())


def service_url(config: ServiceConfig) -> str:
    """Where a service with this configuration is reached from this machine."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(
        config.gateway.host, config.gateway.host
    )
    return (
        f"ws://[{host}]:{config.gateway.port}"
        if ":" in host
        else f"ws://{host}:{config.gateway.port}"
    )
