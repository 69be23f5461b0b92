"""The engine's view of one request: its tokens, its segments, its place in the KV cache. Owned by
the scheduler.
"""

import math
from collections import deque

import msgspec

from realtime.engine.guards import Finding, Mending, SegmentGuard
from realtime.engine.plan import RequestOptions, SamplingSettings, SpeechLayout
from realtime.engine.playback import ListenerClock
from realtime.messages import EngineTimings

PENALTY_WINDOW_FRAMES = 12  # about a second: what "recent" means to the repetition penalty


class PendingSegment(msgspec.Struct, frozen=True):
    """A segment that waits for its turn.

    Attributes:
        prompt: Its prompt's token ids.
        num_phonemes: Phonemes in it, from which the plausible length of its speech follows.
        speed: Pace at which it is to be spoken.
    """

    index: int
    prompt: tuple[int, ...]
    num_phonemes: int
    speed: float = 1.0

    def max_frames(self, layout: SpeechLayout) -> int:
        """Longest plausible speech in frames; no more than a sequence of its own can hold."""
        plausible_s = (layout.max_s_per_phoneme * self.num_phonemes + layout.extra_s) / self.speed
        room = (layout.max_positions - len(self.prompt) - 1) // layout.tokens_per_frame
        return max(1, min(math.ceil(plausible_s * layout.frames_per_second), room))

    def min_frames(self, layout: SpeechLayout) -> int:
        """Shortest plausible speech in frames; at least one."""
        plausible_s = layout.min_s_per_phoneme * self.num_phonemes / self.speed
        return max(1, min(int(plausible_s * layout.frames_per_second), self.max_frames(layout)))

    def likely_frames(self, layout: SpeechLayout) -> int:
        """Speech of a segment of middling pace."""
        middle_s = (layout.min_s_per_phoneme + layout.max_s_per_phoneme) / 2 * self.num_phonemes
        return max(1, math.ceil(middle_s / self.speed * layout.frames_per_second))

    def likely_tokens(self, layout: SpeechLayout) -> int:
        """Prompt and likely speech, END included."""
        return len(self.prompt) + self.likely_frames(layout) * layout.tokens_per_frame + 1


class _SpokenSegment(msgspec.Struct):
    """A segment in the sequence: where its prompt starts, where its speech starts, how long it may
    be, and what became of it.

    `first_frame` moves on by the frames that were taken back: they are not part of its speech.
    """

    index: int
    start: int
    prompt_length: int
    first_frame: int
    min_frames: int
    likely_frames: int
    max_frames: int
    guard: SegmentGuard
    was_mended: bool = False


class HeldFrame(msgspec.Struct, frozen=True, gc=False):
    """A complete frame that has not been let go yet."""

    frame: int
    codes: tuple[int, ...]
    text_at: float | None


