"""Drives the protocol state machine without sockets: carries out its commands and checks what must
always hold.
"""

import re

from realtime import wire
from realtime.errors import CapacityError
from realtime.gateway import commands as c
from realtime.gateway.protocol import SessionProtocol, SessionSettings
from realtime.messages import (
    EngineReady,
    EngineTimings,
    Failed,
    Finished,
    OutputChunk,
    SegmentSpoken,
    VoiceFacts,
)
from tests.fakes.clock import FakeClock
from tests.fakes.text import FakeTextSource

SAMPLES_PER_FRAME = 2048
LIMITS = wire.Limits(
    max_contexts=3,
    max_message_bytes=4096,
    max_text_chars=200,
    hello_timeout_s=5.0,
    text_timeout_s=60.0,
)
READY = EngineReady(
    pid=1,
    device="cpu",
    dtype="float32",
    voices=tuple(
        VoiceFacts(id=name, language="en-US", licence="Apache-2.0", description="A test's")
        for name in ("default", "other")
    ),
    speed_range=(0.7, 1.3),
    sample_rate_hz=24_000,
    samples_per_frame=SAMPLES_PER_FRAME,
    tokens_per_frame=7,
    tokens_per_second=82.03125,
    max_streams=4,
    num_blocks=10,
    block_size=32,
    is_compiled=False,
)


class FakeEngineView:
    def __init__(self) -> None:
        self.ready: EngineReady | None = READY
        self.is_full = False

    def refusal(self):
        return CapacityError("full", retry_after_s=1.0) if self.is_full else None


class EngineSide:
    """The engine's view of one context's request."""

    def __init__(self, command: c.OpenRequest) -> None:
        self.opened = command
        self.phonemes: list[str] = []
        self.has_ended = False
        self.is_over = False
        self.num_frames = 0
        self.num_spoken = 0


