"""The work of `realtime speak`, behind its options."""

import json
import sys
from collections.abc import AsyncIterable
from contextlib import AsyncExitStack, nullcontext
from functools import partial
from pathlib import Path

import anyio
import typer

from realtime.cli.delivery import Report, SinkMaker, speak_to_sinks
from realtime.cli.exits import NoServiceError, UsageError, is_terminal, say
from realtime.cli.progress import progress_for
from realtime.cli.service_process import private_service
from realtime.cli.sinks import (
    STANDARD_OUTPUT,
    FileSink,
    SpeakerSink,
    load_sounddevice,
    standard_output,
)
from realtime.cli.speak import SpeakRequest
from realtime.cli.standard_input import growing_text, standard_input
from realtime.client import ServiceUnreachableError, Session, connect
from realtime.clock import MonotonicClock

DEFAULT_FILE = Path("speech.wav")


def run(request: SpeakRequest) -> None:
    """Speak, and say what was done.

    Raises:
        UsageError: The request contradicts itself, or its output is not possible.
        SpeechError: Speaking failed.
    """
    if request.as_json:
        standard_output()
    sinks, name = _sinks(request)
    report = anyio.run(_speak, request, sinks)
    if request.as_json:
        typer.echo(json.dumps(report.as_json() | {"output": name}))
    elif not request.is_quiet:
        say(_closing_line(report, name))


def _sinks(request: SpeakRequest) -> tuple[list[SinkMaker], str | None]:
    """Makers of the sinks, and the name of the file among them."""
    wants_sound, output = request.play, request.output
    if output is None and not request.play and not request.as_json:
        wants_sound = not isinstance(load_sounddevice(), str)
        output = None if wants_sound else DEFAULT_FILE
    if output == STANDARD_OUTPUT and request.as_json:
        raise UsageError("--json and --output - both want standard output")
    makers: list[SinkMaker] = [SpeakerSink] if wants_sound else []
    makers += [] if output is None else [partial(FileSink, output)]
    return makers, None if output is None else str(output)


async def _speak(request: SpeakRequest, sinks: list[SinkMaker]) -> Report:
    text: str | AsyncIterable[str] = request.text or growing_text(standard_input())
    progress = progress_for(request.text, is_quiet=request.is_quiet)
    async with AsyncExitStack() as stack:
        session = await _session(request, stack)
        with progress or nullcontext():
            return await speak_to_sinks(
                session,
                text,
                sampling=request.sampling,
                sinks=sinks,
                clock=MonotonicClock(),
                watcher=progress,
            )


async def _session(request: SpeakRequest, stack: AsyncExitStack) -> Session:
    url, credential = request.url, request.credential
    if request.serve:
        if is_terminal(sys.stderr) and not request.is_quiet:
            say("starting a private service ...")
        service = private_service(request.config_file, request.overrides)
        running = await stack.enter_async_context(service)
        url, credential = running.url, running.credential
    try:
        opening = connect(url, credential=credential, voice=request.voice, speed=request.speed)
        return await stack.enter_async_context(opening)
    except ServiceUnreachableError as error:
        raise NoServiceError(
            f"{error}\nStart one with `realtime serve`, or add --serve to start one for this "
            "call alone."
        ) from error


def _closing_line(report: Report, name: str | None) -> str:
    done = report.done
    parts = [f"{done.samples / report.sample_rate_hz if done else 0.0:.2f} s of audio"]
    if report.first_audio_s is not None:
        parts.append(f"first audio after {report.first_audio_s:.2f} s")
    if done and done.metrics.real_time_factor is not None:
        parts.append(f"real-time factor {done.metrics.real_time_factor:.2f}")
    if done and done.reason != "end_of_speech":
        parts.append(f"ended early: {done.reason}")
    if done and done.warning == "nothing_speakable":
        parts.append("nothing in this text can be read aloud")
    elif done and done.warning:
        parts.append(f"{done.unspoken_letters} letters of scripts the voice does not know left out")
    return f"{name + ': ' if name else ''}{', '.join(parts)}"
