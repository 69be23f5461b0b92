"""A measurement from its plan to its report. Start reading at `judge`, behind `record`."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
import soundfile

from realtime.client import connect
from realtime.client.gauges import read_gauges
from realtime.quality import teacher as teachers
from realtime.quality.figures import figures_of, loudness_offsets
from realtime.quality.judging import judge_line
from realtime.quality.listeners import Listeners
from realtime.quality.long_text import judge_long_text
from realtime.quality.requirements import Requirement, check
from realtime.quality.results import Figure, LineResult, LongResult, Report
from realtime.quality.speaking import AUDIO_FOLDER, Job, Spoken, speak, speak_all

TEACHER_VOICE = "teacher"
_SETTLE_S = 1.0  # the engine reports its memory a few times a second


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be said.

    Attributes:
        texts: Lines, an utterance each.
        voices: Names to ask for; `None` is the service's default.
        seeds: Every line is said once with each.
        long_text: Said by every voice through one context; `None` leaves it out.
        folder: Of recordings and report.
        at_once: Lines spoken at the same time.
        with_teacher: Have the teacher say the lines too, as a yardstick.
    """

    texts: Sequence[str]
    voices: Sequence[str | None] = (None,)
    seeds: Sequence[int] = (0,)
    speed: float = 1.0
    long_text: str | None = None
    folder: Path
    at_once: int = 4
    with_teacher: bool = False

    def jobs(self) -> list[Job]:
        """Every line with every seed and voice."""
        return [
            Job(voice=voice, seed=seed, speed=self.speed, index=index, text=text)
            for voice in self.voices
            for seed in self.seeds
            for index, text in enumerate(self.texts)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recordings:
    """What the service said.

    Attributes:
        long: With the engine's memory in bytes before and after.
        default_voice: The service's.
    """

    lines: Sequence[Spoken]
    long: Sequence[tuple[Spoken, tuple[float | None, float | None]]]
    default_voice: str


async def record(
    url: str, credential: str | None, plan: Plan, on_done: Callable[[], None] = lambda: None
) -> Recordings:
    """Have a service say everything.

    Args:
        url: The service.
        credential: API key, where it asks for one.
        plan: What to say.
        on_done: Called after every line.

    Raises:
        SpeechError: There is no such service, or it refuses the session.
        OSError: A file cannot be written.
    """
    async with connect(url, credential=credential, max_contexts=plan.at_once) as session:
        lines = await speak_all(
            session, plan.jobs(), plan.folder, at_once=plan.at_once, on_done=on_done
        )
        long: list[tuple[Spoken, tuple[float | None, float | None]]] = []
        for voice in plan.voices if plan.long_text else ():
            job = Job(
                voice=voice,
                seed=plan.seeds[0],
                speed=plan.speed,
                index=len(plan.texts),
                text=plan.long_text or "",
            )
            before = await _memory_bytes(url)
            spoken = await speak(session, job, plan.folder)
            on_done()
            long.append((spoken, (before, await _memory_bytes(url))))
        return Recordings(lines=lines, long=long, default_voice=session.ready.voice)


async def _memory_bytes(url: str) -> float | None:
    await anyio.sleep(_SETTLE_S)
    try:
        return (await read_gauges(url)).get("engine_resident_bytes")
    except (OSError, anyio.EndOfStream, anyio.BrokenResourceError):
        return None  # a service behind a proxy need not show its metrics


def judge(
    recordings: Recordings,
    plan: Plan,
    listeners: Listeners,
    requirements: Sequence[Requirement] = (),
    on_done: Callable[[], None] = lambda: None,
) -> Report:
    """Listen to everything and add it up.

    Args:
        recordings: What was said.
        plan: What was to be said.
        listeners: Who listens.
        requirements: On the figures.
        on_done: Called after every recording.
    """
    spoken = [*recordings.lines]
    if plan.with_teacher and listeners.teacher is not None:
        spoken += _teach(plan, listeners.teacher)
    ours = list(dict.fromkeys(line.voice for line in recordings.lines))
    judges, notes = listeners.judges(ours, recordings.default_voice, plan.texts)
    expected_s = listeners.expected_lengths(plan.texts)
    lines: list[LineResult] = []
    for line in spoken:
        length_s = expected_s.get(line.job.text)
        lines.append(
            judge_line(
                line,
                judges,
                expected_s=length_s and length_s / line.job.speed,
                folder_name=AUDIO_FOLDER,
                speaker=recordings.default_voice if line.voice == TEACHER_VOICE else None,
            )
        )
        on_done()
    long: list[LongResult] = []
    for text, memory_bytes in recordings.long:
        long.append(
            judge_long_text(text, judges, folder_name=AUDIO_FOLDER, memory_bytes=memory_bytes)
        )
        on_done()
    figures = {voice: _figures(voice, lines, long) for voice in ours}
    for voice, offset in loudness_offsets(figures).items():
        figures[voice]["loudness_offset_lu"] = offset
    verdicts = check([*requirements], figures)
    if len(spoken) > len(recordings.lines):
        figures[TEACHER_VOICE] = _figures(TEACHER_VOICE, lines, ())
    return Report(
        settings=_settings(plan, listeners),
        notes=(*listeners.notes, *notes, *_unusual_ends(lines)),
        figures=figures,
        lines=tuple(lines),
        long=tuple(long),
        verdicts=verdicts,
    )


def _unusual_ends(lines: Sequence[LineResult]) -> list[str]:
    """How lines ended that did not end by themselves, a note for each voice and reason."""
    ends = Counter((line.voice, line.reason) for line in lines if line.reason != "end_of_speech")
    return [
        f"{voice}: {count} lines ended with {reason}" for (voice, reason), count in ends.items()
    ]


def _figures(
    voice: str, lines: Sequence[LineResult], long: Sequence[LongResult]
) -> dict[str, Figure]:
    figures = figures_of([line for line in lines if line.voice == voice])
    for text in long:
        if text.voice == voice:
            figures |= text.figures
    return figures


def _teach(plan: Plan, teacher: teachers.Teacher) -> list[Spoken]:
    """The teacher's own recordings of the lines."""
    spoken: list[Spoken] = []
    for index, text in enumerate(plan.texts):
        job = Job(voice=TEACHER_VOICE, seed=0, speed=1.0, index=index, text=text)
        path = plan.folder / AUDIO_FOLDER / job.file_name
        soundfile.write(path, teacher(text), teachers.RATE_HZ)
        spoken.append(Spoken(job=job, path=path, voice=TEACHER_VOICE, reason="end_of_speech"))
    return spoken


def _settings(plan: Plan, listeners: Listeners) -> dict[str, str]:
    return {
        "lines": str(len(plan.texts)),
        "seeds": ", ".join(str(seed) for seed in plan.seeds),
        "speed": f"{plan.speed:g}",
        "recogniser": listeners.recogniser_name or "none",
        "references": listeners.reference_name,
    }
