"""An open connection, as its caller holds it. Start reading here."""

from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import asynccontextmanager

import anyio

from realtime import wire
from realtime.client.channel import Channel
from realtime.client.inbox import AudioChunk, Buffering
from realtime.client.opening import DEFAULT_URL, greet, open_socket, stream_url
from realtime.client.utterance import Utterance
from realtime.clock import Clock, MonotonicClock


class Session:
    """Many utterances over one connection; made by `connect`.

    Attributes:
        ready: The service's greeting: voices, sample rate, limits.
    """

    def __init__(self, channel: Channel, ready: wire.Ready, buffering: Buffering) -> None:
        self.ready = ready
        self._channel = channel
        self._buffering = buffering
        self._clock: Clock = MonotonicClock()
        self._num_named = 0

    def utterance(
        self,
        *,
        voice: str | None = None,
        speed: float | None = None,
        sampling: wire.Sampling | None = None,
        priority: wire.Priority = "live",
        name: str | None = None,
    ) -> Utterance:
        """A new utterance, to be used with `async with`; its first text opens it at the service.

        Args:
            voice: Overrides the session's voice.
            speed: Overrides the session's speed; `ready.speed_range` says what the voices can do.
            sampling: Overrides the session's sampling, field by field.
            priority: `batch` where nobody listens meanwhile: as fast as others leave room for.
            name: The context's name on the wire; `None` takes a fresh one.

        Raises:
            OutOfOrderError: An open utterance has this name.
        """
        first = wire.Text(
            context=name or self._fresh_name(),
            text="",
            voice=voice,
            speed=speed,
            sampling=sampling,
            priority=priority,
        )
        utterance = Utterance(self._channel, first, self._buffering.max_buffered_bytes)
        self._channel.register(utterance)
        return utterance

    async def speak(
        self,
        text: str | AsyncIterable[str],
        *,
        voice: str | None = None,
        speed: float | None = None,
        sampling: wire.Sampling | None = None,
    ) -> AsyncGenerator[AudioChunk, None]:
        """Speak a text, or the pieces of one still being written, and yield audio as it arrives.

        To stop early, close the generator (`contextlib.aclosing`) or use `utterance`.

        Raises:
            SpeechError: The utterance or the connection has failed.
        """
        async with self.utterance(voice=voice, speed=speed, sampling=sampling) as utterance:
            utterance.feed(text)
            async for chunk in utterance.audio():
                yield chunk

    async def ping(self) -> float:
        """Round-trip time to the service's message loop, in seconds.

        Raises:
            SpeechError: The connection has failed.
        """
        sent_at = self._clock.now()
        await self._channel.ping(self._fresh_name())
        return self._clock.now() - sent_at

    def _fresh_name(self) -> str:
        self._num_named += 1
        return f"u{self._num_named}"


@asynccontextmanager
async def connect(  # noqa: PLR0913 - a caller's options, all by name
    url: str = DEFAULT_URL,
    *,
    credential: str | None = None,
    voice: str | None = None,
    speed: float | None = None,
    sampling: wire.Sampling | None = None,
    outputs: tuple[wire.OutputKind, ...] = ("audio",),
    first_segment_min_chars: int | None = None,
    max_contexts: int | None = None,
    buffering: Buffering | None = None,
    open_timeout_s: float = 10.0,
) -> AsyncGenerator[Session, None]:
    """Open a session; leaving the block closes it and ends what is still being spoken.

    Args:
        url: The service: `ws://host:port`, `wss://...`, `http(s)://...` or `host:port`.
        credential: API key, where the service asks for one.
        voice: Voice of utterances that name none; `None` takes the service's default.
        speed: Pace of utterances that give none; 1.0 is the voice's own.
        sampling: Sampling of utterances that give none.
        outputs: What to receive: audio, tokens or both.
        first_segment_min_chars: Speech may begin at the first clause or word boundary past this
            many characters.
        max_contexts: How many utterances are to be open at once; `session.ready.limits` says what
            was granted.
        buffering: Limits of what waits for a slow consumer; `None` takes the defaults.
        open_timeout_s: Time for the connection, and again for the greeting.

    Raises:
        ServiceUnreachableError: Nothing that speaks this protocol answers there.
        SpeechError: The service refuses the session.
    """
    hello = wire.Hello(
        credential=credential,
        voice=voice,
        speed=speed,
        sampling=sampling or wire.Sampling(),
        outputs=outputs,
        first_segment_min_chars=first_segment_min_chars,
        max_contexts=max_contexts,
    )
    buffering = buffering or Buffering()
    socket = await open_socket(stream_url(url), open_timeout_s)
    failure: Exception | None = None
    try:
        ready = await greet(socket, hello, open_timeout_s)
        async with anyio.create_task_group() as tasks:
            channel = Channel(socket, ready, tasks, buffering)
            try:
                yield Session(channel, ready, buffering)
            except Exception as error:  # noqa: BLE001 - raised below: the group would wrap it
                failure = error
            await channel.close()
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await socket.close()  # bounded by the socket's own close timeout
    if failure is not None:
        raise failure
