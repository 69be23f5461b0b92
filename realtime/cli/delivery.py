"""One utterance from a text to its sinks, with a report of it."""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from realtime import wire
from realtime.cli.sinks import Sink
from realtime.client import AudioChunk, Event, Session
from realtime.clock import Clock

SinkMaker = Callable[[int], Sink]
"""Opens a sink for a sample rate in Hz."""


class Watcher(Protocol):
    """Is told how far the speech is."""

    def text_sent(self, chars: int) -> None:
        """`chars` characters were sent in all."""
        ...

    def spoken(self, audio_s: float, chars: int) -> None:
        """`audio_s` seconds have arrived; complete sentences reach character `chars`."""
        ...


@dataclass(slots=True)
class Report:
    """What was said and how long it took; instants are seconds after the first text was sent.

    Attributes:
        first_audio_s: When the first audio arrived; `None` if none did.
        text_sent_s: When the last piece of text had been sent; `None` if it never was.
        total_s: When the last message arrived.
    """

    sample_rate_hz: int
    voice: str = ""
    seed: int = 0
    text_chars: int = 0
    first_audio_s: float | None = None
    text_sent_s: float | None = None
    total_s: float = 0.0
    sentences: list[wire.Sentence] = field(default_factory=list[wire.Sentence])
    done: wire.Done | None = None

    def as_json(self) -> dict[str, Any]:
        """The report as plain values; `metrics` are the service's own figures."""
        plain = msgspec.to_builtins(
            {name: getattr(self, name) for name in self.__slots__ if name != "done"}
        )
        if self.done is not None:
            done = msgspec.to_builtins(self.done)
            plain |= {key: done[key] for key in ("reason", "samples", "char", "metrics")}
            plain["warning"] = self.done.warning
        return plain


async def speak_to_sinks(
    session: Session,
    text: str | AsyncIterable[str],
    *,
    sampling: wire.Sampling,
    sinks: Sequence[SinkMaker],
    clock: Clock,
    watcher: Watcher | None = None,
) -> Report:
    """Speak a text into every sink.

    Args:
        session: Where to.
        text: Whole, or in pieces.
        sampling: For this utterance.
        sinks: Opened before the first text is sent, closed in any case.
        clock: Of the report.
        watcher: Told of progress.

    Raises:
        SpeechError: Speaking failed; file sinks keep what had arrived.
    """
    delivery = _Delivery(Report(session.ready.sample_rate_hz), clock, watcher)
    report = delivery.report
    with ExitStack() as closing:
        outputs = [make(report.sample_rate_hz) for make in sinks]
        for output in outputs:
            closing.callback(output.close)
        async with session.utterance(sampling=sampling) as utterance:
            utterance.feed(delivery.count(text))
            async for event in utterance:
                delivery.note(event)
                if isinstance(event, AudioChunk):
                    for output in outputs:
                        await output.write(event.pcm)
        for output in outputs:
            await output.finish()
    return report


class _Delivery:
    """Fills the report while text goes out and events come in."""

    def __init__(self, report: Report, clock: Clock, watcher: Watcher | None) -> None:
        self.report = report
        self._clock = clock
        self._watcher = watcher
        self._started_at: float | None = None

    async def count(self, text: str | AsyncIterable[str]) -> AsyncIterator[str]:
        """The text's pieces, unchanged, while the report follows them."""
        async for piece in _pieces(text):
            self._elapsed_s()
            self.report.text_chars += len(piece)
            yield piece
            if self._watcher is not None:
                self._watcher.text_sent(self.report.text_chars)
        self.report.text_sent_s = self._elapsed_s()

    def note(self, event: Event) -> None:
        """An event came in."""
        report = self.report
        report.total_s = self._elapsed_s()
        match event:
            case wire.Opened():
                report.voice, report.seed = event.voice, event.seed
            case AudioChunk():
                if report.first_audio_s is None and event.num_samples:
                    report.first_audio_s = report.total_s
                self._tell(event)
            case wire.Sentence():
                report.sentences.append(event)
            case wire.Done():
                report.done = event
            case _:
                pass

    def _tell(self, chunk: AudioChunk) -> None:
        if self._watcher is not None:
            arrived = chunk.sample_offset + chunk.num_samples
            chars = self.report.sentences[-1].end_char if self.report.sentences else 0
            self._watcher.spoken(arrived / chunk.sample_rate_hz, chars)

    def _elapsed_s(self) -> float:
        """Seconds since the first piece of text."""
        now = self._clock.now()
        if self._started_at is None:
            self._started_at = now
        return now - self._started_at


async def _pieces(text: str | AsyncIterable[str]) -> AsyncIterator[str]:
    if isinstance(text, str):
        yield text
    else:
        async for piece in text:
            yield piece
