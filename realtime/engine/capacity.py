"""How many listeners this machine keeps at their rate, and when a place becomes free.

Pure arithmetic over measured times.
"""

from collections.abc import Collection, Iterable

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
        step_s = self.step_time.foresee(num_streams, 0, num_streams * context_each)
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

        Each is reckoned with what a stream of the usual length holds at its end, or with its share
        of what the running ones will hold together when they hold most, whichever is more.

        Args:
            streams: Of each running listener, its cached tokens and the seconds of speech still to
                come.
        """
        running = list(streams)
        per_second = self._limits.tokens_per_second
        context_each = int(self._stream_s * per_second)
        if running:
            context_each = max(context_each, most_context(running, per_second) // len(running))
        return self.most_streams(context_each) - len(running)

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


def most_context(streams: Iterable[tuple[int, float]], tokens_per_second: float) -> int:
    """The most that running streams will look back at together at any later instant, while none
    other starts: each grows until it ends.

    Args:
        streams: Of each, the cached tokens and the seconds of speech still to come.
        tokens_per_second: By which each of them grows.

    Returns:
        Tokens of all streams together.
    """
    ordered = sorted(streams, key=lambda stream: stream[1])
    left = sum(tokens for tokens, _ in ordered)
    most = left
    for ended, (tokens, remaining_s) in enumerate(ordered):
        grown = (len(ordered) - ended) * int(remaining_s * tokens_per_second)
        most = max(most, left + grown)
        left -= tokens
    return most


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
