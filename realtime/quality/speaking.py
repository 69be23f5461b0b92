"""Has the service speak, and keeps what came of each line."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from realtime.audio.wav import AudioFileWriter
from realtime.client import AudioChunk, Session
from realtime.errors import CapacityError, SpeechError
from realtime.wire import Metrics, Opened, Sampling, Sentence

AUDIO_FOLDER = "audio"
PATIENCE_S = 120.0
_RETRY_AFTER_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One thing to say.

    Attributes:
        voice: Name to ask for; `None` takes the service's default.
        index: Of the line; its seed is the run's plus this.
        speed: 1.0 is the voice's own pace.
    """

    voice: str | None
    seed: int
    speed: float
    index: int
    text: str

    @property
    def file_name(self) -> str:
        """Of its recording."""
        voice = re.sub(r"[^\w.-]", "_", self.voice or "default")
        return f"{voice}_seed{self.seed}_{self.index:04d}.wav"


@dataclass(slots=True, kw_only=True)
class Spoken:
    """What came of a job.

    Attributes:
        path: The recording; empty of samples where it failed at once.
        voice: As the service names it.
        reason: How it ended, or the error's code.
        sentences: Their spans in text and samples.
    """

    job: Job
    path: Path
    voice: str
    reason: str = "lost"
    metrics: Metrics | None = None
    sentences: list[Sentence] = field(default_factory=list[Sentence])


async def speak_all(
    session: Session,
    jobs: Sequence[Job],
    folder: Path,
    *,
    at_once: int,
    on_done: Callable[[], None] = lambda: None,
) -> list[Spoken]:
    """Speak every job, some at the same time, into files under `folder`.

    Returns:
        One for each job, in their order. A job that fails says so in its `reason`.

    Raises:
        OSError: A file cannot be written.
    """
    waiting = iter(enumerate(jobs))
    spoken: dict[int, Spoken] = {}

    async def speak_some() -> None:
        for index, job in waiting:
            spoken[index] = await speak(session, job, folder)
            on_done()

    async with anyio.create_task_group() as tasks:
        for _ in range(min(at_once, session.ready.limits.max_contexts)):
            tasks.start_soon(speak_some)
    return [spoken[index] for index in range(len(jobs))]


async def speak(session: Session, job: Job, folder: Path) -> Spoken:
    """Speak one job into a file under `folder`; a service without room is asked again for a while.

    Raises:
        OSError: The file cannot be written.
    """
    (folder / AUDIO_FOLDER).mkdir(parents=True, exist_ok=True)
    waited_s = 0.0
    while True:
        spoken = Spoken(
            job=job,
            path=folder / AUDIO_FOLDER / job.file_name,
            voice=job.voice or session.ready.voice,
        )
        try:
            await _try(session, spoken)
        except CapacityError as error:
            spoken.reason = error.code
            if waited_s < PATIENCE_S:
                pause_s = error.retry_after_s or _RETRY_AFTER_S
                waited_s += pause_s
                await anyio.sleep(pause_s)
                continue
        except SpeechError as error:
            spoken.reason = error.code
        return spoken


async def _try(session: Session, spoken: Spoken) -> None:
    """Speak once.

    Raises:
        SpeechError: The utterance or the connection has failed.
        OSError: The file cannot be written.
    """
    job = spoken.job
    asked = session.utterance(
        voice=job.voice,
        speed=None if job.speed == 1.0 else job.speed,  # voices need not have control of it
        sampling=Sampling(seed=job.seed + job.index),
        priority="batch",  # nobody listens meanwhile
    )
    with AudioFileWriter(spoken.path, session.ready.sample_rate_hz) as file:
        async with asked as utterance:
            utterance.feed(job.text)
            async for event in utterance:
                if isinstance(event, AudioChunk):
                    file.write(event.pcm)
                elif isinstance(event, Opened):
                    spoken.voice = event.voice
                elif isinstance(event, Sentence):
                    spoken.sentences.append(event)
    if asked.done is not None:
        spoken.reason, spoken.metrics = asked.done.reason, asked.done.metrics