class Driver:
    """A session without a socket. `received` is what the caller has got so far, in order."""

    def __init__(self, *, limits: wire.Limits = LIMITS, credentials: tuple[str, ...] = ()) -> None:
        self.clock = FakeClock()
        self.engine = FakeEngineView()
        settings = SessionSettings(
            session_id="s",
            limits=limits,
            credentials=credentials,
            find_audible=lambda pcm: 10 if pcm else None,
        )
        self.protocol = SessionProtocol(
            settings, self.engine, new_seed=lambda: 7, at=self.clock.now()
        )
        self.outgoing: list[c.Send] = []
        self.received: list = []
        self.requests: dict[int, EngineSide] = {}
        self.texts: dict[int, FakeTextSource] = {}
        self.feeds: list[c.FeedText] = []
        self.dones: dict[int, c.ContextDone] = {}
        self.playback: dict[int, int] = {}
        self.played: list[tuple[int, int]] = []
        self.closed: c.Close | None = None
        self.errors: list[str] = []
        self.aborted: set[int] = set()
        self.outputs: tuple[str, ...] = ("audio",)
        self._silenced: set[int] = set()

    # --- the caller ---

    def say(self, *messages) -> "Driver":
        for message in messages:
            data = message if isinstance(message, str) else wire.encode_message(message)
            self.carry_out(self.protocol.receive_text(data, self.clock.now()))
        return self

    def hello(self, **fields) -> "Driver":
        self.outputs = fields.get("outputs", ("audio",))
        return self.say(wire.Hello(**fields)).send_all()

    def last(self, kind):
        return [m for m in self.received if isinstance(m, kind)][-1]

    def all(self, kind):
        return [m for m in self.received if isinstance(m, kind)]

    # --- the socket ---

    def send_one(self) -> None:
        item = self.outgoing.pop(0)
        message = item.message
        self.received.append(message)
        if isinstance(message, wire.AudioFrame):
            assert message.number not in self._silenced, "audio after `cancelled` or `error`"
        if isinstance(message, wire.Cancelled | wire.Done) and "audio" in self.outputs:
            assert message.samples == self.samples_received(self._number_of(message.context))
        if isinstance(message, wire.Cancelled):
            self._silenced.add(self._number_of(message.context))
        if isinstance(message, wire.Error) and message.context is not None:
            self._silenced.update(self._open_numbers(message.context))
        if item.number is not None and item.num_samples:
            is_audio = isinstance(message, wire.AudioFrame)
            self.carry_out(
                self.protocol.sent(
                    item.number, item.num_samples, self.clock.now(), is_audio=is_audio
                )
            )

    def send_all(self) -> "Driver":
        while self.outgoing:
            self.send_one()
        return self

    def _number_of(self, name: str) -> int:
        return [
            m.number for m in self.received if isinstance(m, wire.Opened) and m.context == name
        ][-1]

    def samples_received(self, number: int) -> int:
        frames = (m for m in self.received if isinstance(m, wire.AudioFrame))
        return sum(len(frame.pcm) // 2 for frame in frames if frame.number == number)

    def _open_numbers(self, name: str) -> list[int]:
        opened = [
            m.number for m in self.received if isinstance(m, wire.Opened) and m.context == name
        ]
        num_done = sum(m.context == name for m in self.received if isinstance(m, wire.Done))
        return opened[num_done:]

    # --- the text front end ---

    def prepare_text(self) -> "Driver":
        while self.feeds:
            self.prepare_one()
        return self

    def prepare_one(self) -> None:
        feed = self.feeds.pop(0)
        if feed.number not in self.texts:
            return
        source = self.texts[feed.number]
        segments = {
            "text": lambda: source.push(feed.text),
            "flush": source.flush,
            "end": source.end,
        }[feed.kind]()
        has_more = any(other.number == feed.number for other in self.feeds)
        released = c.Released(
            feed.number, feed.kind, segments, feed.at, has_more, source.num_unspoken
        )
        self.carry_out(self.protocol.text_released(released, self.clock.now()))

    # --- the engine ---

    def speak(
        self,
        number: int,
        num_frames: int = 1,
        *,
        completes: bool = False,
        text_at: float | None = None,
    ) -> "Driver":
        request = self.requests[number]
        assert not request.is_over
        chunk = OutputChunk(
            request_id=number,
            first_frame=request.num_frames,
            num_frames=num_frames,
            pcm=b"\1\0" * SAMPLES_PER_FRAME * num_frames if request.opened.wants_audio else b"",
            codes=tuple(range(7 * num_frames)) if request.opened.wants_tokens else (),
            text_at=text_at,
        )
        request.num_frames += num_frames
        self._engine(number, chunk)
        if completes:
            spoken = SegmentSpoken(
                request_id=number, index=request.num_spoken, end_frame=request.num_frames
            )
            request.num_spoken += 1
            self._engine(number, spoken)
        return self

    def finish(self, number: int, reason="end_of_speech") -> "Driver":
        request = self.requests[number]
        assert not request.is_over
        request.is_over = True
        now = self.clock.now()
        timings = EngineTimings(
            first_segment_at=now,
            scheduled_at=now,
            first_token_at=now,
            last_token_at=now,
            freed_at=now,
        )
        self._engine(
            number,
            Finished(
                request_id=number,
                reason=reason,
                num_tokens=7 * request.num_frames,
                num_frames=request.num_frames,
                timings=timings,
            ),
        )
        return self

    def fail(self, number: int, code: str) -> "Driver":
        self.requests[number].is_over = True
        self._engine(number, Failed(request_id=number, code=code, message="no"))
        return self

    def _engine(self, number: int, event) -> None:
        self.carry_out(self.protocol.engine_event(number, event, self.clock.now()))

    # --- time ---

    def wait(self, seconds: float) -> "Driver":
        self.clock.advance(seconds)
        self.carry_out(self.protocol.tick(self.clock.now()))
        return self

    def vanish(self) -> "Driver":
        self.carry_out(self.protocol.disconnected(self.clock.now()))
        return self

    # --- commands ---

    def carry_out(self, commands: list[c.Command]) -> None:
        for command in commands:
            words = re.sub(r"(?<!^)(?=[A-Z])", "_", type(command).__name__).lower()
            getattr(self, f"_do_{words}")(command)

    def _do_send(self, command):
        assert self.closed is None
        self.outgoing.append(command)

    def _do_drop_unsent(self, command):
        kept = [s for s in self.outgoing if not (s.is_droppable and s.number == command.number)]
        self.outgoing = kept

    def _do_feed_text(self, command):
        self.feeds.append(command)

    def _do_stop_text(self, command):
        self.texts.pop(command.number, None)

    def _do_open_request(self, command):
        assert command.number not in self.requests
        self.requests[command.number] = EngineSide(command)
        self.texts[command.number] = FakeTextSource()

    def _do_append_phonemes(self, command):
        request = self.requests[command.number]
        assert command.index == len(request.phonemes)
        assert not request.has_ended
        request.phonemes.append(command.phonemes)

    def _do_end_request_text(self, command):
        assert not self.requests[command.number].has_ended
        self.requests[command.number].has_ended = True

    def _do_abort_request(self, command):
        assert command.number not in self.aborted
        self.aborted.add(command.number)

    def _do_report_playback(self, command):
        assert command.sent_samples >= self.playback.get(command.number, 0)
        self.playback[command.number] = command.sent_samples
        if command.played_samples is not None:
            self.played.append((command.number, command.played_samples))

    def _do_context_done(self, command):
        assert command.number not in self.dones, "two ends of one context"
        self.dones[command.number] = command

    def _do_close(self, command):
        assert self.closed is None
        self.closed = command

    def _do_count_error(self, command):
        self.errors.append(command.code)
