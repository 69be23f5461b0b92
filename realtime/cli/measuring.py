"""The work of `realtime quality`, behind its options."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import msgspec
import typer
from rich.console import Console
from rich.progress import Progress

from realtime.cli.exits import FAILED, UsageError
from realtime.cli.service_process import private_service
from realtime.quality import listeners
from realtime.quality.blind_page import blind_page
from realtime.quality.comparison import compare_reports
from realtime.quality.listeners import Listeners, load_listeners
from realtime.quality.long_text import text_of_minutes
from realtime.quality.measurement import Plan, Recordings, judge, record
from realtime.quality.packages import MissingPackageError
from realtime.quality.page import page_of
from realtime.quality.plots import plots_of
from realtime.quality.requirements import parse
from realtime.quality.results import REPORT_FILE, Report, read_report, write_report
from realtime.quality.tables import show_differences, show_report
from realtime.quality.texts import SENTENCES, read_lines, read_text

PAGE_FILE = "report.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Everything the command was asked for."""

    text: Path | None
    num_lines: int
    voices: tuple[str | None, ...]
    seeds: tuple[int, ...]
    speed: float
    long: Path | None
    long_minutes: float
    with_teacher: bool
    recogniser: str
    models: Path | None
    reference: Path | None
    without: tuple[str, ...]
    threads: int
    url: str | None
    credential: str | None
    at_once: int
    output: Path
    json_file: Path | None
    requirements: tuple[str, ...]
    config_file: Path | None
    overrides: list[str]


def measure(request: Request) -> None:
    """Speak, listen, report.

    Raises:
        SpeechError: It cannot be measured.
        OSError: A file cannot be read or written.
        typer.Exit: A requirement is not met.
    """
    console = Console()
    requirements = [parse(text) for text in request.requirements]
    plan = _plan(request)
    _check(request)
    with console.status("loading the judges"):
        who = load_listeners(
            recogniser=request.recogniser,
            models=request.models,
            threads=request.threads,
            reference_folder=request.reference,
            without=request.without,
            required=[requirement.name for requirement in requirements],
        )
    recordings = _record(request, plan, console)
    with _steps(console, "listening", _num_recordings(plan, who)) as advance:
        report = judge(recordings, plan, who, requirements, advance)
    report = _publish(report, request)
    show_report(report, console)
    console.print(f"{request.output / PAGE_FILE}", soft_wrap=True, markup=False)
    if not all(verdict.is_met for verdict in report.verdicts):
        raise typer.Exit(FAILED)


def show_comparison(
    before: Path, after: Path, *, page: Path | None, num_pairs: int, seed: int
) -> None:
    """Print the differences of two measurements and write the page for the ear.

    Args:
        before: Result folder.
        after: The other.
        page: Where the page goes; `None` writes none.
        num_pairs: Lines on it.
        seed: Of their draw.

    Raises:
        SpeechError: There is no report, or no line in common.
        OSError: The page cannot be written.
    """
    console = Console()
    reports = read_report(before), read_report(after)
    differences = compare_reports(*reports)
    if not any(differences.values()):
        raise UsageError("the two reports have no voice and line in common")
    show_differences(differences, console)
    if page is not None:
        pairs = ((reports[0], before), (reports[1], after))
        page.write_text(blind_page(*pairs, num_pairs=num_pairs, seed=seed), encoding="utf-8")
        console.print(f"{page}", soft_wrap=True, markup=False)


def _plan(request: Request) -> Plan:
    texts = read_lines(request.text or SENTENCES)[: request.num_lines or None]
    long_text = None
    if request.long is not None:
        long_text = read_text(request.long)
    elif request.long_minutes:
        long_text = text_of_minutes(texts, request.long_minutes)
    return Plan(
        texts=texts,
        voices=request.voices,
        seeds=request.seeds,
        speed=request.speed,
        long_text=long_text,
        folder=request.output,
        at_once=request.at_once,
        with_teacher=request.with_teacher,
    )


def _check(request: Request) -> None:
    unknown = [kind for kind in request.without if kind not in listeners.KINDS]
    if unknown:
        raise UsageError(f"--without {unknown[0]}: want one of {', '.join(listeners.KINDS)}")
    if request.reference is not None and not request.reference.is_dir():
        raise UsageError(f"--reference {request.reference}: no such folder")
    if request.url is not None and request.overrides:
        raise UsageError("--set and --checkpoint are for a private service: leave out --url")


def _record(request: Request, plan: Plan, console: Console) -> Recordings:
    num_texts = len(plan.jobs()) + (len(plan.voices) if plan.long_text else 0)
    with _steps(console, "speaking", num_texts) as advance:
        return anyio.run(_record_from_service, request, plan, advance)


async def _record_from_service(
    request: Request, plan: Plan, advance: Callable[[], None]
) -> Recordings:
    if request.url is not None:
        return await record(request.url, request.credential, plan, advance)
    async with private_service(request.config_file, request.overrides) as service:
        return await record(service.url, request.credential or service.credential, plan, advance)


def _num_recordings(plan: Plan, who: Listeners) -> int:
    taught = len(plan.texts) if plan.with_teacher and who.teacher is not None else 0
    return len(plan.jobs()) + taught + (len(plan.voices) if plan.long_text else 0)


@contextmanager
def _steps(console: Console, what: str, total: int) -> Iterator[Callable[[], None]]:
    """A progress bar while recordings are made; yields what moves it by one."""
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)


def _publish(report: Report, request: Request) -> Report:
    """Write everything; a report without pictures says so."""
    plots: list[tuple[str, str]] = []
    try:
        plots = plots_of(report)
    except MissingPackageError as error:
        report = msgspec.structs.replace(report, notes=(*report.notes, f"no plots: {error}"))
    write_report(report, request.output / REPORT_FILE)
    if request.json_file is not None:
        write_report(report, request.json_file)
    page = page_of(report, request.output, plots)
    (request.output / PAGE_FILE).write_text(page, encoding="utf-8")
    return report
