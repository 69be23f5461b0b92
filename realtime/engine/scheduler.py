"""Who runs in the next step and what becomes of its tokens. Sole owner of sequences and KV blocks;
no torch, no I/O.

`schedule` produces a `StepPlan`, `commit` consumes its `StepResult`; between the two, requests are
started, fed, cancelled. Everything that is to leave the engine is collected in order and handed
over by `take_outputs`.
"""

import math

import msgspec

from realtime.clock import Clock
from realtime.engine.admission import Admission, AdmissionLimits
from realtime.engine.capacity import Capacity
from realtime.engine.deadlines import DeadlinePolicy, StepBudget, Work, share_step
from realtime.engine.guards import Fault, Finding, GuardLimits, SegmentGuard
from realtime.engine.plan import (
    Draw,
    NewFrame,
    Output,
    Phase,
    RequestOptions,
    SequenceSlice,
    SpeechLayout,
    StepPlan,
    StepResult,
)
from realtime.engine.residency import Residency
from realtime.engine.sequence import HeldFrame, PendingSegment, Sequence
from realtime.engine.step_log import StepLog
from realtime.engine.step_time import StepSample
from realtime.errors import SpeechError, TextTooLongError
from realtime.messages import Failed, Finished, FinishReason, SegmentSpoken


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
    max_wait_s: float
    prefix_cache: bool = True
    num_kept_blocks: int = 0
    guards: GuardLimits = GuardLimits()

    def __post_init__(self) -> None:
        if self.max_step_tokens < self.max_streams:
            raise ValueError(
                f"max_step_tokens {self.max_step_tokens} is below max_streams {self.max_streams}"
            )


