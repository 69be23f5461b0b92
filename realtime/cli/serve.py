"""`realtime serve`: run the service in the foreground."""

from typing import Annotated

import typer

from realtime.cli.exits import exit_codes
from realtime.cli.options import ConfigFile, Overrides, resolve


def serve(
    file: ConfigFile = None,
    overrides: Overrides = None,
    host: Annotated[str | None, typer.Option(help="Short for --set gateway.host=...")] = None,
    port: Annotated[int | None, typer.Option(help="Short for --set gateway.port=...")] = None,
) -> None:
    """Run the service until interrupted. Callers connect to ws://HOST:PORT/v1/stream."""
    with exit_codes():
        changes = [*(overrides or [])]
        changes += [f"gateway.host={host}"] if host is not None else []
        changes += [f"gateway.port={port}"] if port is not None else []
        resolved = resolve(file, changes)
        import anyio  # noqa: PLC0415 - keeps `--help` fast

        from realtime.gateway.app import serve as serve_until_stopped  # noqa: PLC0415

        anyio.run(serve_until_stopped, resolved)
