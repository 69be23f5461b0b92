"""Whose tokens the next step computes, by when each listener runs dry. Pure decisions over instants
and counts; knows no blocks, slots or messages.

Four kinds of work, in this order:

1. *urgent*: streams that run dry within `urgent_s`, the earliest first;
2. *start-up*: streams whose listener holds nothing yet, first come first served. Speech that starts
   a little later is better than speech that stutters, so they come behind the urgent ones;
3. *the rest*, the earliest to run dry first. Those with more than `comfort_s` in hand stand back
   where their rows would stretch a step that urgent or start-up work waits for, but only beyond
   a share of what a token plays: full batches are what a loaded machine lives on;
4. *batch*: requests without a listener take what is left.

A stream further than `high_water_s` ahead is parked until it is down to `low_water_s`: what nobody
hears yet is another stream's capacity.
"""

import math
from collections.abc import Callable, Iterable

import msgspec

_START_CAUTION = 1.5  # the second frame may take this much longer than the first did
_LEAST_PREFILL = 8  # tokens of a chunk that is worth a step's overhead


class DeadlinePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The marks, in seconds of speech that a listener holds. Fields as in `EngineConfig`.

    Attributes:
        urgent_s: Below it a stream comes first.
        comfort_s: Above it a stream may stand back for others.
        low_water_s: A parked stream goes on here.
        high_water_s: A stream is parked here.
        max_stretch_ratio: How much longer comfortable rows may make a step that others wait for.
        urgent_share_ratio: They may anyway while it takes less than this share of a token's time,
            where urgent streams wait for it,
        start_share_ratio: and less than this share where starts do.
        max_start_frames: Frames that a start may collect before the first sound.

    Raises:
        ValueError: The marks are not in ascending order.
    """

    urgent_s: float = 0.25
    comfort_s: float = 0.6
    low_water_s: float = 1.0
    high_water_s: float = 2.0
    max_stretch_ratio: float = 0.25
    urgent_share_ratio: float = 0.8
    start_share_ratio: float = 0.4
    max_start_frames: int = 4

    def __post_init__(self) -> None:
        marks = (self.urgent_s, self.comfort_s, self.low_water_s, self.high_water_s)
        if not 0 <= marks[0] <= marks[1] <= marks[2] < marks[3]:
            raise ValueError(
                f"want urgent_s <= comfort_s <= low_water_s < high_water_s, not {marks}"
            )

    def start_frames(self, first_frame_s: float, codec_s: float, frame_s: float) -> int:
        """Frames to collect before the first sound.

        One, where the next one will be there before it has been played; else as many as bridge the
        difference.

        Args:
            first_frame_s: How long the stream's first frame took.
            codec_s: How long the codec takes over a frame, waiting included.
            frame_s: How long a frame plays.
        """
        frames = math.ceil((first_frame_s * _START_CAUTION + codec_s) / frame_s)
        return min(max(frames, 1), self.max_start_frames)


class Work(msgspec.Struct, gc=False):
    """What one stream could do in the next step.

    Attributes:
        request_id: Whose it is.
        num_tokens: Tokens to compute: one while decoding, more for a prompt or after an eviction.
        num_context: Tokens before them.
        dry_at: When its listener runs dry; `None` where none holds anything yet.
        arrival: Counts requests; the larger, the younger.
        is_batch: Nobody listens.
    """

    request_id: int
    num_tokens: int
    num_context: int
    dry_at: float | None
    arrival: int
    is_batch: bool


class StepBudget(msgspec.Struct, frozen=True, kw_only=True):
    """What bounds a step.

    Attributes:
        max_tokens: Tokens of a step at most.
        token_s: Speech that one token stands for, in seconds: a step that an urgent listener waits
            for must not take longer.
        predict: Seconds of a step by rows, further tokens, and context tokens.
    """

    max_tokens: int
    token_s: float
    predict: Callable[[int, int, int], float]


def share_step(
    work: Iterable[Work],
    policy: DeadlinePolicy,
    budget: StepBudget,
    now: float,
    claim: Callable[[int, int], bool],
) -> None:
    """Divide a step.

    Args:
        work: One entry a stream.
        policy: The marks.
        budget: What bounds the step.
        now: The instant.
        claim: Called with a request and how many of its tokens the step may compute, in order of
            urgency; False where there is no memory for them.
    """
    urgent, starting, rest, batch = _kinds(work, now + policy.urgent_s)
    step = _Step(budget, claim)
    # an urgent listener plays on while a prompt is computed: keep the step shorter than what its
    # token plays, wherever the rows alone allow it
    step.limit_s = budget.token_s if urgent else math.inf
    for item in urgent:
        step.add(item)
    for item in starting:
        step.add(item)
    is_awaited = not step.is_empty
    stretched_s = step.seconds * (1.0 + policy.max_stretch_ratio)
    share = policy.start_share_ratio if starting else policy.urgent_share_ratio
    step.limit_s = max(stretched_s, share * budget.token_s) if is_awaited else math.inf
    comfortable_from = now + policy.comfort_s
    for item in rest:
        if item.dry_at is not None and item.dry_at < comfortable_from:
            step.add(item)
        else:
            step.add_within(item)
    step.limit_s = stretched_s if is_awaited else max(budget.token_s, step.seconds)
    for item in batch:
        step.add_within(item)


def _kinds(
    work: Iterable[Work], urgent_until: float
) -> tuple[list[Work], list[Work], list[Work], list[Work]]:
    """Urgent, start-up, rest and batch, each in its order."""
    urgent: list[Work] = []
    starting: list[Work] = []
    rest: list[Work] = []
    batch: list[Work] = []
    for item in work:
        if item.is_batch:
            batch.append(item)
        elif item.dry_at is None:
            starting.append(item)
        elif item.dry_at < urgent_until:
            urgent.append(item)
        else:
            rest.append(item)
    urgent.sort(key=_by_dry_at)
    starting.sort(key=_by_arrival)
    rest.sort(key=_by_dry_at)
    batch.sort(key=_by_arrival)
    return urgent, starting, rest, batch


class _Step:
    """A step being filled."""

    def __init__(self, budget: StepBudget, claim: Callable[[int, int], bool]) -> None:
        self.limit_s = math.inf
        self._left = budget.max_tokens
        self._predict = budget.predict
        self._claim = claim
        self._rows = self._prefill = self._context = 0

    @property
    def is_empty(self) -> bool:
        return not self._rows

    @property
    def seconds(self) -> float:
        return self._predict(self._rows, self._prefill, self._context)

    def add(self, item: Work) -> None:
        """A row always; of a longer piece as much as the limit leaves, chunks of some size."""
        if item.num_tokens == 1:
            self._take(item, 1)
            return
        room = self._prefill_room(item.num_context)
        count = min(item.num_tokens, self._left, room)
        if count == item.num_tokens or count >= _LEAST_PREFILL or self.is_empty:
            self._take(item, max(count, min(item.num_tokens, _LEAST_PREFILL, self._left)))

    def add_within(self, item: Work) -> None:
        """Only what does not pass the limit; something, if the step is empty."""
        if self.is_empty:
            self.add(item)
            return
        if item.num_tokens == 1:
            context = self._context + item.num_context
            if self.limit_s == math.inf or (
                self._predict(self._rows + 1, self._prefill, context) <= self.limit_s
            ):
                self._take(item, 1)
            return
        count = min(item.num_tokens, self._left, self._prefill_room(item.num_context))
        if count == item.num_tokens or count >= _LEAST_PREFILL:
            self._take(item, count)

    def _prefill_room(self, num_context: int) -> int:
        """Tokens that still fit below the limit."""
        if self.limit_s == math.inf:
            return self._left
        here = self._predict(self._rows + 1, self._prefill, self._context + num_context)
        each = self._predict(self._rows + 1, self._prefill + 1, self._context + num_context) - here
        if here > self.limit_s:
            return 0
        return 1 + int((self.limit_s - here) / each) if each > 0 else self._left

    def _take(self, item: Work, count: int) -> None:
        if 0 < count <= self._left and self._claim(item.request_id, count):
            self._left -= count
            self._rows += 1
            self._prefill += count - 1
            self._context += item.num_context


def _by_dry_at(item: Work) -> float:
    return math.inf if item.dry_at is None else item.dry_at


def _by_arrival(item: Work) -> int:
    return item.arrival
