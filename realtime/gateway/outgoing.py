"""What a session still has to send. Bounded per context by the caller; a cancel takes its context's
output out again.
"""

from collections import deque

import anyio.lowlevel

from realtime.gateway.commands import Close, Send
from realtime.gateway.signal import Signal
from realtime.wire import AudioFrame, Cancelled, Done, Error, Opened, Pong

MAX_ANSWERS = 64  # unsent answers beyond which nothing more is read


class OutgoingQueue:
    """First in, first out, for one writing task.

    Capacity: the engine's lead bound limits each context's audio here; `pcm_bytes` lets the session
    fail a context whose engine breaks that bound. Answers are bounded by `has_room`; other messages
    are few per frame of audio.
    """

    def __init__(self) -> None:
        self._items: deque[Send | Close] = deque()
        self._pcm_bytes: dict[int, int] = {}
        self._num_answers = 0
        self._signal = Signal()
        self._room = Signal()

    def __len__(self) -> int:
        return len(self._items)

    async def has_room(self) -> None:
        """Wait while many answers wait to be sent; lets other tasks run in any case.

        A caller that asks without reading is no longer read from, so its own socket slows it down.
        Audio does not count: a cancel must be read while there is much of it.
        """
        await anyio.lowlevel.checkpoint()
        while self._num_answers >= MAX_ANSWERS:
            await self._room.wait()

    def put(self, item: Send | Close) -> None:
        """Queue one message or the close of the connection."""
        self._items.append(item)
        self._account(item, 1)
        self._signal.set()

    def pcm_bytes(self, number: int) -> int:
        """Bytes of the context's audio that wait here."""
        return self._pcm_bytes.get(number, 0)

    def drop(self, number: int) -> None:
        """Take out what a cancel or an error of this context makes void."""
        kept = [item for item in self._items if not _is_void(item, number)]
        self._items = deque(kept)
        self._num_answers = sum(map(_is_answer, kept))
        self._pcm_bytes.pop(number, None)

    async def get(self) -> Send | Close:
        """The next item, waiting for one."""
        while not self._items:
            await self._signal.wait()
        item = self._items.popleft()
        self._account(item, -1)
        self._room.set()
        return item

    def _account(self, item: Send | Close, sign: int) -> None:
        self._num_answers += sign * _is_answer(item)
        if isinstance(item, Send) and isinstance(item.message, AudioFrame):
            number = item.message.number
            total = self._pcm_bytes.get(number, 0) + sign * len(item.message.pcm)
            if total:
                self._pcm_bytes[number] = total
            else:
                self._pcm_bytes.pop(number, None)


def _is_void(item: Send | Close, number: int) -> bool:
    return isinstance(item, Send) and item.is_droppable and item.number == number


def _is_answer(item: Send | Close) -> bool:
    return isinstance(item, Send) and isinstance(
        item.message, Pong | Error | Opened | Cancelled | Done
    )
