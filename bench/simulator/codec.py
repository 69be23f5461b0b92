"""The codec as a server of stated speed, fed by the engine's own queue."""

from collections import Counter
from collections.abc import Callable, Iterator

import msgspec

from bench.simulator.machines import Machine
from realtime.engine.codec_queue import CodecQueue
from realtime.engine.plan import NewFrame, Output
from realtime.messages import Failed, Finished


class Delivery(msgspec.Struct, frozen=True):
    """What one call let go.

    Attributes:
        at: When it was done.
        first_frames: Of each request, the first frame that can be heard now.
        counts: Of each request, the frames that can be heard now.
        failed: Requests that were refused.
    """

    at: float
    first_frames: dict[int, int]
    counts: dict[int, int]
    failed: list[Failed]


class CodecServer:
    """Decodes what is due, one call at a time.

    Args:
        machine: What a call takes, and how far the decoder looks ahead.
        deliver: Takes what a call let go.
    """

    def __init__(self, machine: Machine, deliver: Callable[[Delivery], None]) -> None:
        self._machine = machine
        self._deliver = deliver
        self._queue = CodecQueue()
        self._submitted_at = 0.0
        self._free_at = 0.0
        self._made: Counter[int] = Counter()
        self._heard: Counter[int] = Counter()
        self.busy_s = 0.0

    def submit(self, outputs: list[Output], at: float) -> None:
        """Queue outputs at an instant that never goes back; what was due before is done."""
        if self._machine.is_codec_apart:
            self.run_until(at)
        self._queue.add(outputs)
        self._submitted_at = at

    def starts_at(self) -> float:
        """When the next call begins, if nothing else comes; infinity without work."""
        return max(self._queue.due_at, self._submitted_at, self._free_at)

    def run_until(self, until: float) -> None:
        """All calls that begin before an instant."""
        while len(self._queue) and self.starts_at() < until:
            self.call(self.starts_at())

    def call(self, at: float) -> float:
        """One call; its seconds."""
        outputs = self._queue.take()
        dropped = {output.request_id for output in outputs if _is_dropped(output)}
        frames = [
            output
            for output in outputs
            if isinstance(output, NewFrame) and output.request_id not in dropped
        ]
        seconds = self._seconds(frames)
        self._free_at = at + seconds
        self.busy_s += seconds
        self._deliver(self._delivery(outputs, frames))
        return seconds

    def _seconds(self, frames: list[NewFrame]) -> float:
        """Streams with more frames than others need a round of their own for the rest."""
        rounds = set(Counter(frame.request_id for frame in frames).values())
        costs = self._machine.codec
        return costs.step_s * len(rounds) + costs.row_s * len(frames)

    def _delivery(self, outputs: list[Output], frames: list[NewFrame]) -> Delivery:
        self._made.update(frame.request_id for frame in frames)
        lookahead = self._machine.lookahead_frames
        found = Delivery(self._free_at, {}, {}, [])
        ended = {output.request_id for output in outputs if isinstance(output, Finished)}
        for request_id in dict.fromkeys([*(frame.request_id for frame in frames), *ended]):
            ready = self._made[request_id] - (0 if request_id in ended else lookahead)
            if ready > self._heard[request_id]:
                found.first_frames[request_id] = self._heard[request_id]
                found.counts[request_id] = ready - self._heard[request_id]
                self._heard[request_id] = ready
        for output in _ends(outputs):
            self._made.pop(output.request_id, None)
            self._heard.pop(output.request_id, None)
            if isinstance(output, Failed):
                found.failed.append(output)
        return found


def _is_dropped(output: Output) -> bool:
    """Whether a request's frames are not wanted any more."""
    return isinstance(output, Failed) or (
        isinstance(output, Finished) and output.reason == "cancelled"
    )


def _ends(outputs: list[Output]) -> Iterator[Finished | Failed]:
    return (output for output in outputs if isinstance(output, Finished | Failed))
