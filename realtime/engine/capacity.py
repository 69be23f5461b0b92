"""How many listeners this machine keeps at their rate, and when a place becomes free.

Pure arithmetic over measured times.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

import msgspec

from realtime.engine.step_time import StepCosts, StepTime
from realtime.engine.turns import LONGEST_PROMISE_S, Turns

_MANY = 1 << 16  # more streams than any machine is asked for
_SMOOTHING = 0.02  # weight of the newest stream in the mean length


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


class _Costs(NamedTuple):
    """What a step may take for rows and context, and what these cost."""

    left_s: float
    row_s: float
    context_s: float

    def room(self, num_rows: int, num_context: int, context_each: int) -> int:
        """Further rows of so much context that fit beside these."""
        left_s = self.left_s - self.row_s * num_rows - self.context_s * num_context
        each_s = self.row_s + self.context_s * context_each
        return int(left_s / each_s) if each_s > 0 else _MANY


class Capacity:
    """Keeps every admitted stream at its rate.

    A step of all streams must fit into the time that one token plays, and a codec call of all of
    them into the time that a frame plays, less the headroom. Someone who cannot be admitted soon is
    told when to come back, each a later turn; see `Turns`.

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
        self._turns = Turns()
        self._stream_s = 8.0

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

    def room(self, streams: Iterable[tuple[int, float]]) -> int:
        """How many more listeners may start now, so that all keep their rate until they end.

        Looks at every instant at which a stream will end, up to the end of the newcomers, who are
        taken to be of the usual length: those that are left have grown by then. Whoever starts
        later is asked then.

        Args:
            streams: Of each running listener, its cached tokens and the seconds of speech still to
                come.
        """
        ordered = sorted(streams, key=lambda stream: stream[1])
        num_left, context = len(ordered), sum(tokens for tokens, _ in ordered)
        costs = self._costs()
        most = costs.room(num_left, context, 0)
        for tokens, remaining_s in ordered:
            grown = int(min(remaining_s, self._stream_s) * self._limits.tokens_per_second)
            most = min(most, costs.room(num_left, context + num_left * grown, grown))
            if remaining_s > self._stream_s:
                break
            num_left, context = num_left - 1, context - tokens
        else:  # the newcomers outlive everyone
            most = min(most, costs.room(0, 0, int(self._stream_s * self._limits.tokens_per_second)))
        if self.codec_time is not None and self._is_codec_apart:
            most = min(most, self._most_decoded() - len(ordered))
        return max(most, 0 if ordered else 1)  # one is always tried

    def _costs(self) -> "_Costs":
        """A step's costs as they are now, the codec's share included where both share a
        processor.
        """
        limits, predict = self._limits, self.step_time.foresee
        token_s = 1.0 / limits.tokens_per_second
        fixed_s = predict(0)
        row_s, context_s = predict(1) - fixed_s, predict(0, 0, 1) - fixed_s
        if self.codec_time is not None and not self._is_codec_apart:
            call_s = self.codec_time.predict(0)
            fixed_s += call_s / limits.tokens_per_frame
            row_s += (self.codec_time.predict(1) - call_s) / limits.tokens_per_frame
        return _Costs((1.0 - limits.headroom_ratio) * token_s - fixed_s, row_s, context_s)

    def _most_decoded(self) -> int:
        """Streams that the codec keeps up with on a processor of its own."""
        assert self.codec_time is not None
        frame_s = self._limits.tokens_per_frame / self._limits.tokens_per_second
        call_s = self.codec_time.predict(0)
        row_s = self.codec_time.predict(1) - call_s
        left_s = (1.0 - self._limits.headroom_ratio) * frame_s - call_s
        return int(left_s / row_s) if row_s > 0 else _MANY

    def note_start(self, key: str, now: float) -> None:
        """A listener of this key got its place."""
        self._turns.note_start(key, now)

    def note_stream(self, seconds: float) -> None:
        """A stream held its place for this long."""
        self._stream_s += _SMOOTHING * (seconds - self._stream_s)

    @property
    def usual_s(self) -> float:
        """How long a stream holds its place, on average."""
        return self._stream_s

    @property
    def tokens_per_second(self) -> float:
        """What a listener plays."""
        return self._limits.tokens_per_second

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

    def promise(
        self, num_waiting: int, remaining_s: Collection[float], now: float, key: str
    ) -> float:
        """Seconds after which a refused caller should come back; the next one refused is told a
        later time.
        """
        apart_s = self._stream_s / max(1, len(remaining_s))
        wait_s = self.wait_s(num_waiting, remaining_s)
        return round(self._turns.next(key, wait_s, apart_s, now), 2)

    def estimate(self, num_waiting: int, remaining_s: Collection[float]) -> float:
        """The same for someone who takes no turn from listeners."""
        wait_s = self.wait_s(num_waiting, remaining_s)
        return round(min(max(1.0, wait_s), LONGEST_PROMISE_S), 2)


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
