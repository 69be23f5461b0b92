"""`realtime speak`: a text, or standard input while it grows, spoken by a running service."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from realtime.cli.exits import UsageError, exit_codes, is_terminal, require_utf8, ungrouped
from realtime.cli.options import ConfigFile, Overrides, resolve, service_url
from realtime.errors import SpeechError

if TYPE_CHECKING:
    from realtime.wire import Sampling

_VOICE_PANEL = "Voice"
_SERVICE_PANEL = "Service"


@dataclass(frozen=True, slots=True)
class SpeakRequest:
    """Everything the command was asked for."""

    text: str | None
    output: Path | None
    as_json: bool
    play: bool
    is_quiet: bool
    url: str
    credential: str | None
    voice: str | None
    speed: float | None
    sampling: "Sampling"
    serve: bool
    config_file: Path | None
    overrides: list[str]


def speak(  # noqa: PLR0913 - a command's options
    text: Annotated[
        list[str] | None, typer.Argument(help="What to say; `-` reads standard input as it grows.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Audio file: .wav, .flac, .ogg; `-` is WAV to stdout."),
    ] = None,
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object with the request's metrics.")
    ] = False,
    play: Annotated[bool, typer.Option("--play", help="Play through the sound device.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress, no closing line.")
    ] = False,
    voice: Annotated[
        str | None,
        typer.Option(help="Voice name; GET /v1/voices lists them.", rich_help_panel=_VOICE_PANEL),
    ] = None,
    speed: Annotated[
        float | None,
        typer.Option(
            help="Pace; 1 is the voice's own. Voices with speed control take 0.7 to 1.3.",
            rich_help_panel=_VOICE_PANEL,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Same seed, same speech.", rich_help_panel=_VOICE_PANEL),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=2.0,
            help="Softness of the choice of sounds; 0 is greedy.",
            rich_help_panel=_VOICE_PANEL,
        ),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Choose among the k likeliest sounds; 0 takes all.",
            rich_help_panel=_VOICE_PANEL,
        ),
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            max=1.0,
            help="Choose among the likeliest sounds with this probability in all.",
            rich_help_panel=_VOICE_PANEL,
        ),
    ] = None,
    min_p: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            help="Leave out sounds less likely than this share of the likeliest.",
            rich_help_panel=_VOICE_PANEL,
        ),
    ] = None,
    repetition_penalty: Annotated[
        float | None,
        typer.Option(
            min=1.0,
            max=2.0,
            help="Makes recent sounds less likely; 1 is off.",
            rich_help_panel=_VOICE_PANEL,
        ),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            help="Service address; default: host and port of the configuration.",
            rich_help_panel=_SERVICE_PANEL,
        ),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(
            help="Credential; default: the configuration's first key.",
            rich_help_panel=_SERVICE_PANEL,
        ),
    ] = None,
    serve: Annotated[
        bool,
        typer.Option(
            "--serve",
            help="Start a private service for this call (takes some seconds).",
            rich_help_panel=_SERVICE_PANEL,
        ),
    ] = False,
    file: ConfigFile = None,
    overrides: Overrides = None,
) -> None:
    """Speak a text.

    With neither --output, --play nor --json: plays where a sound device exists, else writes
    speech.wav. `some-llm | realtime speak -` speaks while the text is still being written.

    Exit codes: 0 done; 1 the service failed; 2 wrong use, or a request that can never work; 3 no
    service answers; 4 no room now; 130 interrupted; 141 the reader of standard output is gone.
    """
    with exit_codes(), _error_as_json(as_json):
        from realtime.wire import Sampling  # noqa: PLC0415 - keeps `--help` fast

        arguments = {"--url": url, "--api-key": api_key, "--voice": voice}
        for name, value in arguments.items():
            require_utf8(name, value)
        config = resolve(file, overrides)
        request = SpeakRequest(
            text=_spoken_text(text),
            output=output,
            as_json=as_json,
            play=play,
            is_quiet=quiet,
            url=url or service_url(config),
            credential=api_key or next(iter(config.gateway.api_keys), None),
            voice=voice,
            speed=speed,
            sampling=Sampling(
                seed=seed,
                temperature=temperature,
                top_k=top_k,
                top_p=top_p,
                min_p=min_p,
                repetition_penalty=repetition_penalty,
            ),
            serve=serve,
            config_file=file,
            overrides=overrides or [],
        )
        from realtime.cli.speaking import run  # noqa: PLC0415 - slow to import

        run(request)


def _spoken_text(words: list[str] | None) -> str | None:
    """The text of the arguments; `None` stands for standard input."""
    if words == ["-"] or (not words and not is_terminal(sys.stdin)):
        return None
    text = " ".join(words or [])
    if not text.strip():
        raise UsageError("nothing to say: give a text, or `-` to read standard input")
    require_utf8("the text", text)
    return text


@contextmanager
def _error_as_json(is_wanted: bool) -> Iterator[None]:
    """With `--json`, an error is one JSON object on standard output too."""
    if not is_wanted:
        yield
        return
    try:
        with ungrouped():
            yield
    except SpeechError as error:
        _print_error(error.code, error.message, error.is_retryable, error.retry_after_s)
        raise
    except BrokenPipeError:
        raise  # nobody reads it
    except OSError as error:
        _print_error("file_error", str(error), False, None)
        raise


def _print_error(code: str, message: str, is_retryable: bool, retry_after_s: float | None) -> None:
    facts = {
        "code": code,
        "message": message,
        "retryable": is_retryable,
        "retry_after_s": retry_after_s,
    }
    typer.echo(json.dumps({"error": facts}))
