"""The work of `realtime demo`, behind its options."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import soundfile
from rich.console import Console
from rich.table import Table

from realtime.audio.level import rms_dbfs
from realtime.cli.delivery import Report, speak_to_sinks
from realtime.cli.service_process import PrivateService, private_service
from realtime.cli.sinks import FileSink
from realtime.client import connect
from realtime.clock import MonotonicClock
from realtime.errors import EngineError
from realtime.wire import Metrics, Sampling

SILENCE_DBFS = -50.0
SEED = 1


class DemoFailedError(EngineError):
    """The demonstration did not show what it is there to show."""

    code = "demo_failed"
    is_retryable = False


def run(output: Path, text: str, pause_s: float, file: Path | None, overrides: list[str]) -> None:
    """Start a service, speak, stop it, show the figures.

    Args:
        output: Audio file to write.
        text: What to say.
        pause_s: Between two pieces of the text.
        file: Configuration file of the service.
        overrides: Its `--set` settings.

    Raises:
        SpeechError: Anything failed, or the result is not what the demonstration promises.
    """
    console = Console()
    script = _Script(output, text, pause_s, file, overrides)
    report = anyio.run(_demonstrate, console, script)
    console.print("service stopped, no process left")
    if report.first_audio_s is None or report.text_sent_s is None or report.done is None:
        raise DemoFailedError("no audio came")
    console.print(
        f"first audio {report.first_audio_s:.2f} s after the first piece of text; "
        f"the text was complete after {report.text_sent_s:.2f} s",
        soft_wrap=True,
    )
    console.print(_table(report.done.metrics))
    console.print(f"[bold]{output}[/bold]: {report.done.metrics.audio_s:.2f} s of speech")
    if report.done.reason == "guard":
        console.print(
            "a sentence that did not find its end was cut at its longest plausible length"
        )
    _check(report, output)


@dataclass(frozen=True, slots=True)
class _Script:
    output: Path
    text: str
    pause_s: float
    config_file: Path | None
    overrides: list[str]


async def _demonstrate(console: Console, script: _Script) -> Report:
    with console.status("starting the service") as status:
        async with private_service(script.config_file, script.overrides) as service:
            console.print(f"service ready after {service.ready_after_s:.1f} s at {service.url}")
            status.update("speaking")
            return await _speak(service, script)


async def _speak(service: PrivateService, script: _Script) -> Report:
    async with connect(service.url, credential=service.credential) as session:
        return await speak_to_sinks(
            session,
            written_slowly(script.text, script.pause_s),
            sampling=Sampling(seed=SEED),
            sinks=[partial(FileSink, script.output)],
            clock=MonotonicClock(),
        )


async def written_slowly(text: str, pause_s: float) -> AsyncIterator[str]:
    """Pieces of about four characters, as a language model's tokens, one every `pause_s`."""
    for piece in re.findall(r"\s*\S{1,5}|\s+$", text):
        yield piece
        await anyio.sleep(pause_s)


def _check(report: Report, output: Path) -> None:
    samples, _ = soundfile.read(output, dtype="int16")
    assert report.done is not None
    if report.done.reason not in ("end_of_speech", "guard"):
        raise DemoFailedError(f"the speech ended early: {report.done.reason}")
    if len(samples) != report.done.samples:
        raise DemoFailedError(f"{len(samples)} samples in the file, {report.done.samples} sent")
    if rms_dbfs(samples.tobytes()) < SILENCE_DBFS:
        raise DemoFailedError(f"{output} is silent")
    if (report.first_audio_s or 0.0) >= (report.text_sent_s or 0.0):
        raise DemoFailedError("no audio came while the text was still arriving")


def _table(metrics: Metrics) -> Table:
    """The figures a listener feels first, as the service measured them."""
    table = Table(title="this request, measured by the service", title_justify="left")
    table.add_column("metric")
    table.add_column("value", justify="right")
    table.add_column("meaning")
    for name, unit, meaning in _MEANINGS:
        value = getattr(metrics, name)
        shown = "-" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)
        table.add_row(name, f"{shown} {unit}".strip(), meaning)
    return table


_MEANINGS = (
    ("text_wait_s", "s", "waiting for enough text to begin"),
    ("queue_s", "s", "waiting for a free slot"),
    ("ttft_s", "s", "until the first speech token"),
    ("ttfb_s", "s", "from enough text to the first byte of audio"),
    ("audible_s", "s", "from enough text to the first audible sample"),
    ("first_sentence_s", "s", "until the first sentence was complete"),
    ("total_s", "s", "the whole request"),
    ("audio_s", "s", "speech made"),
    ("tokens", "", "speech tokens made"),
    ("tokens_per_s", "", "speech tokens a second while it had text to speak"),
    ("real_time_factor", "", "compute time per second of speech; below 1 keeps up"),
    ("underruns", "", "times a listener who starts at the first byte would hear a gap"),
    ("underrun_s", "s", "length of those gaps"),
    ("text_underruns", "", "such gaps because the text came too late"),
    ("text_underrun_s", "s", "length of those"),
)