class Scheduler:
    """Continuous batching over a paged KV cache, to each listener's deadline.

    What a step computes is `deadlines.share_step`'s choice, who may start `Admission`'s. Out of
    blocks, an idle sequence loses its blocks before an active one, the youngest first; it is
    computed again later.

    Args:
        limits: The bounds.
        layout: The voice's facts.
        clock: Of every decision.
        policy: The marks of `share_step`.
        capacity: How many listeners keep their rate, and what a step takes.

    Attributes:
        num_tokens_total: Speech tokens drawn.
        num_late_total: Times that a listener was found dry.
        num_mended: Segments drawn anew from before a fault, by fault.
        num_given_up: Segments ended because of a fault, by fault.
    """

    def __init__(
        self,
        limits: SchedulerLimits,
        layout: SpeechLayout,
        clock: Clock,
        *,
        policy: DeadlinePolicy,
        capacity: Capacity,
    ) -> None:
        if limits.num_blocks * limits.block_size < layout.max_positions:
            raise ValueError(
                f"{limits.num_blocks} KV blocks of {limits.block_size} tokens "
                f"do not hold one sequence of {layout.max_positions}"
            )
        self.limits = limits
        self._policy = policy
        self._capacity = capacity
        self._layout = layout
        self._clock = clock
        self._residency = Residency(
            limits.num_blocks,
            limits.block_size,
            has_prefix_cache=limits.prefix_cache,
            num_kept=limits.num_kept_blocks,
        )
        self._budget = StepBudget(
            max_tokens=limits.max_step_tokens,
            token_s=1.0 / layout.tokens_per_second,
            predict=capacity.step_time.predict,
        )
        self._frame_s = 1.0 / layout.frames_per_second
        self._sequences: dict[int, Sequence] = {}
        self._running: dict[int, Sequence] = {}  # in order of admission: oldest first
        self._admission = Admission(
            AdmissionLimits(
                max_streams=limits.max_streams,
                max_waiting=limits.max_waiting,
                max_wait_s=limits.max_wait_s,
            ),
            capacity,
            self._running,
        )
        self._free_slots = list(range(limits.max_streams - 1, -1, -1))
        self._outputs: list[Output] = []
        self._steps = StepLog()
        self._num_arrivals = 0
        self._max_unheard_samples = int(limits.max_unheard_s * layout.sample_rate_hz)
        self._max_frames = max(1, int(limits.max_request_s * layout.frames_per_second))
        self.num_tokens_total = 0
        self.num_late_total = 0
        self.num_mended = dict.fromkeys(Fault, 0)
        self.num_given_up = dict.fromkeys(Fault, 0)

    @property
    def num_running(self) -> int:
        """Requests that hold a slot."""
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        """Requests with text that wait for their start."""
        return self._admission.num_waiting

    @property
    def num_parked(self) -> int:
        """Requests with a slot that are ahead of their listener."""
        return sum(sequence.parked_since is not None for sequence in self._running.values())

    @property
    def most_streams(self) -> int:
        """Listeners that this machine keeps at their rate now."""
        return self._admission.most_streams(self._clock.now())

    @property
    def step_correction(self) -> float:
        """How many times longer steps take than at calibration."""
        return self._capacity.step_time.correction

    @property
    def num_refused(self) -> dict[str, int]:
        """Requests that were told to come back later."""
        return self._admission.num_refused

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
    def num_prefilled_total(self) -> int:
        """Tokens computed more than one at a time."""
        return self._residency.num_prefilled_total

    @property
    def num_prefix_hits_total(self) -> int:
        """Tokens that the prefix cache had, so that they were not prefilled."""
        return self._residency.num_found_total

    def start(self, request_id: int, options: RequestOptions) -> None:
        """Open a request; it takes part from its first segment on."""
        assert request_id not in self._sequences, f"request {request_id} started twice"
        self._num_arrivals += 1
        self._sequences[request_id] = Sequence(
            request_id, arrival=self._num_arrivals, options=options, layout=self._layout
        )

    def options_of(self, request_id: int) -> RequestOptions | None:
        """What was decided when a request opened; `None` where it is already over."""
        sequence = self._sequences.get(request_id)
        return None if sequence is None else sequence.options

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
        segment = PendingSegment(index, prompt, num_phonemes, sequence.options.speed)
        if len(prompt) + 1 + self._layout.tokens_per_frame > self._layout.max_positions:
            self.fail(request_id, _too_long(segment, self._layout))
            return
        if sequence.first_segment_at is None:
            refusal = self._admission.add(sequence, now)
            if refusal is not None:
                self.fail(request_id, refusal)
                return
            sequence.first_segment_at = now
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

    def report_playback(
        self, request_id: int, sent_samples: int, played_samples: int | None = None
    ) -> None:
        """How far the listener is: what its socket has taken, and what it says it has played."""
        sequence = self._sequences.get(request_id)
        if sequence is None:
            return
        sequence.sent_samples = max(sequence.sent_samples, sent_samples)
        if played_samples is not None:
            frames = sequence.num_frames - len(sequence.held_frames)
            unheard_s = frames * self._frame_s - played_samples / self._layout.sample_rate_hz
            sequence.listener.heard(unheard_s, self._clock.now())

    def schedule(self) -> StepPlan:
        """The next step; without slices when there is nothing to compute."""
        now = self._clock.now()
        while (overdue := self._admission.overdue(now)) is not None:
            self.fail(overdue[0].request_id, overdue[1])
        self._unpark(now)
        self._admit(now)
        planned: dict[int, SequenceSlice] = {}

        def claim(request_id: int, count: int) -> bool:
            sequence = self._running[request_id]
            if not self._reserve(sequence, count, planned):
                return False
            planned[request_id] = self._slice(sequence, count)
            return True

        share_step(
            self._work(now),
            self._policy,
            self._budget,
            now,
            claim,
        )
        plan = StepPlan(tuple(planned.values()))
        if plan.slices:
            self._steps.begin(plan)
        return plan

    def wake_at(self) -> float:
        """When there may be something to do without a message; infinity if never."""
        at = self._admission.wake_at()
        for sequence in self._running.values():
            if sequence.parked_since is not None and not self._is_unheard(sequence):
                at = min(at, self._unparks_at(sequence))
        return at

    def observe(self, plan: StepPlan, seconds: float) -> None:
        """How long a planned step took, everything around it included."""
        num_rows = len(plan.slices)
        num_context = sum(piece.first_position for piece in plan.slices)
        self._capacity.step_time.observe(
            StepSample(num_rows, plan.num_tokens - num_rows, num_context, seconds)
        )

    def commit(self, plan: StepPlan, result: StepResult) -> None:
        """Take over what a step computed: cache positions, new tokens, finished frames, segments
        and requests.
        """
        now = self._clock.now()
        self._steps.end(plan, now)
        drawn = iter(result.token_ids)
        for piece in plan.slices:
            token_id = next(drawn) if piece.draw is not None else None
            sequence = self._running.get(piece.request_id)
            if sequence is None:
                continue  # cancelled while the step ran
            self._residency.commit(sequence, piece.end_position)
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
        self._admission.check_invariants()
        for sequence in self._sequences.values():
            assert sequence.num_computed <= len(sequence.token_ids)
            assert len(sequence.token_ids) <= self._layout.max_positions
            assert (sequence.slot is not None) == (sequence.request_id in self._running)
            is_waiting = self._admission.is_waiting(sequence.request_id)
            assert is_waiting == (sequence.slot is None and bool(sequence.pending))
            assert sequence.is_idle or sequence.slot is None or sequence.num_uncomputed > 0

    def _is_unheard(self, sequence: Sequence) -> bool:
        """Whether the socket is so far behind that even half of it is too much."""
        return 2 * self._unsent_samples(sequence) >= self._max_unheard_samples

    def _unparks_at(self, sequence: Sequence) -> float:
        dry_at = sequence.listener.dry_at
        if sequence.is_batch or dry_at is None:
            return -math.inf
        return dry_at - self._policy.low_water_s

    def _unpark(self, now: float) -> None:
        """Let those go on whose listener has caught up."""
        for sequence in self._running.values():
            if (
                sequence.parked_since is not None
                and self._unparks_at(sequence) <= now
                and not self._is_unheard(sequence)
            ):
                sequence.unpark(now)

    def _is_ahead(self, sequence: Sequence, now: float) -> bool:
        """Whether a stream is to be parked; not while its listener waits for frames held here."""
        if sequence.held_frames:
            return False
        if self._unsent_samples(sequence) > self._max_unheard_samples:
            return True
        return not sequence.is_batch and sequence.listener.lead_s(now) > self._policy.high_water_s

    def _work(self, now: float) -> list[Work]:
        """What each stream could do next; notes whether a listener has run dry."""
        work: list[Work] = []
        for sequence in self._running.values():
            if sequence.is_idle:
                continue
            self._residency.attach(sequence, self._running.values())
            dry_at = sequence.listener.dry_at
            if dry_at is not None and dry_at < now and not sequence.is_batch:
                self.num_late_total += 1
                self._admission.note_late(now)
            work.append(
                Work(
                    sequence.request_id,
                    sequence.num_uncomputed,
                    sequence.num_computed,
                    dry_at,
                    sequence.arrival,
                    sequence.is_batch,
                )
            )
        return work

    def _admit(self, now: float) -> None:
        """Start waiting requests while their prompts find blocks."""
        if not self._admission.num_waiting or not self._free_slots:
            return
        running = list(self._running.values())
        evicted = [s for s in running if s.is_evicted and not s.is_idle]
        if any(not s.is_batch for s in evicted):
            return  # older work waits for blocks
        # batch work gives way to listeners, and only to them
        for_listener = [s for s in running if s.is_idle or s.is_batch]
        for_batch = [s for s in running if s.is_idle and s.is_batch]
        num_promised = 0

        def may_start(sequence: Sequence) -> bool:
            nonlocal num_promised
            if sequence.is_batch and evicted:
                return False
            weaker = for_batch if sequence.is_batch else for_listener
            needed = self._residency.blocks_for(len(sequence.pending[0].prompt) + 1)
            room = self._residency.num_free + self._residency.num_reclaimable(weaker)
            if needed > room - num_promised and len(weaker) < len(self._running):
                return False  # else all blocks are theirs, whatever they share
            num_promised += needed
            sequence.slot = self._free_slots.pop()
            sequence.scheduled_at = now
            self._running[sequence.request_id] = sequence
            self._begin_segment(sequence)
            return True

        self._admission.start(len(self._free_slots), now, may_start)

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
            self._restart(sequence, kept)
        sequence.begin_segment(segment, self._new_guard())

    def _restart(self, sequence: Sequence, num_kept: int) -> None:
        """Begin a chain anew with the last segments; what it had computed is at other positions."""
        self._residency.release(sequence)
        sequence.keep_segments(num_kept)

    def _slice(self, sequence: Sequence, count: int) -> SequenceSlice:
        assert sequence.slot is not None
        first = sequence.num_computed
        is_decoding = first and sequence.num_uncomputed == 1
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
            Phase.DECODE if is_decoding else Phase.PREFILL,
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
        sequence.held_frames.append(HeldFrame(sequence.num_frames - 1, codes, sequence.text_at))
        sequence.text_at = None
        if sequence.num_frames == 1 and sequence.options.wants_audio and not sequence.is_batch:
            sequence.start_frames = self._policy.start_frames(
                self._frame_time(sequence, now), self._codec_s(), self._frame_s
            )
        if sequence.num_frames >= sequence.start_frames:
            self._let_go(sequence, now)
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
            self._restart(sequence, kept)
            if self._is_full(sequence):
                self._restart(sequence, 1)
        is_running = sequence.request_id in self._running and not sequence.is_idle
        if is_running and self._is_ahead(sequence, now):
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

    def _codec_s(self) -> float:
        """How long a codec call takes by now: a frame may have to wait for one and for its own."""
        codec_time = self._capacity.codec_time
        return 0.0 if codec_time is None else 2 * codec_time.predict(len(self._running))

    def _frame_time(self, sequence: Sequence, now: float) -> float:
        """How long the first frame took, from the intervals between its tokens."""
        num_tokens = self._layout.tokens_per_frame
        if sequence.first_token_at is None or num_tokens == 1:
            return 0.0
        return (now - sequence.first_token_at) * num_tokens / (num_tokens - 1)

    def _end_segment(self, sequence: Sequence, now: float) -> None:
        """Close the current segment: go on with the next one, finish, or wait for text."""
        self._admission.note_pace(sequence.pace_ratio())
        sequence.token_ids.append(self._layout.end_of_speech_id)
        self._let_go(sequence, now)
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

    def _let_go(self, sequence: Sequence, now: float) -> None:
        """Emit the frames that are held: the newest one, or those collected for the start."""
        assert sequence.slot is not None
        for held in sequence.held_frames:
            self._outputs.append(
                NewFrame(
                    sequence.request_id,
                    sequence.slot,
                    held.frame,
                    held.codes,
                    sequence.listener.let_go(now),
                    sequence.options.wants_audio,
                    sequence.options.wants_tokens,
                    held.text_at,
                    sequence.options.speaker,
                )
            )
        sequence.held_frames.clear()

    def _finish(
        self, sequence: Sequence, reason: FinishReason, orphaned: tuple[int, int] = (0, 0)
    ) -> None:
        if reason != "cancelled" and sequence.held_frames:
            self._let_go(sequence, self._clock.now())
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
        self._residency.release(sequence)
        if sequence.slot is not None:
            del self._running[sequence.request_id]
            self._free_slots.append(sequence.slot)
            sequence.slot = None
            self._admission.left(sequence, self._clock.now())
        elif self._admission.is_waiting(sequence.request_id):
            self._admission.remove(sequence)

    def _unsent_samples(self, sequence: Sequence) -> int:
        """Samples generated beyond what the listener's socket has taken."""
        return sequence.num_frames * self._layout.samples_per_frame - sequence.sent_samples

    def _is_full(self, sequence: Sequence) -> bool:
        """Whether another frame and its END would pass the trained length."""
        return (
            len(sequence.token_ids) + self._layout.tokens_per_frame + 1 > self._layout.max_positions
        )


def _too_long(segment: PendingSegment, layout: SpeechLayout) -> SpeechError:
    return TextTooLongError(
        f"segment {segment.index} has {len(segment.prompt)} prompt tokens; "
        f"the voice holds {layout.max_positions} in all"
    )
