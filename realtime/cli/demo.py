"""`realtime demo`: a paragraph, written as a language model writes, through a private service."""

from pathlib import Path
from typing import Annotated

import typer

from realtime.cli.exits import exit_codes
from realtime.cli.options import ConfigFile, Overrides, resolve

PARAGRAPH = (
    "Good morning, and thank you for listening. This voice is made while the text is still being "
    "written, one short piece after another. The first words are spoken before the last ones "
    "exist, so nobody has to wait for the end. Numbers like 42 are read aloud as well. "
    "If you can hear this sentence, everything works."
)


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where the speech is written.")
    ] = Path("demo.wav"),
    text: Annotated[str, typer.Option(help="What to say.")] = PARAGRAPH,
    pieces_per_second: Annotated[
        float, typer.Option(min=0.1, help="Pace of the text, in pieces of about four characters.")
    ] = 20.0,
    file: ConfigFile = None,
    overrides: Overrides = None,
) -> None:
    """Start a service, speak a paragraph while it is being written, show the figures, stop.

    Exit code 0 means: audio came while the text was still arriving, the file is not silent, and no
    process is left.
    """
    with exit_codes():
        resolve(file, overrides)
        from realtime.cli.demonstration import run  # noqa: PLC0415 - slow to import

        run(output, text, 1.0 / pieces_per_second, file, overrides or [])