class Sequence:
    """Tokens, segments, blocks and times of one request.

    `token_ids[:num_computed]` are in the KV cache; what the cache holds beyond that is garbage.
    Positions are indices into `token_ids`. Dropping old segments (`keep_segments`) renumbers them,
    so it forgets the cache.

    Args:
        arrival: Counts requests; the larger, the younger.
        options: Decided when it was opened.
    """

    def __init__(
        self,
        request_id: int,
        *,
        arrival: int,
        options: RequestOptions,
        layout: SpeechLayout,
    ) -> None:
        self.request_id = request_id
        self.arrival = arrival
        self.options = options
        self.is_batch = options.is_batch
        self.slot: int | None = None
        self.pending: deque[PendingSegment] = deque()
        self.has_all_text = False
        self.token_ids: list[int] = []
        self.num_computed = 0
        self.num_published = 0  # leading blocks that are in the prefix cache and never written
        self.num_found = 0  # tokens found there and not counted yet
        self.is_evicted = False
        self.num_draws = 0
        self.num_frames = 0
        self.num_tokens = 0
        self.sent_samples = 0
        self.listener = ListenerClock(1.0 / layout.frames_per_second)
        self.held_frames: list[HeldFrame] = []  # the first ones, until there are `start_frames`
        self.start_frames = 1
        self.was_guarded = False
        self.num_mended = 0
        self.first_segment_at: float | None = None
        self.scheduled_at: float | None = None
        self.first_token_at: float | None = None
        self.last_token_at: float | None = None
        self.starved_since: float | None = None
        self.text_at: float | None = None  # end of a wait for text, until a frame follows it
        self.parked_since: float | None = None
        self._starved_s = 0.0
        self._parked_s = 0.0
        self._layout = layout
        self._mending: Mending | None = None
        self._segments: list[_SpokenSegment] = []
        self._blocks: list[int] = []
        self._block_table: tuple[int, ...] = ()
        self._codes: list[int] = []
        self._recent: deque[tuple[int, ...]] = deque(maxlen=PENALTY_WINDOW_FRAMES)
        self._recent_columns: tuple[tuple[int, ...], ...] = ((),) * layout.tokens_per_frame

    @property
    def is_idle(self) -> bool:
        """Whether it holds a slot but nothing may be computed for it now."""
        return self.starved_since is not None or self.parked_since is not None

    @property
    def num_uncomputed(self) -> int:
        """Tokens that are not in the KV cache yet."""
        return len(self.token_ids) - self.num_computed

    @property
    def block_ids(self) -> tuple[int, ...]:
        """The block table; the same object until it changes."""
        return self._block_table

    @property
    def position_in_frame(self) -> int:
        """Codebook position of the next token."""
        return len(self._codes)

    @property
    def segment_index(self) -> int:
        """Index of the segment being spoken."""
        return self._segments[-1].index

    @property
    def may_end(self) -> bool:
        """Whether END_OF_SPEECH is legal and plausible as the next token."""
        return not self._codes and self._segment_frames >= self._segments[-1].min_frames

    @property
    def is_overlong(self) -> bool:
        """Whether the segment has reached its longest plausible length."""
        return self._segment_frames >= self._segments[-1].max_frames

    @property
    def was_mended(self) -> bool:
        """Whether a fault of the segment being spoken was mended before."""
        return self._segments[-1].was_mended

    @property
    def draw_settings(self) -> SamplingSettings:
        """How the next token is drawn."""
        mending = self._mending
        if mending is None or self.num_frames >= mending.until:
            return self.options.sampling
        return mending.settings

    @property
    def barred_codes(self) -> tuple[int, ...]:
        """Codes that the next token may not be."""
        mending = self._mending
        if mending is None or self.num_frames >= mending.barred_until:
            return ()
        return mending.barred_codes[len(self._codes)]

    @property
    def num_segments_held(self) -> int:
        """Segments whose tokens the sequence still holds, the current one included."""
        return len(self._segments)

    @property
    def num_prompt_tokens(self) -> int:
        """Tokens before the first speech that the sequence holds."""
        return self._segments[0].prompt_length if self._segments else 0

    def recent_codes(self) -> tuple[int, ...]:
        """Codes lately drawn at the next token's frame position."""
        return self._recent_columns[len(self._codes)]

    def begin_segment(self, segment: PendingSegment, guard: SegmentGuard) -> None:
        """Put a segment's prompt behind everything spoken so far; `guard` is to watch it."""
        self._segments.append(
            _SpokenSegment(
                index=segment.index,
                start=len(self.token_ids),
                prompt_length=len(segment.prompt),
                first_frame=self.num_frames,
                min_frames=segment.min_frames(self._layout),
                likely_frames=segment.likely_frames(self._layout),
                max_frames=segment.max_frames(self._layout),
                guard=guard,
            )
        )
        self.token_ids.extend(segment.prompt)

    def add_code(self, token_id: int) -> tuple[int, ...] | None:
        """Append a drawn speech token; the frame's codes if it completes one."""
        layout = self._layout
        base = layout.audio_base_id + len(self._codes) * layout.codebook_size
        code = token_id - base
        assert 0 <= code < layout.codebook_size, (
            f"token {token_id} at frame position {len(self._codes)}"
        )
        self.token_ids.append(token_id)
        self._codes.append(code)
        self.num_tokens += 1
        if len(self._codes) < layout.tokens_per_frame:
            return None
        frame = tuple(self._codes)
        self._codes.clear()
        self._recent.append(frame)
        self._recent_columns = tuple(zip(*self._recent, strict=True))  # asked for at every token
        self.num_frames += 1
        return frame

    def watch(self, codes: tuple[int, ...]) -> Finding | None:
        """What is wrong with the segment's speech as of its newest frame."""
        return self._segments[-1].guard.add(codes)

    def take_back(self, num_frames: int) -> None:
        """Forget the last frames: sent they are, but what follows is not to go on from them.

        The cache's share of it is the owner's.
        """
        del self.token_ids[len(self.token_ids) - num_frames * self._layout.tokens_per_frame :]
        self._segments[-1].first_frame += num_frames

    def mend(self, finding: Finding, guard: SegmentGuard) -> None:
        """Draw a segment's speech anew from before its fault, with care at first; `guard` is to
        watch it.
        """
        segment = self._segments[-1]
        segment.was_mended = True
        segment.guard = guard
        self.take_back(finding.num_frames)
        self._mending = Mending.of(finding, self.options.sampling, self.num_frames)

    def remaining_s(self, pace_ratio: float = 1.0) -> float:
        """Speech still to come by what is known of the text, in seconds.

        Args:
            pace_ratio: How long segments are, lately, over what is likely at middling pace.
        """
        frames = pace_ratio * sum(segment.likely_frames(self._layout) for segment in self.pending)
        if self._segments:
            likely = self._segments[-1].likely_frames
            frames += max(0.0, pace_ratio * likely - self._segment_frames)
        return frames / self._layout.frames_per_second

    @property
    def spoken_s(self) -> float:
        """Speech made so far, in seconds."""
        return self.num_frames / self._layout.frames_per_second

    def pace_ratio(self) -> float:
        """How long the current segment became over what was likely."""
        return self._segment_frames / self._segments[-1].likely_frames

    @property
    def _segment_frames(self) -> int:
        """Frames of the segment being spoken."""
        return self.num_frames - self._segments[-1].first_frame

    def keep_segments(self, count: int) -> None:
        """Forget all but the last `count` segments; every position changes, so the sequence has
        no blocks any more.
        """
        assert not self._blocks
        self._segments = self._segments[len(self._segments) - count :] if count else []
        start = self._segments[0].start if self._segments else len(self.token_ids)
        del self.token_ids[:start]
        for segment in self._segments:
            segment.start -= start

    def length_of_last(self, count: int) -> int:
        """Tokens in the last `count` segments, prompts and speech."""
        return len(self.token_ids) - self._segments[-count].start if count else 0

    def add_blocks(self, blocks: list[int]) -> None:
        """Extend the block table."""
        if blocks:
            self._blocks += blocks
            self._block_table = tuple(self._blocks)

    def attach_blocks(self, blocks: list[int], num_computed: int) -> None:
        """Extend a table of published blocks by more; they hold all of `num_computed` tokens."""
        assert self.num_published == len(self._blocks)
        self.add_blocks(blocks)
        self.num_computed = num_computed
        self.num_published = len(self._blocks)

    def publish_block(self, index: int, block: int) -> None:
        """The next unpublished block, number `index` of the table, is published, as `block`."""
        assert index == self.num_published
        if block != self._blocks[index]:
            self._blocks[index] = block
            self._block_table = tuple(self._blocks)
        self.num_published = index + 1

    def cut_cache(self, num_blocks: int, num_computed: int) -> list[int]:
        """Give the blocks behind the first `num_blocks` back; `num_computed` tokens stay valid."""
        blocks = self._blocks[num_blocks:]
        del self._blocks[num_blocks:]
        self._block_table = tuple(self._blocks)
        self.num_computed = num_computed
        self.num_published = min(self.num_published, num_blocks)
        return blocks

    def forget_cache(self) -> list[int]:
        """Give all blocks back; every token is to be computed again."""
        self.num_found = 0
        return self.cut_cache(0, 0)

    def starve(self, now: float) -> None:
        """Start to wait for text."""
        self.starved_since = now

    def feed(self, now: float) -> None:
        """Stop waiting for text."""
        if self.starved_since is not None:
            self.text_at = now
            self._starved_s += now - self.starved_since
            self.starved_since = None

    def park(self, now: float) -> None:
        """Start to wait for the listener."""
        self.parked_since = now

    def unpark(self, now: float) -> None:
        """Stop waiting for the listener."""
        if self.parked_since is not None:
            self._parked_s += now - self.parked_since
            self.parked_since = None

    def timings(self, freed_at: float) -> EngineTimings:
        """Where the request's time went, were its slot free at `freed_at`."""
        self.feed(freed_at)
        self.unpark(freed_at)
        return EngineTimings(
            first_segment_at=self.first_segment_at,
            scheduled_at=self.scheduled_at,
            first_token_at=self.first_token_at,
            last_token_at=self.last_token_at,
            starved_s=self._starved_s,
            parked_s=self._parked_s,
            freed_at=freed_at,
        )
