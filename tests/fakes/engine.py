"""A stand-in for the engine: speaks the link, makes noise instead of speech, keeps every rule that
the gateway relies on.

In tests it runs in a thread on one end of a socketpair; as a script (`python tests/fakes/engine.py
--link-fd N`) it is an engine process. Phonemes that contain a marker make it misbehave: see
`MARKERS`.
"""

import argparse
import math
import os
import socket
import struct
import sys
import threading
import time
from dataclasses import dataclass, field

from realtime.link import LinkClosedError, ThreadLink
from realtime.messages import (
    AppendSegment,
    CancelRequest,
    CapacityReport,
    EndText,
    EngineReady,
    EngineTimings,
    Failed,
    Finished,
    FinishReason,
    OutputChunk,
    PlaybackReport,
    SegmentSpoken,
    Shutdown,
    StartRequest,
    VoiceFacts,
)

SAMPLE_RATE_HZ = 24_000
SAMPLES_PER_FRAME = 2048
TOKENS_PER_FRAME = 7
FRAME_S = SAMPLES_PER_FRAME / SAMPLE_RATE_HZ
MARKERS = {"fail": "!fail!", "die": "!die!", "hang": "!hang!", "runaway": "!runaway!"}
_TONE = struct.pack(
    f"<{SAMPLES_PER_FRAME}h",
    *(
        round(8000 * math.sin(2 * math.pi * i * 8 / SAMPLES_PER_FRAME))
        for i in range(SAMPLES_PER_FRAME)
    ),
)


@dataclass
class _Request:
    start: StartRequest
    segments: list[AppendSegment] = field(default_factory=list)
    has_ended: bool = False
    has_slot: bool = False
    segment: int = 0
    frames_left: int = 0
    frame: int = 0
    sent_samples: int = 0
    next_frame_at: float = 0.0
    first_segment_at: float | None = None
    scheduled_at: float | None = None
    first_token_at: float | None = None
    last_token_at: float | None = None


