"""Who runs in the next step and what becomes of its tokens. Sole owner of sequences and KV blocks;
no torch, no I/O.

`schedule` produces a `StepPlan`, `commit` consumes its `StepResult`; between the two, requests are
started, fed, cancelled. Everything that is to leave the engine is collected in order and handed
over by `take_outputs`.
"""

from collections import deque

import msgspec

from realtime.clock import Clock
from realtime.engine.guards import Fault, Finding, GuardLimits, SegmentGuard
from realtime.engine.plan import (
    Draw,
    NewFrame,
    Output,
    Phase,
    SamplingSettings,
    SequenceSlice,
    SpeechLayout,
    StepPlan,
    StepResult,
)
from realtime.engine.residency import Residency
from realtime.engine.sequence import PendingSegment, Sequence
from realtime.engine.step_log import StepLog
from realtime.errors import CapacityError, SpeechError, TextTooLongError
from realtime.messages import Failed, Finished, FinishReason, SegmentSpoken

_FEW_STREAMS = 2  # with more, a second frame may take longer than the first one plays
_SMOOTHING = 0.2  # weight of the newest request in the mean time that a slot is held


class SchedulerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds that the scheduler keeps. Fields as in `EngineConfig`; `num_blocks` is what the KV
    cache has, `num_kept_blocks` what the prefix cache may keep of it rather than save memory.

    Raises:
        ValueError: A full set of streams does not fit into a step, or no sequence of full length
            into the cache.
    """

    max_streams: int
    max_waiting: int
    max_step_tokens: int
    block_size: int
    num_blocks: int
    max_unheard_s: float
    max_request_s: float
    prefix_cache: bool = True
    num_kept_blocks: int = 0
    guards: GuardLimits = GuardLimits()

    def __post_init__(self) -> None:
        if self.max_step_tokens < self.max_streams:
            raise ValueError(
                f"max_step_tokens {self.max_step_tokens} is below max_streams {self.max_streams}"
            )


class Scheduler:
    """Continuous batching over a paged KV cache.

    Order of work: one token for every stream that is decoding, oldest first, then prefill in what
    the token budget leaves. Out of blocks, an idle sequence loses its blocks before an active one,
    the youngest first; it is computed again later.
    """

    def __init__(self, limits: SchedulerLimits, layout: SpeechLayout, clock: Clock) -> None:
        if limits.num_blocks * limits.block_size < layout.max_positions:
            raise ValueError(
                f"{limits.num_blocks} KV blocks of {limits.block_size} tokens "
                f"do not hold one sequence of {layout.max_positions}"
            )
        self.limits = limits
        self._layout = layout
        self._clock = clock
        self._residency = Residency(
            limits.num_blocks,
            limits.block_size,
            has_prefix_cache=limits.prefix_cache,
            num_kept=limits.num_kept_blocks,
        )
        self._sequences: dict[int, Sequence] = {}
        self._waiting: deque[Sequence] = deque()
        self._running: dict[int, Sequence] = {}  # in order of admission: oldest first
        self._free_slots = list(range(limits.max_streams - 1, -1, -1))
        self._outputs: list[Output] = []
        self._steps = StepLog()
        self._num_arrivals = 0
        self._slot_held_s = 1.0
        self._max_unheard_samples = int(limits.max_unheard_s * layout.sample_rate_hz)
        self._max_frames = max(1, int(limits.max_request_s * layout.frames_per_second))
        self.num_tokens_total = 0
        self.num_mended = dict.fromkeys(Fault, 0)  # segments, since the start
        self.num_given_up = dict.fromkeys(Fault, 0)

    @property
    def num_running(self) -> int:
        """Requests that hold a slot."""
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        """Requests with text that wait for a slot."""
        return len(self._waiting)

    @property
    def num_open(self) -> int:
        """Requests that are neither finished nor failed."""
        return len(self._sequences)

    @property
    def num_free_blocks(self) -> int:
        """KV blocks that nobody holds."""
        return self._residency.num_free

    @property
    def num_preempted_total(self) -> int:
        """Times that a sequence lost its blocks to another."""
        return self._residency.num_evicted_total

    @property
    def num_prefix_tokens_total(self) -> int:
        """Tokens of sequences that came without blocks: new, restarted or preempted."""
        return self._residency.num_queried_total

    @property
    def num_prefix_hits_total(self) -> int:
        """Those of them that the prefix cache had."""
        return self._residency.num_hit_total

    def start(
        self,
        request_id: int,
        settings: SamplingSettings,
        *,
        wants_audio: bool = True,
        wants_tokens: bool = False,
    ) -> None:
        """Open a request; it takes part from its first segment on."""
        assert request_id not in self._sequences, f"request {request_id} started twice"
        self._num_arrivals += 1
        self._sequences[request_id] = Sequence(
            request_id,
            arrival=self._num_arrivals,
            settings=settings,
            layout=self._layout,
            wants_audio=wants_audio,
            wants_tokens=wants_tokens,
        )

    def append(
        self, request_id: int, index: int, prompt: tuple[int, ...], num_phonemes: int
    ) -> None:
        """Queue a segment of an open request; ignored where the request is already over.

        Args:
            request_id: Of an open request.
            index: The segment's number within the request.
            prompt: Its prompt as token ids.
            num_phonemes: From which the plausible length of its speech follows.
        """
        sequence = self._sequences.get(request_id)
        if sequence is None:
            return
        now = self._clock.now()
        segment = PendingSegment(index, prompt, num_phonemes)
        if len(prompt) + 1 + self._layout.tokens_per_frame > self._layout.max_positions:
            self.fail(request_id, _too_long(segment, self._layout))
            return
        if sequence.first_segment_at is None:
            if len(self._waiting) >= self.limits.max_waiting + len(self._free_slots):
                self.fail(request_id, self._no_room())
                return
            sequence.first_segment_at = now
            self._waiting.append(sequence)
        sequence.pending.append(segment)
        if sequence.starved_since is not None:
            sequence.feed(now)
            self._begin_segment(sequence)

    def end_text(self, request_id: int) -> None:
        """No further segment comes; a request with nothing left to speak finishes now."""
        sequence = self._sequences.get(request_id)
        if sequence is None:
            return
        sequence.has_all_text = True
        if sequence.first_segment_at is None or sequence.starved_since is not None:
            self._finish(sequence, "guard" if sequence.was_guarded else "end_of_speech")

    def cancel(self, request_id: int, sent_at: float | None = None) -> None:
        """Free a request's slot and blocks now; ignored where it is already over.

        Args:
            request_id: Of any request.
            sent_at: When its caller gave it up: what was computed for it since then is counted.
        """
        sequence = self._sequences.get(request_id)
        if sequence is None:
            return
        orphaned = (0, 0) if sent_at is None else self._steps.work_since(request_id, sent_at)
        self._finish(sequence, "cancelled", orphaned)

    def fail(self, request_id: int, error: SpeechError) -> None:
        """End one request with an error; the others are not touched. Ignored where it is already
        over.
        """
        sequence = self._sequences.get(request_id)
        if sequence is None:
            return
        self._release(sequence)
        self._outputs.append(
            Failed(
                request_id=request_id,
                code=error.code,
                message=error.message,
                retry_after_s=error.retry_after_s,
            )
        )

    def report_playback(self, request_id: int, sent_samples: int) -> None:
        """The listener's socket has taken this many samples; may resume a parked stream."""
        sequence = self._sequences.get(request_id)
        if sequence is None:
            return
        sequence.sent_samples = max(sequence.sent_samples, sent_samples)
        if (
            sequence.parked_since is not None
            and 2 * self._lead(sequence) < self._max_unheard_samples
        ):
            sequence.unpark(self._clock.now())

    def schedule(self) -> StepPlan:
        """The next step; without slices when there is nothing to compute."""
        self._admit()
        active = [sequence for sequence in self._running.values() if not sequence.is_idle]
        for sequence in active:
            self._residency.attach(sequence)
        decoding = [s for s in active if s.num_computed and s.num_uncomputed == 1]
        prefilling = [s for s in active if not s.num_computed or s.num_uncomputed > 1]
        planned: dict[int, SequenceSlice] = {}
        budget = self.limits.max_step_tokens
        for phase, group in ((Phase.DECODE, decoding), (Phase.PREFILL, prefilling)):
            for sequence in group:
                count = min(sequence.num_uncomputed, budget)
                if count and self._reserve(sequence, count, planned):
                    planned[sequence.request_id] = self._slice(sequence, count, phase)
                    budget -= count
        plan = StepPlan(tuple(planned.values()))
        if plan.slices:
            self._steps.begin(plan)
        return plan

    def commit(self, plan: StepPlan, result: StepResult) -> None:
        """Take over what a step computed: cache positions, new tokens, finished frames, segments
        and requests.
        """
        now = self._clock.now()
        self._steps.end(now)
        drawn = iter(result.token_ids)
        for piece in plan.slices:
            token_id = next(drawn) if piece.draw is not None else None
            sequence = self._running.get(piece.request_id)
            if sequence is None:
                continue  # cancelled while the step ran
            sequence.num_computed = piece.end_position
            self._residency.publish(sequence)
            if token_id is not None:
                self._accept(sequence, token_id, now)

    def take_outputs(self) -> list[Output]:
        """Everything to emit since the last call, in order."""
        outputs, self._outputs = self._outputs, []
        return outputs

    def check_invariants(self) -> None:
        """Assert that slots, blocks and positions are consistent."""
        running = list(self._running.values())
        self._residency.check_invariants(running)
        slots = [sequence.slot for sequence in running]
        assert sorted([*self._free_slots, *(slot for slot in slots if slot is not None)]) == list(
            range(self.limits.max_streams)
        )
        waiting = list(self._waiting)
        assert len(waiting) <= self.limits.max_waiting + len(self._free_slots)
        for sequence in self._sequences.values():
            assert sequence.num_computed <= len(sequence.token_ids)
            assert len(sequence.token_ids) <= self._layout.max_positions
            assert (sequence.slot is not None) == (sequence.request_id in self._running)
            assert (sequence in waiting) == (sequence.slot is None and bool(sequence.pending))
            assert sequence.is_idle or sequence.slot is None or sequence.num_uncomputed > 0

    def _admit(self) -> None:
        """Give free slots to waiting requests, first come first served, while their prompts find
        blocks.
        """
        if any(s.is_evicted and not s.is_idle for s in self._running.values()):
            return  # older work waits for blocks
        if not self._waiting or not self._free_slots:
            return
        idle = [sequence for sequence in self._running.values() if sequence.is_idle]
        room = self._residency.num_free + self._residency.num_reclaimable(idle)
        while self._waiting and self._free_slots:
            sequence = self._waiting[0]
            needed = self._residency.blocks_for(len(sequence.pending[0].prompt) + 1)
            if needed > room and len(idle) < len(self._running):
                return  # else all blocks are idle streams', whatever they share
            room -= needed
            self._waiting.popleft()
            sequence.slot = self._free_slots.pop()
            sequence.scheduled_at = self._clock.now()
            self._running[sequence.request_id] = sequence
            self._begin_segment(sequence)

    def _begin_segment(self, sequence: Sequence) -> None:
        """Append the next queued prompt; old segments go where the chain would outgrow the trained
        length.
        """
        segment = sequence.pending.popleft()
        needed = segment.likely_tokens(self._layout)
        held = sequence.num_segments_held
        kept = next(
            count
            for count in (held, min(held, 1), 0)
            if not count or sequence.length_of_last(count) + needed <= self._layout.max_positions
        )
        if kept < held:
            self._residency.release(sequence.keep_segments(kept))
        sequence.begin_segment(segment, self._new_guard())

    def _slice(self, sequence: Sequence, count: int, phase: Phase) -> SequenceSlice:
        assert sequence.slot is not None
        first = sequence.num_computed
        draw = None
        if count == sequence.num_uncomputed:
            settings = sequence.draw_settings
            draw = Draw(
                sequence.position_in_frame,
                sequence.may_end,
                sequence.num_draws,
                settings,
                sequence.recent_codes() if settings.repetition_penalty != 1.0 else (),
                sequence.barred_codes,
            )
        return SequenceSlice(
            sequence.request_id,
            sequence.slot,
            phase,
            tuple(sequence.token_ids[first : first + count]),
            first,
            sequence.block_ids,
            draw,
        )

    def _reserve(self, sequence: Sequence, count: int, planned: dict[int, SequenceSlice]) -> bool:
        """Have blocks for the next `count` tokens; who loses theirs for it leaves the plan."""
        is_reserved, evicted = self._residency.reserve(sequence, count, self._running.values())
        for victim in evicted:
            planned.pop(victim.request_id, None)
        return is_reserved

    def _accept(self, sequence: Sequence, token_id: int, now: float) -> None:
        sequence.num_draws += 1
        if token_id == self._layout.end_of_speech_id:
            self._end_segment(sequence, now)
            return
        if sequence.first_token_at is None:
            sequence.first_token_at = now
        sequence.last_token_at = now
        self.num_tokens_total += 1
        codes = sequence.add_code(token_id)
        if codes is not None:
            self._complete_frame(sequence, codes, now)

    def _complete_frame(self, sequence: Sequence, codes: tuple[int, ...], now: float) -> None:
        assert sequence.slot is not None
        frame = NewFrame(
            sequence.request_id,
            sequence.slot,
            sequence.num_frames - 1,
            codes,
            sequence.next_needed_at(now),
            sequence.wants_audio,
            sequence.wants_tokens,
            sequence.text_at,
        )
        sequence.text_at = None
        if not frame.frame and sequence.wants_audio and len(self._running) > _FEW_STREAMS:
            sequence.held_frame = frame
        else:
            self._let_go(sequence)
            self._outputs.append(frame)
        if sequence.num_frames >= self._max_frames:
            self._finish(sequence, "length")
            return
        finding = sequence.watch(codes)
        if finding is not None and not sequence.was_mended:
            self._mend(sequence, finding)
        elif finding is not None or sequence.is_overlong:
            self._give_up(sequence, finding, now)
        elif self._is_full(sequence):
            kept = 2 if sequence.num_segments_held > 2 else 1
            self._residency.release(sequence.keep_segments(kept))
            if self._is_full(sequence):
                self._residency.release(sequence.keep_segments(1))
        is_running = sequence.request_id in self._running and not sequence.is_idle
        if is_running and self._lead(sequence) > self._max_unheard_samples:
            sequence.park(now)

    def _mend(self, sequence: Sequence, finding: Finding) -> None:
        """Go on from the last good frame."""
        self.num_mended[finding.fault] += 1
        sequence.num_mended += 1
        sequence.mend(finding, self._new_guard())
        self._residency.rewind(sequence)

    def _new_guard(self) -> SegmentGuard:
        return SegmentGuard(self.limits.guards, self._layout)

    def _give_up(self, sequence: Sequence, finding: Finding | None, now: float) -> None:
        """End a segment that cannot be mended; the next one does not go on from its fault."""
        self.num_given_up[Fault.OVERLONG if finding is None else finding.fault] += 1
        sequence.was_guarded = True
        if finding is not None:
            sequence.take_back(finding.num_frames)
            self._residency.rewind(sequence)
        self._end_segment(sequence, now)

    def _end_segment(self, sequence: Sequence, now: float) -> None:
        """Close the current segment: go on with the next one, finish, or wait for text."""
        sequence.token_ids.append(self._layout.end_of_speech_id)
        self._let_go(sequence)
        self._outputs.append(
            SegmentSpoken(
                request_id=sequence.request_id,
                index=sequence.segment_index,
                end_frame=sequence.num_frames,
            )
        )
        if sequence.pending:
            self._begin_segment(sequence)
        elif sequence.has_all_text:
            self._finish(sequence, "guard" if sequence.was_guarded else "end_of_speech")
        else:
            sequence.starve(now)

    def _let_go(self, sequence: Sequence) -> None:
        """Emit the first frame, if it was held back for company."""
        if sequence.held_frame is not None:
            self._outputs.append(sequence.held_frame)
            sequence.held_frame = None

    def _finish(
        self, sequence: Sequence, reason: FinishReason, orphaned: tuple[int, int] = (0, 0)
    ) -> None:
        if reason != "cancelled":
            self._let_go(sequence)
        self._release(sequence)
        self._outputs.append(
            Finished(
                request_id=sequence.request_id,
                reason=reason,
                num_tokens=sequence.num_tokens,
                num_frames=sequence.num_frames,
                num_mended=sequence.num_mended,
                num_orphaned_steps=orphaned[0],
                num_orphaned_tokens=orphaned[1],
                timings=sequence.timings(self._clock.now()),
            )
        )

    def _release(self, sequence: Sequence) -> None:
        """Take a request out of every list and free what it holds."""
        del self._sequences[sequence.request_id]
        self._residency.release(sequence.forget_cache())
        if sequence.slot is not None:
            del self._running[sequence.request_id]
            self._free_slots.append(sequence.slot)
            sequence.slot = None
            if sequence.scheduled_at is not None:
                held_s = self._clock.now() - sequence.scheduled_at
                self._slot_held_s += _SMOOTHING * (held_s - self._slot_held_s)
        elif sequence.first_segment_at is not None:
            self._waiting.remove(sequence)

    def _lead(self, sequence: Sequence) -> int:
        """Samples generated beyond what the listener's socket has taken."""
        return sequence.num_frames * self._layout.samples_per_frame - sequence.sent_samples

    def _is_full(self, sequence: Sequence) -> bool:
        """Whether another frame and its END would pass the trained length."""
        return (
            len(sequence.token_ids) + self._layout.tokens_per_frame + 1 > self._layout.max_positions
        )

    def _no_room(self) -> CapacityError:
        turns = (len(self._waiting) + 1) / self.limits.max_streams
        return CapacityError(
            f"{len(self._running)} requests run and {len(self._waiting)} wait",
            retry_after_s=round(max(0.1, turns * self._slot_held_s), 1),
        )


def _too_long(segment: PendingSegment, layout: SpeechLayout) -> SpeechError:
    return TextTooLongError(
        f"segment {segment.index} has {len(segment.prompt)} prompt tokens; "
        f"the voice holds {layout.max_positions} in all"
    )
