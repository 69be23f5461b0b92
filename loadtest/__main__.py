"""`python -m loadtest`: many callers against a running service."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import anyio
import typer
from rich.console import Console

from loadtest.caller import run_callers
from loadtest.recorder import Recorder
from loadtest.report import show, summarise
from loadtest.scenario import Scenario, read_sentences
from realtime.client import DEFAULT_URL
from realtime.clock import MonotonicClock
from realtime.quality.texts import SENTENCES


def main(  # noqa: PLR0913 - a command's options
    *,
    streams: Annotated[int, typer.Option(min=1, help="Callers at once.")] = 8,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long they go on.")] = 120.0,
    url: Annotated[str, typer.Option(help="Service address.")] = DEFAULT_URL,
    api_key: Annotated[str | None, typer.Option(help="Credential.")] = None,
    sentences: Annotated[Path, typer.Option(help="Text file, one sentence a line.")] = SENTENCES,
    per_utterance: Annotated[int, typer.Option(min=1, help="Sentences in one utterance.")] = 3,
    listen: Annotated[
        bool, typer.Option("--listen", help="Wait until everything was heard before speaking on.")
    ] = False,
    pieces_per_second: Annotated[
        float | None, typer.Option(min=0.1, help="Send the text in small pieces at this pace.")
    ] = None,
    ramp: Annotated[float, typer.Option(min=0.0, help="Seconds over which callers start.")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the order of sentences.")] = 1,
    output: Annotated[
        Path | None, typer.Option("--json", help="File for the figures and the raw rows.")
    ] = None,
) -> None:
    """Load a running service and report what its listeners would hear.

    Exit code 0: every stream was free of gaps and errors. 1: not.
    """
    scenario = Scenario(
        url=url,
        credential=api_key,
        num_streams=streams,
        duration_s=seconds,
        ramp_s=ramp,
        sentences=read_sentences(sentences),
        sentences_per_utterance=per_utterance,
        listens=listen,
        pieces_per_second=pieces_per_second,
        seed=seed,
    )
    recorder = Recorder()
    wall_s = anyio.run(run_callers, scenario, recorder, MonotonicClock())
    summary = summarise(recorder.rows, num_streams=streams, wall_s=wall_s)
    show(summary, scenario, Console())
    if output is not None:
        facts = {"scenario": asdict(scenario) | {"credential": None}, "summary": asdict(summary)}
        output.write_text(json.dumps(facts | {"rows": recorder.as_plain()}), encoding="utf-8")
    if summary.num_gap_free_streams < streams:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
