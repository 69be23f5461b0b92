"""`realtime engine`: the engine process, started by the gateway."""

from typing import Annotated

import typer

from realtime.cli.exits import exit_codes
from realtime.cli.options import ConfigFile, Overrides, resolve


def engine(
    link_fd: Annotated[
        int, typer.Option("--link-fd", min=0, help="Inherited socket to the gateway.")
    ],
    file: ConfigFile = None,
    overrides: Overrides = None,
) -> None:
    """Run the engine on a socket inherited from the gateway. Not meant to be called by hand."""
    with exit_codes():
        resolved = resolve(file, overrides)
        from realtime.engine.server import run_engine  # noqa: PLC0415 - imports torch

        status = run_engine(resolved, link_fd)
    raise typer.Exit(status)
