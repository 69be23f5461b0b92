"""A simulated caller: speaks utterance after utterance, records what a listener hears."""

import re
from collections.abc import AsyncIterator

import anyio

from loadtest.playout import Playout
from loadtest.recorder import Recorder, Row
from loadtest.scenario import Scenario
from realtime.client import AudioChunk, Session, connect
from realtime.clock import Clock
from realtime.errors import SpeechError
from realtime.wire import Sampling

RETRY_S = 0.5


async def run_callers(scenario: Scenario, recorder: Recorder, clock: Clock) -> float:
    """Run all callers to their end.

    Returns:
        Seconds from the first caller's start to the last one's end.
    """
    started_at = clock.now()
    async with anyio.create_task_group() as tasks:
        for stream in range(scenario.num_streams):
            caller = Caller(scenario, stream, recorder, clock, started_at)
            tasks.start_soon(caller.run)
    return clock.now() - started_at


class Caller:
    """One stream of the scenario."""

    def __init__(
        self, scenario: Scenario, stream: int, recorder: Recorder, clock: Clock, started_at: float
    ) -> None:
        self._scenario = scenario
        self._stream = stream
        self._recorder = recorder
        self._clock = clock
        self._started_at = started_at
        self._texts = scenario.texts(stream)
        self._num_spoken = 0

    async def run(self) -> None:
        """Speak until the time is up, at least once; reopen a lost or refused connection."""
        await anyio.sleep(self._scenario.start_s(self._stream))
        while self._goes_on():
            try:
                opening = connect(self._scenario.url, credential=self._scenario.credential)
                async with opening as session:
                    await self._converse(session)
            except SpeechError as error:
                self._recorder.add(self._new_row("", error))
                await anyio.sleep(error.retry_after_s or RETRY_S)

    async def _converse(self, session: Session) -> None:
        while self._goes_on():
            text = next(self._texts)
            row = self._new_row(text)
            playout = Playout(session.ready.sample_rate_hz, self._scenario.audible_dbfs)
            begun_at, pause_s = self._clock.now(), RETRY_S
            try:
                await self._speak(session, text, row, playout)
            except SpeechError as error:
                row.error = error.code
                pause_s = error.retry_after_s or RETRY_S
            row.total_s = self._clock.now() - begun_at
            _note_playout(row, playout, begun_at)
            self._recorder.add(row)
            if row.error is not None:
                await anyio.sleep(pause_s)
                if not await _is_usable(session):
                    return
            elif self._scenario.listens and playout.ends_at is not None:
                await anyio.sleep(max(0.0, playout.ends_at - self._clock.now()))

    async def _speak(self, session: Session, text: str, row: Row, playout: Playout) -> None:
        seed = self._scenario.seed * 1_000_003 + self._stream * 10_007 + row.index
        async with session.utterance(sampling=Sampling(seed=seed)) as utterance:
            pace = self._scenario.pieces_per_second
            utterance.feed(text if pace is None else paced(text, 1.0 / pace))
            async for event in utterance:
                if isinstance(event, AudioChunk):
                    playout.receive(event.pcm, self._clock.now())
        if utterance.done is not None:
            row.reason = utterance.done.reason
            row.service = utterance.done.metrics

    def _goes_on(self) -> bool:
        """Until the time is up; a stream that never spoke would say nothing of the service."""
        is_time_left = self._clock.now() - self._started_at < self._scenario.duration_s
        return is_time_left or not self._num_spoken

    def _new_row(self, text: str, error: SpeechError | None = None) -> Row:
        self._num_spoken += 1
        return Row(
            stream=self._stream,
            index=self._num_spoken - 1,
            started_s=self._clock.now() - self._started_at,
            text_chars=len(text),
            error=None if error is None else error.code,
        )


async def _is_usable(session: Session) -> bool:
    """Whether the connection outlived the failure of an utterance."""
    try:
        await session.ping()
    except SpeechError:
        return False
    return True


async def paced(text: str, pause_s: float) -> AsyncIterator[str]:
    """Pieces of about four characters, as a language model's tokens, one every `pause_s`."""
    for piece in re.findall(r"\s*\S{1,5}|\s+$", text):
        yield piece
        await anyio.sleep(pause_s)


def _note_playout(row: Row, playout: Playout, begun_at: float) -> None:
    if playout.started_at is not None:
        row.ttfb_s = playout.started_at - begun_at
        row.received_s = playout.arrivals[-1][0] - begun_at
    if playout.audible_at is not None:
        row.audible_s = playout.audible_at - begun_at
    row.audio_s = playout.audio_s
    row.num_underruns = len(playout.gaps)
    row.underrun_s = sum(length for _, length in playout.gaps)
    row.longest_wait_s = playout.longest_wait_s
    row.least_lead_s = playout.least_lead_s
    row.arrivals = [(at - begun_at, count) for at, count in playout.arrivals]
