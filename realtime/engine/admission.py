"""Who may start, who waits and who is told to come back later. Decides over waiting requests and
measured capacity; knows no tokens and no blocks.

Waiting before speech starts is better than speech that stutters, and an early refusal is better
than a long wait: a request waits only while its place will be free soon.
"""

import math
from collections.abc import Callable, Collection

import msgspec

from realtime.engine.capacity import Capacity
from realtime.engine.sequence import Sequence
from realtime.engine.waiting import WaitingQueue
from realtime.errors import CapacityError

_LATE_PAUSE_S = 0.5  # no new listener so soon after an old one ran dry
_FORECAST_S = 0.05  # what will be held changes slowly, and looking ahead costs a sort
_PACE_SMOOTHING = 0.05  # weight of the newest segment in the usual pace
_WAIT_FACTOR = 3.0  # a promise of a place that is broken by this factor ends the wait

_REASONS = {
    "queue_full": "the queue is full",
    "no_place": "all places are taken",
    "waited_in_vain": "no place became free",
}


class AdmissionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Fields as in `EngineConfig`.

    Attributes:
        max_streams: Slots.
        max_waiting: Requests that may wait, beside those for whom a place is free.
        max_wait_s: A request that would wait longer is refused at once.
    """

    max_streams: int
    max_waiting: int
    max_wait_s: float


class Admission:
    """The queues in front of the engine.

    Listeners start while all of them keep their rate; none does just after one ran dry. Batch work
    (nobody listens) starts while slots are free, in up to half of them.

    Args:
        limits: The bounds.
        capacity: What the machine bears.
        running: The scheduler's view of the requests that hold a slot, by number.

    Attributes:
        num_refused: Requests refused, at once or after a wait, by reason.
    """

    def __init__(
        self, limits: AdmissionLimits, capacity: Capacity, running: dict[int, Sequence]
    ) -> None:
        self._limits = limits
        self._capacity = capacity
        self._running = running
        places = limits.max_waiting + limits.max_streams
        self._listeners = WaitingQueue(places)
        self._batch = WaitingQueue(places)
        self._waiting: dict[int, Sequence] = {}  # in order of arrival
        self._late_until = -math.inf
        self.num_refused = dict.fromkeys(_REASONS, 0)
        self._pace_ratio = 1.0
        self._known_for: tuple[int, float] | None = None
        self._known_room = 0

    @property
    def num_waiting(self) -> int:
        """Requests with text that wait for their start."""
        return len(self._waiting)

    def most_streams(self, now: float) -> int:
        """Listeners that may run at once, as things are now."""
        num_listeners = sum(not sequence.is_batch for sequence in self._running.values())
        return min(num_listeners + self._room(now), self._limits.max_streams)

    def is_waiting(self, request_id: int) -> bool:
        """Whether a request waits for its start."""
        return request_id in self._waiting

    def note_pace(self, pace_ratio: float) -> None:
        """A segment was so long over what was likely."""
        self._pace_ratio += _PACE_SMOOTHING * (pace_ratio - self._pace_ratio)

    def note_late(self, now: float) -> None:
        """A listener waits in silence: nobody new starts for a moment."""
        self._late_until = now + _LATE_PAUSE_S

    def add(self, sequence: Sequence, now: float) -> CapacityError | None:
        """Let a request with its first text wait for its start.

        Returns:
            Why it cannot even wait, with the time to come back; `None` when it waits.
        """
        queue = self._queue_of(sequence)
        if not queue.has_room(sequence.options.key):
            return self._refusal("queue_full", sequence, now)
        if not sequence.is_batch:
            ahead = len(self._listeners) - self._num_places(now)
            if ahead >= 0 and self._wait_s(ahead) > self._limits.max_wait_s:
                return self._refusal("no_place", sequence, now)
        queue.add(sequence.request_id, sequence.options.key)
        self._waiting[sequence.request_id] = sequence
        return None

    def remove(self, sequence: Sequence) -> None:
        """A waiting request is over."""
        del self._waiting[sequence.request_id]
        self._queue_of(sequence).remove(sequence.request_id)

    def left(self, sequence: Sequence, now: float) -> None:
        """A running request is over."""
        if sequence.scheduled_at is not None and not sequence.is_batch:
            self._capacity.note_stream(now - sequence.scheduled_at)

    def overdue(self, now: float) -> tuple[Sequence, CapacityError] | None:
        """A request whose place did not become free although it should have; it still waits."""
        for sequence in self._waiting.values():
            if sequence.is_batch:
                continue
            if self._wait_ends_at(sequence) > now:
                break
            return sequence, self._refusal("waited_in_vain", sequence, now)
        return None

    def wake_at(self) -> float:
        """When a wait ends; infinity if never."""
        waits = (s for s in self._waiting.values() if not s.is_batch)
        return min(map(self._wait_ends_at, waits), default=math.inf)

    def start(self, num_slots: int, now: float, may_start: Callable[[Sequence], bool]) -> None:
        """Take requests out of the queues while there are places.

        Args:
            num_slots: Free slots.
            now: The instant.
            may_start: Gives a request its slot; False leaves it, and all behind it, waiting.
        """
        if not self._waiting:
            return
        places = min(self._num_places(now), num_slots)
        num_batch = sum(sequence.is_batch for sequence in self._running.values())
        started = self._start_from(self._listeners, places, may_start, now)
        if len(self._listeners) and started < places:
            return
        batch_places = max(1, self._limits.max_streams // 2) - num_batch
        self._start_from(self._batch, min(num_slots - started, batch_places), may_start, now)

    def check_invariants(self) -> None:
        """Assert that queues and requests agree."""
        assert len(self._listeners) + len(self._batch) == len(self._waiting)
        for sequence in self._waiting.values():
            assert sequence.request_id in self._queue_of(sequence)
            assert sequence.slot is None

    def _start_from(
        self,
        queue: WaitingQueue,
        places: int,
        may_start: Callable[[Sequence], bool],
        now: float,
    ) -> int:
        for started in range(places):
            request_id = queue.first()
            if request_id is None or not may_start(self._waiting[request_id]):
                return started
            queue.take_first()
            sequence = self._waiting.pop(request_id)
            if not sequence.is_batch:
                self._capacity.note_start(sequence.options.key, now)
        return max(places, 0)

    def _queue_of(self, sequence: Sequence) -> WaitingQueue:
        return self._batch if sequence.is_batch else self._listeners

    def _num_places(self, now: float) -> int:
        """Listeners who may start now."""
        if now < self._late_until:
            return 0
        return min(self._room(now), self._limits.max_streams - len(self._running))

    def _room(self, now: float) -> int:
        """Listeners for whom the machine has time; reckoned anew when somebody came or went."""
        known = (len(self._running), now // _FORECAST_S)
        if known != self._known_for:
            self._known_for = known
            self._known_room = self._capacity.room(
                (s.num_computed, self._remaining_s(s))
                for s in self._running.values()
                if not s.is_batch
            )
        return self._known_room

    def _remaining(self) -> Collection[float]:
        """How long each listener will still hold its place: speech comes at the rate it is
        played.
        """
        return [self._remaining_s(s) for s in self._running.values() if not s.is_batch]

    def _remaining_s(self, sequence: Sequence) -> float:
        """Speech still to come in seconds; where not all text is known, at least what makes a
        stream of the usual length.
        """
        known_s = sequence.remaining_s(self._pace_ratio)
        if sequence.has_all_text:
            return known_s
        return max(known_s, self._capacity.usual_s - sequence.spoken_s)

    def _wait_s(self, ahead: int) -> float:
        return self._capacity.wait_s(ahead, self._remaining())

    def _refusal(self, reason: str, sequence: Sequence, now: float) -> CapacityError:
        self.num_refused[reason] += 1
        remaining_s = self._remaining()
        if sequence.is_batch:
            retry_after_s = self._capacity.estimate(len(self._batch), remaining_s)
        else:
            ahead = max(0, len(self._listeners) - self._num_places(now))
            retry_after_s = self._capacity.promise(ahead, remaining_s, now, sequence.options.key)
        return CapacityError(
            f"{_REASONS[reason]}: {len(self._running)} requests run and {len(self._waiting)} wait",
            retry_after_s=retry_after_s,
        )

    def _wait_ends_at(self, sequence: Sequence) -> float:
        assert sequence.first_segment_at is not None
        return sequence.first_segment_at + _WAIT_FACTOR * self._limits.max_wait_s
