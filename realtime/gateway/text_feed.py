"""A session's text on its way through the front end: in order per context, in small bites, on a
worker thread.

A bite is short so that one caller's long text does not keep the workers from the others, and a
context whose speech is far behind its prepared text takes no bites, so that memory and work follow
what is heard.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import anyio
import anyio.to_thread
import structlog

from realtime.errors import SpeechError
from realtime.gateway.commands import FeedText, Released, TextKind
from realtime.gateway.signal import Signal
from realtime.gateway.spoken import SpokenSegment

BITE_CHARS = 400
MAX_PENDING_ITEMS = 64

_log = structlog.get_logger()


class TextSource(Protocol):
    """`realtime.text.TextStream`: synchronous, one context's text in, segments out."""

    @property
    def num_unspoken(self) -> int:
        """Letters so far that are left out because the voice does not know their script."""
        ...

    def push(self, piece: str) -> Sequence[SpokenSegment]:
        """Take a piece of text."""
        ...

    def flush(self) -> Sequence[SpokenSegment]:
        """Release all text so far."""
        ...

    def end(self) -> Sequence[SpokenSegment]:
        """Release the rest."""
        ...


@dataclass(slots=True)
class _Pending:
    kind: TextKind
    pieces: list[str]
    arrived_at: float


@dataclass(slots=True)
class _ContextText:
    source: TextSource
    pending: deque[_Pending] = field(default_factory=deque[_Pending])


class TextFeed:
    """The texts of one session's contexts.

    Args:
        limiter: Shared by all sessions; its tokens are the front end's worker threads.
        wants_text: Whether a context's next text should be prepared now.
    """

    def __init__(self, limiter: anyio.CapacityLimiter, wants_text: Callable[[int], bool]) -> None:
        self._limiter = limiter
        self._wants_text = wants_text
        self._texts: dict[int, _ContextText] = {}
        self._signal = Signal()

    def open(self, number: int, source: TextSource) -> None:
        """Begin a context's text."""
        self._texts[number] = _ContextText(source)

    def close(self, number: int) -> None:
        """Forget a context's text; what a worker thread is doing for it is thrown away."""
        self._texts.pop(number, None)

    def put(self, item: FeedText) -> None:
        """Queue a piece, flush or end.

        Pieces beyond `MAX_PENDING_ITEMS` are joined to the last one, so that the queue holds hardly
        more than the text itself.
        """
        text = self._texts.get(item.number)
        if text is None:
            return
        last = text.pending[-1] if text.pending else None
        if last is not None and last.kind == item.kind:
            if item.kind != "text":
                return
            if len(text.pending) >= MAX_PENDING_ITEMS:
                last.pieces.append(item.text)
                return
        text.pending.append(_Pending(item.kind, [item.text], item.at))
        self._signal.set()

    def wake(self) -> None:
        """A context may want text again."""
        self._signal.set()

    async def run(
        self, on_released: Callable[[Released], None], on_failed: Callable[[int, SpeechError], None]
    ) -> None:
        """Prepare text until cancelled, telling the session what came of it."""
        while True:
            number = self._next()
            if number is None:
                await self._signal.wait()
                continue
            text = self._texts[number]
            bite = _take_bite(text.pending)
            results, error = await anyio.to_thread.run_sync(
                _prepare, text.source, bite, limiter=self._limiter, abandon_on_cancel=True
            )
            if self._texts.get(number) is not text:
                continue  # cancelled meanwhile
            for index, (item, segments) in enumerate(zip(bite, results, strict=False)):
                has_more = index + 1 < len(bite) or bool(text.pending)
                on_released(
                    Released(
                        number,
                        item.kind,
                        segments,
                        item.arrived_at,
                        has_more,
                        text.source.num_unspoken,
                    )
                )
            if error is not None:
                on_failed(number, error)

    def _next(self) -> int | None:
        """The context whose turn it is; it goes to the back of the line."""
        for number, text in self._texts.items():
            if text.pending and self._wants_text(number):
                self._texts[number] = self._texts.pop(number)
                return number
        return None


def _take_bite(pending: deque[_Pending]) -> list[_Pending]:
    bite: list[_Pending] = []
    room = BITE_CHARS
    while pending and room > 0:
        item = pending[0]
        text = "".join(item.pieces)
        if len(text) > room:
            item.pieces = [text[room:]]
            bite.append(_Pending("text", [text[:room]], item.arrived_at))
            return bite
        item.pieces = [text]
        bite.append(pending.popleft())
        room -= max(1, len(text))
    return bite


def _prepare(
    source: TextSource, bite: list[_Pending]
) -> tuple[list[Sequence[SpokenSegment]], SpeechError | None]:
    results: list[Sequence[SpokenSegment]] = []
    try:
        for item in bite:
            match item.kind:
                case "text":
                    results.append(source.push(item.pieces[0]))
                case "flush":
                    results.append(source.flush())
                case "end":
                    results.append(source.end())
    except SpeechError as error:
        return results, error
    except Exception:  # noqa: BLE001 - a fault of one stage ends one request
        _log.exception("text_front_end_failed")
        return results, SpeechError("the text could not be prepared")
    return results, None
