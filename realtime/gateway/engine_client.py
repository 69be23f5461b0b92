"""Many requests over one link: gives each its number, routes what the engine sends, bounds what
waits to be sent.

One task writes to the link and one reads it, so that a session that is cancelled in the middle of a
call cannot tear a message.
"""

from collections import deque
from collections.abc import Callable

import anyio
import msgspec

from realtime.clock import Clock
from realtime.errors import SpeechError
from realtime.gateway.signal import Signal
from realtime.link import AsyncLink
from realtime.messages import (
    AppendSegment,
    CancelRequest,
    CapacityReport,
    EndText,
    EngineReady,
    Failed,
    Finished,
    OutputChunk,
    PlaybackReport,
    SegmentSpoken,
    Shutdown,
    StartRequest,
    ToEngine,
)

RequestEvent = OutputChunk | SegmentSpoken | Finished | Failed


class EngineRequest:
    """The gateway's handle of one request. Its calls never wait and do nothing once the request is
    over.
    """

    def __init__(self, client: "EngineClient", request_id: int) -> None:
        self._client = client
        self.request_id = request_id

    def append(self, index: int, phonemes: str) -> None:
        """Append a segment."""
        self._client.post(AppendSegment(request_id=self.request_id, index=index, phonemes=phonemes))

    def end_text(self) -> None:
        """No further segment comes."""
        self._client.post(EndText(request_id=self.request_id))

    def report_playback(self, sent_samples: int, played_samples: int | None) -> None:
        """Say how far the listener is; only the latest report is kept while the link is busy."""
        self._client.post_playback(
            PlaybackReport(
                request_id=self.request_id, sent_samples=sent_samples, played_samples=played_samples
            )
        )

    def cancel(self) -> None:
        """Free the request; its `Finished` is still delivered."""
        self._client.post_cancel(self.request_id)

    def detach(self) -> None:
        """Deliver nothing further: the caller is gone."""
        self._client.detach(self.request_id)


class EngineClient:
    """One running engine.

    What waits to be sent is bounded by the requests that are open: per request its start, its end,
    one cancel, one playback report and the few segments that a session prepares ahead.

    Args:
        link: The gateway's end.
        ready: What the engine said of itself.
        on_report: Called with each capacity report.
        on_late: Called for each message of a request that is over or was never opened.
        on_cancelled: Called with the end of each cancelled request and the time of its cancel.
    """

    def __init__(
        self,
        link: AsyncLink,
        ready: EngineReady,
        clock: Clock,
        *,
        on_report: Callable[[CapacityReport], None] | None = None,
        on_late: Callable[[], None] | None = None,
        on_cancelled: Callable[[Finished, float], None] | None = None,
    ) -> None:
        self.ready = ready
        self.report: CapacityReport | None = None
        self.heard_at = clock.now()
        self._link = link
        self._clock = clock
        self._on_report = on_report
        self._on_late = on_late
        self._on_cancelled = on_cancelled
        self._cancelled_at: dict[int, float] = {}
        self._deliver: dict[int, Callable[[RequestEvent], None] | None] = {}
        self._outbox: deque[ToEngine] = deque()
        self._playback: dict[int, PlaybackReport] = {}
        self._signal = Signal()
        self._last_id = 0
        self._is_lost = False

    @property
    def num_requests(self) -> int:
        """Requests that the engine has not finished."""
        return len(self._deliver)

    def open(self, start: StartRequest, deliver: Callable[[RequestEvent], None]) -> EngineRequest:
        """Open a request.

        Args:
            start: What is asked for; its number is given here.
            deliver: Called for each event of the request, the last of which is `Finished` or
                `Failed`. Must not wait or raise.
        """
        self._last_id += 1
        request_id = self._last_id
        self._deliver[request_id] = deliver
        self.post(msgspec.structs.replace(start, request_id=request_id))
        return EngineRequest(self, request_id)

    def post(self, message: StartRequest | AppendSegment | EndText | CancelRequest) -> None:
        """Queue a message of an open request; dropped if the request is over."""
        if message.request_id in self._deliver and not self._is_lost:
            self._outbox.append(message)
            self._signal.set()

    def post_cancel(self, request_id: int) -> None:
        """Queue the cancel of an open request, once."""
        if request_id in self._deliver and request_id not in self._cancelled_at:
            sent_at = self._cancelled_at[request_id] = self._clock.now()
            self.post(CancelRequest(request_id=request_id, sent_at=sent_at))

    def post_playback(self, report: PlaybackReport) -> None:
        """Queue a playback report in place of an older one that still waits; what the caller said
        in that one is kept.
        """
        if report.request_id in self._deliver and not self._is_lost:
            waiting = self._playback.get(report.request_id)
            if waiting is not None and report.played_samples is None:
                report = msgspec.structs.replace(report, played_samples=waiting.played_samples)
            self._playback[report.request_id] = report
            self._signal.set()

    def post_shutdown(self) -> None:
        """Ask the engine to exit."""
        self._outbox.append(Shutdown())
        self._signal.set()

    def detach(self, request_id: int) -> None:
        """Deliver nothing further of this request."""
        if request_id in self._deliver:
            self._deliver[request_id] = None

    async def run(self) -> None:
        """Move messages until the link closes.

        Raises:
            LinkClosedError: The engine is gone (inside an exception group).
        """
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._write)
            await self._read()

    def lose(self, error: SpeechError) -> None:
        """The engine is gone: every open request fails with `error`."""
        self._is_lost = True
        self._outbox.clear()
        self._playback.clear()
        for request_id in list(self._deliver):
            self._route(
                Failed(
                    request_id=request_id,
                    code=error.code,
                    message=error.message,
                    retry_after_s=error.retry_after_s,
                )
            )

    async def _write(self) -> None:
        while True:
            while self._outbox:
                await self._link.send(self._outbox.popleft())
            while self._playback:
                _, report = self._playback.popitem()
                await self._link.send(report)
                if self._outbox:
                    break
            if not self._outbox and not self._playback:
                await self._signal.wait()

    async def _read(self) -> None:
        while True:
            message = await self._link.receive()
            self.heard_at = self._clock.now()
            match message:
                case CapacityReport():
                    self.report = message
                    if self._on_report is not None:
                        self._on_report(message)
                case EngineReady():
                    pass  # said once, before this client was made
                case _:
                    self._route(message)

    def _route(self, event: RequestEvent) -> None:
        request_id = event.request_id
        if request_id not in self._deliver:
            if self._on_late is not None:
                self._on_late()
            return
        deliver = self._deliver[request_id]
        if isinstance(event, Finished | Failed):
            del self._deliver[request_id]
            self._playback.pop(request_id, None)
            cancelled_at = self._cancelled_at.pop(request_id, None)
            if cancelled_at is not None and isinstance(event, Finished) and self._on_cancelled:
                self._on_cancelled(event, cancelled_at)
        if deliver is not None:
            deliver(event)
