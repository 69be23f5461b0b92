"""`realtime quality`: how good the speech is, by other models' ears; a report and a gate."""

from pathlib import Path
from typing import Annotated

import typer

from realtime.cli.exits import UsageError, exit_codes, require_utf8
from realtime.cli.options import ConfigFile, Overrides, resolve

_JUDGES_PANEL = "Judges"
_SERVICE_PANEL = "Service"
_OUTPUT_PANEL = "Output"

app = typer.Typer(invoke_without_command=True, no_args_is_help=False)


@app.callback()
def quality(  # noqa: PLR0913 - a command's options
    context: typer.Context,
    *,
    text: Annotated[
        Path | None, typer.Option(help="Text file, a line an utterance; default: 150 that ship.")
    ] = None,
    lines: Annotated[int, typer.Option(min=0, help="Only the first lines; 0 takes all.")] = 0,
    voice: Annotated[list[str] | None, typer.Option(help="Voice; may be given many times.")] = None,
    seeds: Annotated[str, typer.Option(help="Every line is said once with each.")] = "0",
    speed: Annotated[float, typer.Option(min=0.1, help="1 is the voice's own pace.")] = 1.0,
    long: Annotated[
        Path | None, typer.Option(help="Text to say through one context as well.")
    ] = None,
    long_minutes: Annotated[
        float, typer.Option(min=0.0, help="The same with the lines joined to about this length.")
    ] = 0.0,
    teacher: Annotated[
        bool, typer.Option("--teacher", help="Judge the teacher's own speech too, as a yardstick.")
    ] = False,
    recogniser: Annotated[
        str,
        typer.Option(
            help="faster-whisper model: a folder, or a name.", rich_help_panel=_JUDGES_PANEL
        ),
    ] = "base",
    models: Annotated[
        Path | None,
        typer.Option(help="Folder with whisper-NAME folders.", rich_help_panel=_JUDGES_PANEL),
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option(
            help="Folder with recordings of the voices, VOICE.wav or VOICE/*.wav; default: the "
            "teacher speaks for the default voice.",
            rich_help_panel=_JUDGES_PANEL,
        ),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            help="Leave out words, opinion, speaker, loudness or length.",
            rich_help_panel=_JUDGES_PANEL,
        ),
    ] = None,
    threads: Annotated[
        int, typer.Option(min=1, help="Of the recogniser.", rich_help_panel=_JUDGES_PANEL)
    ] = 1,
    url: Annotated[
        str | None,
        typer.Option(
            help="A running service; default: a private one.", rich_help_panel=_SERVICE_PANEL
        ),
    ] = None,
    api_key: Annotated[
        str | None, typer.Option(help="Credential.", rich_help_panel=_SERVICE_PANEL)
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Voice folder for the private service.", rich_help_panel=_SERVICE_PANEL),
    ] = None,
    at_once: Annotated[
        int,
        typer.Option(min=1, help="Lines spoken at the same time.", rich_help_panel=_SERVICE_PANEL),
    ] = 4,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Folder of recordings, report.json and report.html.",
            rich_help_panel=_OUTPUT_PANEL,
        ),
    ] = Path("runs/quality"),
    as_json: Annotated[
        Path | None,
        typer.Option("--json", help="Write the report here too.", rich_help_panel=_OUTPUT_PANEL),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[VOICE:]FIGURE<=NUMBER",
            help="Fail where a figure is beyond this; may be given many times.",
            rich_help_panel=_OUTPUT_PANEL,
        ),
    ] = None,
    file: ConfigFile = None,
    overrides: Overrides = None,
) -> None:
    """Measure the speech of a service: word errors, opinion, speaker, faults, long texts.

    Exit codes: 0 measured, and every requirement is met; 1 one is not met, or the service failed;
    2 wrong use, or a package or model is missing; 3 no service answers; 130 interrupted.
    """
    if context.invoked_subcommand is not None:
        return
    with exit_codes():
        for name, value in {"--url": url, "--api-key": api_key}.items():
            require_utf8(name, value)
        settings = [*(overrides or []), *_checkpoint_settings(checkpoint)]
        resolve(file, settings)
        from realtime.cli.measuring import Request, measure  # noqa: PLC0415 - slow to import

        measure(
            Request(
                text=text,
                num_lines=lines,
                voices=tuple(voice or ()) or (None,),
                seeds=_numbers(seeds),
                speed=speed,
                long=long,
                long_minutes=long_minutes,
                with_teacher=teacher,
                recogniser=recogniser,
                models=models,
                reference=reference,
                without=tuple(without or ()),
                threads=threads,
                url=url,
                credential=api_key,
                at_once=at_once,
                output=output,
                json_file=as_json,
                requirements=tuple(require or ()),
                config_file=file,
                overrides=settings,
            )
        )


@app.command()
def compare(
    before: Annotated[Path, typer.Argument(help="Result folder of a measurement.")],
    after: Annotated[Path, typer.Argument(help="Result folder of another one.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Page for a blind comparison by ear.")
    ] = Path("compare.html"),
    pairs: Annotated[int, typer.Option(min=0, help="Lines on it; 0 writes no page.")] = 12,
    seed: Annotated[int, typer.Option(min=0, help="Of the lines' draw.")] = 0,
) -> None:
    """Compare two measurements of the same lines: paired bootstrap, and a blind page for the ear.

    Exit codes: 0 compared; 1 a recording is missing; 2 wrong use or no report.
    """
    with exit_codes():
        from realtime.cli.measuring import show_comparison  # noqa: PLC0415 - slow to import

        show_comparison(before, after, page=output if pairs else None, num_pairs=pairs, seed=seed)


def _numbers(text: str) -> tuple[int, ...]:
    """Whole numbers with commas between.

    Raises:
        UsageError: It is something else.
    """
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise UsageError(f"--seeds {text}: want numbers with commas between") from error
    if min(numbers) < 0:
        raise UsageError(f"--seeds {text}: a seed is at least 0")
    return numbers


def _checkpoint_settings(folder: Path | None) -> list[str]:
    """Settings under which a service loads one voice folder.

    Raises:
        UsageError: It is none.
    """
    if folder is None:
        return []
    if not (folder / "voice.json").is_file():
        raise UsageError(f"{folder} is no voice folder: it has no voice.json")
    place = folder.resolve()
    return [f"voice.directory={place.parent}", f"voice.default={place.name}"]
