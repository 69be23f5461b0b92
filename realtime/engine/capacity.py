"""How many listeners this machine keeps at their rate, and when a place becomes free.

Pure arithmetic over measured times.
"""

from collections import deque
from collections.abc import Collection

import msgspec

from realtime.engine.step_time import StepCosts, StepTime

_MAX_PROMISES = 4096
_MANY = 1 << 16  # more streams than any machine is asked for
_SMOOTHING = 0.2  # weight of the newest stream in the mean length


class CapacityLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Fields as in `EngineConfig`.

    Attributes:
        tokens_per_second: What a listener plays.
        tokens_per_frame: Tokens of a codec frame.
        headroom_ratio: Share of the time that is kept free for prompts, starts and other people's
            load.
    """

    tokens_per_second: float
    tokens_per_frame: int
    headroom_ratio: float


class Capacity:
    """Keeps every admitted stream at its rate.

    A step of all streams must fit into the time that one token plays, and a codec call of all of
    them into the time that a frame plays, less the headroom. Someone who cannot be admitted soon is
    told when to come back: each refusal names a later turn, so that those who obey do not all
    return for the same place.

    Args:
        limits: See there.
        step_time: What a step takes; read at each decision.
        codec_time: What a codec call takes by streams; `None` where it costs nothing.
        is_codec_apart: The codec has a processor of its own; else both share one.

    Attributes:
        step_time: As given.
        codec_time: As given.
    """

    def __init__(
        self,
        limits: CapacityLimits,
        step_time: StepTime,
        codec_time: StepTime | None = None,
        *,
        is_codec_apart: bool = True,
    ) -> None:
        self._limits = limits
        self.step_time = step_time
        self.codec_time = codec_time
        self._is_codec_apart = is_codec_apart
        self._promises: deque[float] = deque()
        self._stream_s = 5.0

    def load_ratio(self, num_streams: int, context_each: int) -> float:
        """Share of real time that this many listeners need; above 1 they would stutter.

        Args:
            num_streams: Listeners.
            context_each: Cached tokens that each of them looks back at.
        """
        limits = self._limits
        step_s = self.step_time.predict(num_streams, 0, num_streams * context_each)
        steps = step_s * limits.tokens_per_second
        if self.codec_time is None:
            return steps
        frames_per_second = limits.tokens_per_second / limits.tokens_per_frame
        codec = self.codec_time.predict(num_streams) * frames_per_second
        return max(steps, codec) if self._is_codec_apart else steps + codec

    def most_streams(self, context_each: int) -> int:
        """How many listeners keep their rate; one is always tried."""
        room = 1.0 - self._limits.headroom_ratio
        fewest, too_many = 1, 2
        while self.load_ratio(too_many, context_each) <= room and too_many < _MANY:
            fewest, too_many = too_many, 2 * too_many
        while too_many - fewest > 1:
            middle = (fewest + too_many) // 2
            if self.load_ratio(middle, context_each) <= room:
                fewest = middle
            else:
                too_many = middle
        return fewest

    def note_stream(self, seconds: float) -> None:
        """A stream held its place for this long."""
        self._stream_s += _SMOOTHING * (seconds - self._stream_s)

    def wait_s(self, num_waiting: int, remaining_s: Collection[float]) -> float:
        """How long one who comes behind `num_waiting` others waits for a place.

        Args:
            num_waiting: Ahead of it.
            remaining_s: How long each running stream will still hold its place.
        """
        if not remaining_s:
            return 0.0
        turns, rank = divmod(num_waiting, len(remaining_s))
        return sorted(remaining_s)[rank] + turns * self._stream_s

    def promise(self, num_waiting: int, remaining_s: Collection[float], now: float) -> float:
        """Seconds after which a refused caller should come back; counts it as ahead of the next
        one refused.
        """
        while self._promises and self._promises[0] <= now:
            self._promises.popleft()
        wait_s = max(0.1, self.wait_s(num_waiting + len(self._promises), remaining_s))
        if len(self._promises) < _MAX_PROMISES:
            self._promises.append(now + wait_s)
        return round(wait_s, 2)


def unlimited(tokens_per_second: float, tokens_per_frame: int) -> Capacity:
    """Of a machine that is never short: for calibration and for measurements of single parts."""
    return Capacity(
        CapacityLimits(
            tokens_per_second=tokens_per_second,
            tokens_per_frame=tokens_per_frame,
            headroom_ratio=0.0,
        ),
        StepTime(StepCosts(step_s=0.0, row_s=0.0, prefill_s=0.0)),
    )
