"""Frames to PCM messages, batched over streams and frames; on the caller's thread or on one of its
own.

Knows slots and their codec state. Order within a request is kept; a slot's state belongs to the
request that it names.
"""

import queue
import threading
from collections.abc import Callable, Sequence

import msgspec
import torch
from torch import Tensor

from models.codec.decoder import CodecDecoder
from realtime.clock import Clock
from realtime.engine.codec_queue import CodecQueue
from realtime.engine.plan import NewFrame, Output
from realtime.engine.step_time import StepSample, StepTime
from realtime.messages import Failed, Finished, FromEngine, OutputChunk, SegmentSpoken

_SMOOTHING = 0.1  # weight of the newest call in `decode_s`
_FULL_SCALE = 32767.0
_Mark = SegmentSpoken | Finished | Failed


class CodecStage:
    """Turns the scheduler's outputs into messages, decoding all their frames in as few calls as
    possible.

    Args:
        decoder: The voice's codec.
        max_streams: Slots.
        clock: For `decode_s` and `busy_since`.
        codec_time: Learns what calls take; read by the loop, written here alone.

    Attributes:
        decode_s: Smoothed time of one batched decoder call.
        busy_since: When the running decoder call began; `None` between calls.
    """

    def __init__(
        self,
        decoder: CodecDecoder,
        max_streams: int,
        clock: Clock,
        codec_time: StepTime | None = None,
    ) -> None:
        self._decoder = decoder
        self._clock = clock
        self._codec_time = codec_time
        self._state = decoder.new_state(max_streams)
        self._owners: list[int | None] = [None] * max_streams
        self._num_emitted: dict[int, int] = {}
        self.decode_s = 0.0
        self.busy_since: float | None = None

    @torch.inference_mode()
    def decode(self, outputs: Sequence[Output]) -> list[FromEngine]:
        """Messages for `outputs`, in order within each request.

        Frames of a request that these outputs also end by cancel or failure are dropped undecoded.
        """
        groups = _group(outputs)
        pcm = self._decode_frames(
            [group for group in groups if isinstance(group, list) and group[0].wants_audio]
        )
        return [
            self._chunk(group, pcm) if isinstance(group, list) else self._close(group)
            for group in groups
        ]

    def _decode_frames(self, groups: list[list[NewFrame]]) -> dict[tuple[int, int], bytes]:
        """PCM by request and frame; each round decodes as many frames as every stream in it still
        has.
        """
        left: dict[int, list[NewFrame]] = {}
        for group in groups:
            left.setdefault(group[0].request_id, []).extend(group)
        pcm: dict[tuple[int, int], bytes] = {}
        while left:
            streams: dict[int, list[NewFrame]] = {}
            for frames in left.values():
                streams.setdefault(
                    frames[0].slot, frames
                )  # a reused slot's next request has to wait
            count = min(map(len, streams.values()))
            batch = [frames[:count] for frames in streams.values()]
            for frames, samples in zip(batch, self._decode_batch(batch), strict=True):
                for frame, part in zip(frames, samples.split(len(samples) // count), strict=True):
                    pcm[frame.request_id, frame.frame] = part.numpy().tobytes()
                request_id = frames[0].request_id
                del left[request_id][:count]
                if not left[request_id]:
                    del left[request_id]
        return pcm

    def _decode_batch(self, batch: list[list[NewFrame]]) -> Tensor:
        """The same number of frames of each of B different slots: int16 `[B, F *
        samples_per_frame]` on the CPU.
        """
        self.busy_since = started_at = self._clock.now()
        device = self._state.hops.device
        self._claim_slots([frames[0] for frames in batch])
        rows = torch.tensor([frames[0].slot for frames in batch], device=device)
        codes = torch.tensor([[frame.codes for frame in frames] for frames in batch], device=device)
        samples, after = self._decoder(codes, self._state.gather(rows))
        self._state.scatter(rows, after)
        pcm = (samples * _FULL_SCALE).round_().to(torch.int16).cpu()
        self.busy_since = None
        seconds = self._clock.now() - started_at
        self.decode_s += _SMOOTHING * (seconds - self.decode_s)
        if self._codec_time is not None:
            self._codec_time.observe(StepSample(codes.shape[0] * codes.shape[1], 0, 0, seconds))
        return pcm

    def _claim_slots(self, firsts: list[NewFrame]) -> None:
        """Give slots that now belong to another request a fresh state."""
        claimed = [frame for frame in firsts if self._owners[frame.slot] != frame.request_id]
        if not claimed:
            return
        for frame in claimed:
            assert frame.frame == 0, f"request {frame.request_id} lost its codec state"
            self._owners[frame.slot] = frame.request_id
        device = self._state.hops.device
        rows = torch.tensor([frame.slot for frame in claimed], device=device)
        speakers = torch.tensor([frame.speaker for frame in claimed], device=device)
        self._state.scatter(rows, self._decoder.new_state(len(claimed), speakers))

    def _chunk(self, frames: list[NewFrame], pcm: dict[tuple[int, int], bytes]) -> OutputChunk:
        first = frames[0]
        self._num_emitted[first.request_id] = frames[-1].frame + 1
        return OutputChunk(
            request_id=first.request_id,
            first_frame=first.frame,
            num_frames=len(frames),
            pcm=b"".join(pcm[frame.request_id, frame.frame] for frame in frames)
            if first.wants_audio
            else b"",
            codes=tuple(code for frame in frames for code in frame.codes)
            if first.wants_tokens
            else (),
            text_at=first.text_at,
        )

    def _close(self, mark: _Mark) -> FromEngine:
        if isinstance(mark, SegmentSpoken):
            return mark
        num_emitted = self._num_emitted.pop(mark.request_id, 0)
        if isinstance(mark, Finished):
            return msgspec.structs.replace(mark, num_frames=num_emitted)
        return mark


class CodecThread:
    """Runs a `CodecStage` on its own thread behind a bounded queue; `CodecQueue` says when frames
    have waited long enough for company.

    Args:
        stage: Used by this thread only.
        emit: Takes the messages, on this thread.
        clock: The one of the frames' `needed_at`.
        on_error: Called on this thread when the stage or `emit` raised; nothing is decoded
            afterwards.
        capacity: Submissions that may wait; beyond them `submit` waits.
        prepare: Called first on this thread, for its thread-local settings.
    """

    def __init__(
        self,
        stage: CodecStage,
        emit: Callable[[list[FromEngine]], None],
        *,
        clock: Clock,
        on_error: Callable[[BaseException], None],
        capacity: int = 64,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        self._stage = stage
        self._emit = emit
        self._clock = clock
        self._on_error = on_error
        self._prepare = prepare
        self._is_closing = False
        self._queue: queue.Queue[list[Output] | None] = queue.Queue(capacity)
        self._thread = threading.Thread(target=self._run, name="codec", daemon=True)
        self._thread.start()

    def submit(self, outputs: list[Output]) -> None:
        """Hand over outputs; waits while the queue is full."""
        self._queue.put(outputs)

    def close(self) -> None:
        """Emit what was submitted, then stop."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            if self._prepare is not None:
                self._prepare()
            while outputs := self._take():
                self._emit(self._stage.decode(outputs))
        except Exception as error:  # noqa: BLE001 - the owner ends the process
            self._on_error(error)

    def _take(self) -> list[Output]:
        """Everything that is queued once something of it is due; empty at the end."""
        waiting = CodecQueue()
        while not self._is_closing:
            try:
                more = self._next(waiting.due_at - self._clock.now() if len(waiting) else None)
            except queue.Empty:
                break
            if more is None:
                self._is_closing = True
            else:
                waiting.add(more)
        return waiting.take()

    def _next(self, patience_s: float | None) -> list[Output] | None:
        """The next submission, `None` at the end; `None` patience waits for it."""
        if patience_s is None:
            return self._queue.get()
        return self._queue.get(block=patience_s > 0, timeout=max(patience_s, 0.0))


class CodecInline:
    """The same on the caller's thread: for tests, and where there is no second core."""

    def __init__(self, stage: CodecStage, emit: Callable[[list[FromEngine]], None]) -> None:
        self._stage = stage
        self._emit = emit

    def submit(self, outputs: list[Output]) -> None:
        """Decode and emit now."""
        self._emit(self._stage.decode(outputs))

    def close(self) -> None:
        """Nothing is held back."""


def _group(outputs: Sequence[Output]) -> list[list[NewFrame] | _Mark]:
    """Runs of frames of one request, and marks; a request's frames are not moved past its marks."""
    dropped = {
        output.request_id
        for output in outputs
        if isinstance(output, Failed)
        or (isinstance(output, Finished) and output.reason == "cancelled")
    }
    groups: list[list[NewFrame] | _Mark] = []
    unfinished: dict[int, list[NewFrame]] = {}
    for output in outputs:
        if not isinstance(output, NewFrame):
            unfinished.pop(output.request_id, None)
            groups.append(output)
        elif output.request_id not in dropped:
            run = unfinished.get(output.request_id)
            if run is None:
                run = unfinished[output.request_id] = []
                groups.append(run)
            run.append(output)
    return groups
