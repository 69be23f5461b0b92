"""The commands, put together."""

from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from realtime.cli import config, demo, engine, quality, serve, speak


def build_app() -> typer.Typer:
    """The whole command line."""
    app = typer.Typer(
        name="realtime",
        help="Streaming text-to-speech: text in piece by piece, gap-free audio out.",
        no_args_is_help=True,
        pretty_exceptions_show_locals=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    app.command("serve")(serve.serve)
    app.command("speak")(speak.speak)
    app.command("config")(config.config)
    app.command("demo")(demo.demo)
    app.add_typer(quality.app, name="quality")
    app.command("engine", hidden=True)(engine.engine)
    return app


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        try:
            number = version("realtime-speech")
        except PackageNotFoundError:
            number = "not installed"
        typer.echo(f"realtime-speech {number}")
        raise typer.Exit


def _root(
    *,
    show_version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", is_eager=True, callback=_show_version),
    ] = False,
) -> None:
    pass