class FakeEngine:
    """Speaks `frames_per_segment` frames of a tone per segment.

    Args:
        sock: The engine's end of the link.
        frame_s: Time to make one frame of one stream; 0 makes frames as fast as the gateway takes
            them.
        max_unheard_s: Lead bound over the gateway's playback reports.
    """

    def __init__(
        self,
        sock: socket.socket,
        *,
        frames_per_segment: int = 4,
        frame_s: float = 0.0,
        max_streams: int = 64,
        max_waiting: int = 64,
        max_unheard_s: float = 20.0,
        report_s: float = 0.1,
        voices: tuple[str, ...] = ("default", "other"),
    ) -> None:
        self._link = ThreadLink(sock)
        self.frames_per_segment = frames_per_segment
        self._frame_s = frame_s
        self._max_streams = max_streams
        self._max_waiting = max_waiting
        self._max_unheard_samples = int(max_unheard_s * SAMPLE_RATE_HZ)
        self._report_s = report_s
        self._voices = voices
        self._reported_at = 0.0
        self._num_tokens = 0
        self._is_hung = False
        self.requests: dict[int, _Request] = {}
        self.playback: dict[int, PlaybackReport] = {}
        self.num_started = 0
        self.num_cancelled = 0

    @property
    def num_running(self) -> int:
        return sum(request.has_slot for request in list(self.requests.values()))

    def run(self) -> None:
        """Serve until the link closes."""
        ready = EngineReady(
            pid=os.getpid(),
            device="cpu",
            dtype="float32",
            voices=tuple(
                VoiceFacts(id=name, language="en-US", licence="Apache-2.0", description="A test's")
                for name in self._voices
            ),
            sample_rate_hz=SAMPLE_RATE_HZ,
            samples_per_frame=SAMPLES_PER_FRAME,
            tokens_per_frame=TOKENS_PER_FRAME,
            tokens_per_second=SAMPLE_RATE_HZ / SAMPLES_PER_FRAME * TOKENS_PER_FRAME,
            max_streams=self._max_streams,
            num_blocks=100,
            block_size=32,
            is_compiled=False,
        )
        try:
            self._link.send([ready])
            while True:
                for message in self._link.receive(self._wait_s()):
                    if isinstance(message, Shutdown):
                        return
                    self._take(message)
                self._step()
        except LinkClosedError:
            return
        finally:
            self._link.close()

    def _wait_s(self) -> float:
        now = time.monotonic()
        due = [r.next_frame_at for r in self.requests.values() if self._can_speak(r)]
        return max(0.0, min([self._reported_at + self._report_s, *due]) - now)

    def _take(self, message) -> None:
        if isinstance(message, PlaybackReport):
            self.playback[message.request_id] = message
        if isinstance(message, StartRequest):
            self.num_started += 1
            self.requests[message.request_id] = _Request(message)
            return
        request = self.requests.get(message.request_id)
        if request is None:
            return
        match message:
            case AppendSegment():
                self._append(request, message)
            case EndText():
                request.has_ended = True
            case CancelRequest():
                self.num_cancelled += 1
                self._finish(request, "cancelled")
            case PlaybackReport():
                request.sent_samples = message.sent_samples

    def _append(self, request: _Request, message: AppendSegment) -> None:
        if MARKERS["die"] in message.phonemes:
            os._exit(9)
        if MARKERS["hang"] in message.phonemes:
            self._is_hung = True
        if MARKERS["fail"] in message.phonemes:
            self._fail(request, "engine_failed", "asked to fail")
            return
        assert message.index == len(request.segments)
        request.segments.append(message)
        if request.first_segment_at is None:
            request.first_segment_at = time.monotonic()
            waiting = sum(bool(r.segments) and not r.has_slot for r in self.requests.values())
            if waiting > self._max_waiting and self.num_running >= self._max_streams:
                self._fail(request, "at_capacity", "the waiting room is full", retry_after_s=1.5)

    def _can_speak(self, request: _Request) -> bool:
        if not request.has_slot:
            return request.has_ended or (
                bool(request.segments) and self.num_running < self._max_streams
            )
        has_text = request.segment < len(request.segments) or request.has_ended
        lead = request.frame * SAMPLES_PER_FRAME - request.sent_samples
        is_runaway = any(MARKERS["runaway"] in segment.phonemes for segment in request.segments)
        return has_text and (is_runaway or lead <= self._max_unheard_samples)

    def _step(self) -> None:
        while self._is_hung:
            time.sleep(0.05)
        now = time.monotonic()
        for request in list(self.requests.values()):
            if self._can_speak(request) and now >= request.next_frame_at:
                self._speak(request, now)
        if now >= self._reported_at + self._report_s:
            self._reported_at = now
            self._link.send([self._report(now)])

    def _speak(self, request: _Request, now: float) -> None:
        if not request.has_slot and request.segments:
            request.has_slot = True
            request.scheduled_at = now
        if request.segment >= len(request.segments):
            self._finish(request, "end_of_speech")
            return
        if request.frames_left == 0:
            request.frames_left = self.frames_per_segment
        request.frames_left -= 1
        request.first_token_at = request.first_token_at or now
        request.last_token_at = now
        request.next_frame_at = now + self._frame_s
        self._num_tokens += TOKENS_PER_FRAME
        request_id = request.start.request_id
        chunk = OutputChunk(
            request_id=request_id,
            first_frame=request.frame,
            num_frames=1,
            pcm=_TONE if request.start.wants_audio else b"",
            codes=tuple(range(TOKENS_PER_FRAME)) if request.start.wants_tokens else (),
        )
        request.frame += 1
        self._link.send([chunk])
        if request.frames_left == 0:
            spoken = SegmentSpoken(
                request_id=request_id, index=request.segment, end_frame=request.frame
            )
            request.segment += 1
            self._link.send([spoken])

    def _finish(self, request: _Request, reason: FinishReason) -> None:
        del self.requests[request.start.request_id]
        timings = EngineTimings(
            first_segment_at=request.first_segment_at,
            scheduled_at=request.scheduled_at,
            first_token_at=request.first_token_at,
            last_token_at=request.last_token_at,
            freed_at=time.monotonic(),
        )
        finished = Finished(
            request_id=request.start.request_id,
            reason=reason,
            num_tokens=request.frame * TOKENS_PER_FRAME,
            num_frames=request.frame,
            timings=timings,
        )
        self._link.send([finished])

    def _fail(
        self, request: _Request, code: str, message: str, retry_after_s: float | None = None
    ) -> None:
        request_id = request.start.request_id
        del self.requests[request_id]
        self._link.send(
            [Failed(request_id=request_id, code=code, message=message, retry_after_s=retry_after_s)]
        )

    def _report(self, now: float) -> CapacityReport:
        return CapacityReport(
            at=now,
            num_running=self.num_running,
            num_waiting=sum(bool(r.segments) and not r.has_slot for r in self.requests.values()),
            max_streams=self._max_streams,
            free_blocks=100,
            num_blocks=100,
            num_tokens_total=self._num_tokens,
            num_steps_total=0,
            num_parked=0,
            num_late_total=0,
            num_refused_total={},
            most_streams=self._max_streams,
            step_correction=1.0,
            step_s=0.0,
            codec_s=0.0,
            resident_bytes=0,
        )


def start_fake_engine(sock: socket.socket, **options) -> tuple[FakeEngine, threading.Thread]:
    """Run one in a thread of this process."""
    engine = FakeEngine(sock, **options)
    thread = threading.Thread(target=engine.run, name="fake-engine", daemon=True)
    thread.start()
    return engine, thread


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--link-fd", type=int, required=True)
    parser.add_argument("--config", required=True)
    parser.add_argument("--frame-s", type=float, default=0.0)
    parser.add_argument("--frames-per-segment", type=int, default=4)
    parser.add_argument("--start", choices=["well", "die", "hang"], default="well")
    arguments = parser.parse_args()
    with open(arguments.config, encoding="utf-8") as file:
        assert "[engine]" in file.read()
    if arguments.start == "die":
        sys.exit(3)
    if arguments.start == "hang":
        time.sleep(3600)
    sock = socket.socket(fileno=arguments.link_fd)
    FakeEngine(
        sock, frame_s=arguments.frame_s, frames_per_segment=arguments.frames_per_segment
    ).run()


if __name__ == "__main__":
    main()
