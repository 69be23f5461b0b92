"""What a measurement finds, as it is kept in `report.json`. Format 1."""

from pathlib import Path

import msgspec

from realtime.errors import RequestError

REPORT_FILE = "report.json"


class _Result(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all parts; a reader ignores fields that a later version adds."""


class Figure(_Result, frozen=True, kw_only=True):
    """A number with its 95 % interval; both ends are `None` where there is none."""

    value: float
    low: float | None = None
    high: float | None = None


class LineResult(_Result, frozen=True, kw_only=True):
    """One line of text, spoken once.

    Attributes:
        voice: As the service names it.
        seed: Of the run; the utterance's own seed is this plus the line's index.
        speed: Asked for.
        index: Of the line in the text file, from 0.
        audio: Its file, relative to the report; empty where there is no audio.
        heard: What the recogniser wrote; `None` where nothing listened.
        reason: How the service ended it, or its error code.
        expected_s: The teacher's time from the first sound to the last, divided by the speed;
            `None` where not known.
        faults: Names from `judging.FAULTS`.
        similarity: Cosine to the voice's own reference, and to the nearest other one.
    """

    voice: str
    seed: int
    speed: float
    index: int
    text: str
    audio: str
    reason: str
    heard: str | None
    num_words: int
    num_word_errors: int
    num_chars: int
    num_char_errors: int
    audio_s: float
    expected_s: float | None
    leading_silence_s: float
    spoken_s: float
    longest_pause_s: float
    level_dbfs: float
    num_clicks: int
    loudness_lufs: float | None = None
    dnsmos_overall: float | None = None
    dnsmos_signal: float | None = None
    dnsmos_background: float | None = None
    similarity: float | None = None
    similarity_to_other: float | None = None
    real_time_factor: float | None = None
    faults: tuple[str, ...] = ()


class Join(_Result, frozen=True, kw_only=True):
    """Where one sentence of a long text ends and the next begins.

    Attributes:
        at_s: In the recording.
        before: The last words of the one sentence.
        after: The first words of the next.
        jump_ratio: Largest sample step there over the usual one around it.
        pause_s: Length of the pause there.
        missing: Words of these that were not heard.
        doubled: Words of these that were heard twice.
        faults: Names from `joins.FAULTS`.
    """

    at_s: float
    before: str
    after: str
    jump_ratio: float
    pause_s: float
    missing: tuple[str, ...] = ()
    doubled: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


class Minute(_Result, frozen=True, kw_only=True):
    """The sentences of a long text that begin in one minute."""

    minute: int
    num_words: int
    num_word_errors: int
    words_per_s: float
    level_dbfs: float
    dnsmos_overall: float | None = None
    similarity: float | None = None


class LongResult(_Result, frozen=True, kw_only=True):
    """A long text, spoken through one context.

    Attributes:
        reason: How the service ended it.
        num_clicks: In the whole recording, at joins or not.
        memory_before_bytes: Of the engine process, after a first sentence; `None` where the
            service does not say.
        memory_after_bytes: When the text was spoken.
    """

    voice: str
    audio: str
    reason: str
    audio_s: float
    minutes: tuple[Minute, ...]
    joins: tuple[Join, ...]
    num_clicks: int
    memory_before_bytes: float | None = None
    memory_after_bytes: float | None = None
    figures: dict[str, Figure] = {}


class Verdict(_Result, frozen=True, kw_only=True):
    """One requirement on one voice; `value` is `None` where the figure could not be measured."""

    requirement: str
    figure: str
    voice: str
    value: float | None
    is_met: bool


class Report(_Result, frozen=True, kw_only=True):
    """Everything.

    Attributes:
        settings: What was asked for.
        notes: What was not measured, and why.
        figures: By voice, by the names of `figures.FIGURES`.
    """

    format: int = 1
    settings: dict[str, str]
    notes: tuple[str, ...]
    figures: dict[str, dict[str, Figure]]
    lines: tuple[LineResult, ...]
    long: tuple[LongResult, ...] = ()
    verdicts: tuple[Verdict, ...] = ()


class BadReportError(RequestError):
    """A file is not a report."""

    code = "bad_report"


def read_report(folder: Path) -> Report:
    """The report in a result folder, or the file itself.

    Raises:
        BadReportError: There is none that can be read.
    """
    path = folder / REPORT_FILE if folder.is_dir() else folder
    try:
        return msgspec.json.decode(path.read_bytes(), type=Report)
    except (OSError, msgspec.DecodeError) as error:
        raise BadReportError(f"{path}: {error}") from error


def write_report(report: Report, path: Path) -> None:
    """Write it as indented JSON.

    Raises:
        OSError: It cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
