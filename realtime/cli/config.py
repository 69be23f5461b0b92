"""`realtime config`: what the service would run with."""

from typing import Annotated

import typer

from realtime.cli.exits import exit_codes, say
from realtime.cli.options import ConfigFile, Overrides, resolve
from realtime.config import to_toml


def config(
    file: ConfigFile = None,
    overrides: Overrides = None,
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether the configuration is valid.")
    ] = False,
) -> None:
    """Print the resolved configuration as TOML: defaults, file, environment and --set together."""
    with exit_codes():
        resolved = resolve(file, overrides)
        if check:
            say("the configuration is valid")
        else:
            typer.echo(to_toml(resolved), nl=False)
