"""`python -m loadtest.word_error`: how much of a file a recogniser understands when it is spoken.

Speaks every line through a running service, one utterance each, keeps the audio, transcribes it
with faster-whisper and compares. The recogniser needs the packages `faster-whisper` and
`num2words` and a folder with a converted Whisper model.
"""

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import anyio
import soundfile  # pyright: ignore[reportMissingTypeStubs]
import typer
from rich.console import Console
from rich.progress import track

from loadtest.judgement import JudgedLine, count_errors, fault_of, read_durations, verdict
from loadtest.scenario import read_sentences
from realtime.audio.level import rms_dbfs
from realtime.audio.wav import AudioFileWriter
from realtime.client import DEFAULT_URL, AudioChunk, Session, connect
from realtime.errors import SpeechError
from realtime.wire import Metrics, Sampling

DATA = Path(__file__).resolve().parents[1] / "tests" / "data"


def main(  # noqa: PLR0913 - a command's options
    *,
    whisper: Annotated[Path, typer.Option(help="Folder of a faster-whisper model.")],
    url: Annotated[str, typer.Option(help="Service address.")] = DEFAULT_URL,
    api_key: Annotated[str | None, typer.Option(help="Credential.")] = None,
    sentences: Annotated[Path, typer.Option(help="Text file, a line an utterance.")] = DATA
    / "sentences.txt",
    durations: Annotated[Path, typer.Option(help="Teacher's seconds and text, tab between.")] = DATA
    / "teacher_durations.tsv",
    folder: Annotated[Path, typer.Option(help="Where audio and report go.")] = Path("runs/words"),
    seed: Annotated[int, typer.Option(min=0, help="Of the speech.")] = 0,
    at_once: Annotated[int, typer.Option(min=1, help="Lines spoken at the same time.")] = 4,
    lines: Annotated[int, typer.Option(min=0, help="Only the first lines; 0 takes all.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="Threads of the recogniser.")] = 1,
) -> None:
    """Measure the word error rate of a running service."""
    console = Console()
    texts = read_sentences(sentences)[: lines or None]
    folder.mkdir(parents=True, exist_ok=True)
    speaking = _Speaking(texts, folder, seed, console)
    anyio.run(speaking.run, url, api_key, at_once)
    hear = load_recogniser(whisper, threads)
    teacher = read_durations(durations)
    judged = [
        speaking.judge(index, hear, teacher.get(text))
        for index, text in track(enumerate(texts), "listening", total=len(texts), console=console)
    ]
    report = verdict(judged)
    (folder / "report.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
    show(report, console)


class _Speaking:
    """Speaks the lines and keeps what came of each."""

    def __init__(self, texts: Sequence[str], folder: Path, seed: int, console: Console) -> None:
        self._texts = texts
        self._folder = folder
        self._seed = seed
        self._console = console
        self._reasons: dict[int, str] = {}
        self._metrics: dict[int, Metrics] = {}
        self._waiting = iter(range(len(texts)))

    async def run(self, url: str, api_key: str | None, at_once: int) -> None:
        """Speak all lines, some at the same time."""
        async with (
            connect(url, credential=api_key, max_contexts=at_once) as session,
            anyio.create_task_group() as tasks,
        ):
            with self._console.status("speaking"):
                for _ in range(min(at_once, session.ready.limits.max_contexts)):
                    tasks.start_soon(self._speak_lines, session)

    async def _speak_lines(self, session: Session) -> None:
        for index in self._waiting:
            with AudioFileWriter(self._path(index), session.ready.sample_rate_hz) as file:
                try:
                    await self._speak(session, index, file)
                except SpeechError as error:
                    self._reasons[index] = error.code

    async def _speak(self, session: Session, index: int, file: AudioFileWriter) -> None:
        sampling = Sampling(seed=self._seed + index)
        async with session.utterance(sampling=sampling) as utterance:
            utterance.feed(self._texts[index])
            async for event in utterance:
                if isinstance(event, AudioChunk):
                    file.write(event.pcm)
        assert utterance.done is not None
        self._reasons[index] = utterance.done.reason
        self._metrics[index] = utterance.done.metrics

    def judge(self, index: int, hear: "Recogniser", teacher_s: float | None) -> JudgedLine:
        """Listen to a line."""
        samples, rate_hz = soundfile.read(self._path(index), dtype="int16")
        audio_s, level = len(samples) / rate_hz, rms_dbfs(samples.tobytes())
        heard = hear(self._path(index)) if len(samples) else ""
        num_errors, num_words = count_errors(self._texts[index], heard)
        metrics = self._metrics.get(index)
        return JudgedLine(
            index=index,
            text=self._texts[index],
            heard=heard,
            num_words=num_words,
            num_errors=num_errors,
            audio_s=audio_s,
            teacher_s=teacher_s,
            level_dbfs=level,
            fault=fault_of(audio_s, teacher_s, level),
            reason=self._reasons[index],
            real_time_factor=None if metrics is None else metrics.real_time_factor,
        )

    def _path(self, index: int) -> Path:
        return self._folder / f"{index:03d}.wav"


class Recogniser:
    """Whisper through faster-whisper: audio file in, text out."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __call__(self, path: Path) -> str:
        """What is said in the file; every file is heard afresh."""
        segments, _ = self._model.transcribe(
            str(path),
            language="en",
            beam_size=5,
            temperature=0.0,  # no random second attempts: the same audio is always heard the same
            condition_on_previous_text=False,
        )
        return " ".join(segment.text.strip() for segment in segments)


def load_recogniser(folder: Path, threads: int) -> Recogniser:
    """Load a converted Whisper model.

    Raises:
        ImportError: `faster-whisper` is not installed.
    """
    # slow to import, needed here alone, and not installed where nothing is judged
    whisper: Any = importlib.import_module("faster_whisper")
    return Recogniser(
        whisper.WhisperModel(str(folder), device="cpu", compute_type="int8", cpu_threads=threads)
    )


def show(report: dict[str, Any], console: Console) -> None:
    """Print the figures that matter."""
    for name in ("all", "up_to_14_words"):
        rates = report[name]
        low, high = (100 * bound for bound in rates["interval_95"])
        console.print(
            f"{name}: word error rate {100 * rates['word_error_rate']:.1f} % "
            f"(95 %: {low:.1f} to {high:.1f}), {rates['num_exact']}/{rates['num_lines']} exact"
        )
    console.print(f"faulty: {report['num_faulty']}/{report['num_lines']} {report['faulty']}")


if __name__ == "__main__":
    typer.run(main)
