"""What an utterance yields, and the bounded buffer it waits in. Knows no socket."""

from collections import deque
from dataclasses import dataclass

import anyio
import numpy as np
import numpy.typing as npt

from realtime import wire

_SMALL_EVENT_BYTES = 64


@dataclass(frozen=True, slots=True)
class AudioChunk:
    """A stretch of an utterance's audio.

    Attributes:
        sample_offset: Position of its first sample in the utterance.
        pcm: Little-endian signed 16-bit mono samples.
        sample_rate_hz: Samples per second.
        is_last: No audio of this utterance follows.
    """

    sample_offset: int
    pcm: bytes
    sample_rate_hz: int
    is_last: bool

    @property
    def num_samples(self) -> int:
        """How many samples the chunk holds."""
        return len(self.pcm) // 2

    @property
    def duration_s(self) -> float:
        """Its length in seconds."""
        return self.num_samples / self.sample_rate_hz

    @property
    def samples(self) -> npt.NDArray[np.int16]:
        """The samples, int16 `[num_samples]`; a read-only view of `pcm`."""
        return np.frombuffer(self.pcm, dtype="<i2")


Event = AudioChunk | wire.Opened | wire.Tokens | wire.Sentence | wire.Cancelled | wire.Done


@dataclass(frozen=True, slots=True)
class Buffering:
    """How much of an utterance may wait for its consumer; the policy is in `realtime.client`.

    Attributes:
        max_buffered_bytes: Held per utterance; by default about 11 minutes of audio at 24 kHz.
        stall_timeout_s: How long a full buffer may stay untouched.
    """

    max_buffered_bytes: int = 32 * 1024 * 1024
    stall_timeout_s: float = 10.0


class Inbox:
    """Events of one utterance between the socket's reader and the consumer.

    Attributes:
        failure: Why it was closed; `None` while open and after a regular end.
        is_closed: Nothing more will be put in.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.failure: Exception | None = None
        self.is_closed = False
        self._limit_bytes = limit_bytes
        self._events: deque[Event] = deque()
        self._held_bytes = 0
        self._changed = anyio.Event()

    @property
    def has_room(self) -> bool:
        """Whether the reader may put another event; one event may overshoot the limit."""
        return self._held_bytes < self._limit_bytes or self.is_closed

    def put(self, event: Event) -> None:
        """Add an event; the reader has seen `has_room`."""
        self._events.append(event)
        self._held_bytes += _held_bytes(event)
        self._notify()

    async def get(self) -> Event | None:
        """The next event; `None` after the last one of a regular end.

        Raises:
            Exception: `failure`, after the last event that had arrived.
        """
        while not self._events:
            if self.failure is not None:
                raise self.failure
            if self.is_closed:
                return None
            await self.wait_for_change()
        event = self._events.popleft()
        self._held_bytes -= _held_bytes(event)
        self._notify()
        return event

    def drop_audio(self) -> None:
        """Forget the audio that nobody has taken."""
        self._events = deque(event for event in self._events if not isinstance(event, AudioChunk))
        self._held_bytes = sum(map(_held_bytes, self._events))
        self._notify()

    def close(self, failure: Exception | None = None) -> None:
        """Let nothing more in; the first call decides how it ended."""
        if not self.is_closed:
            self.is_closed = True
            self.failure = failure
            self._notify()

    async def wait_for_change(self) -> None:
        """Return after the next `put`, `get`, `drop_audio` or `close`."""
        await self._changed.wait()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


def _held_bytes(event: Event) -> int:
    match event:
        case AudioChunk():
            return len(event.pcm)
        case wire.Tokens():
            return 8 * len(event.codes)
        case _:
            return _SMALL_EVENT_BYTES
