"""One text being spoken, as its caller holds it."""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Self

import anyio
import msgspec

from realtime import wire
from realtime.client.channel import Channel
from realtime.client.errors import SlowConsumerError
from realtime.client.inbox import AudioChunk, Event, Inbox
from realtime.errors import OutOfOrderError, SpeechError

_LEAVE_TIMEOUT_S = 2.0


class Utterance:
    """Send pieces of text, iterate over what comes back. Made by `Session.utterance`.

    Iterating yields `Event`s, `wire.Done` last, and then stops; a failed utterance yields what had
    arrived and then raises its `SpeechError`. One task may send while another iterates, but only
    one may iterate. Leaving the `async with` block early cancels the utterance.

    Attributes:
        name: The context's name on the wire.
        done: The final message with the metrics; `None` until it arrived.
        cancelled: The acknowledgement of a cancel; `None` until it arrived.
    """

    def __init__(self, channel: Channel, first: wire.Text, limit_bytes: int) -> None:
        self.name = first.context
        self.done: wire.Done | None = None
        self.cancelled: wire.Cancelled | None = None
        self._channel = channel
        self._first = first
        self._inbox = Inbox(limit_bytes)
        self._is_opened = False
        self._is_ended = False
        self._is_cancelling = False
        self._feeding: anyio.CancelScope | None = None

    async def append(self, text: str) -> None:
        """Send the next piece of text, joined verbatim to the pieces before it.

        Raises:
            OutOfOrderError: `end` or `cancel` was called before, or the utterance is over.
            SpeechError: The utterance or the connection has failed.
        """
        limit = self._channel.max_piece_chars
        for start in range(0, len(text), limit):
            self._check_takes_text()
            await self._send_text(text[start : start + limit])

    async def flush(self) -> None:
        """Have everything sent so far spoken now, without waiting for the end of a sentence.

        Raises:
            OutOfOrderError: As `append`.
            SpeechError: As `append`.
        """
        self._check_takes_text()
        if self._is_opened:
            await self._channel.send(wire.Flush(context=self.name))

    async def end(self) -> None:
        """Say that no more text comes. Further calls do nothing.

        Raises:
            OutOfOrderError: As `append`.
            SpeechError: As `append`.
        """
        if self._is_ended:
            return
        self._check_takes_text()
        if not self._is_opened:
            await self._send_text("")
        self._is_ended = True
        await self._channel.send(wire.End(context=self.name))

    async def cancel(self) -> wire.Cancelled | None:
        """Stop at once: audio not yet taken is dropped, and none follows.

        Returns:
            Where the audio stopped; `None` where the utterance was over or had never begun.

        Raises:
            SpeechError: The utterance or the connection has failed.
        """
        self._stop_feeding()
        if not self._is_opened:
            self._channel.forget(self)
            self._inbox.close()
        elif not self._inbox.is_closed and not self._is_cancelling:
            self._is_cancelling = True
            self._inbox.drop_audio()
            await self._channel.send(wire.Cancel(context=self.name))
        while self.cancelled is None and not self._inbox.is_closed:
            await self._inbox.wait_for_change()
        if self._inbox.failure is not None:
            raise self._inbox.failure
        return self.cancelled

    async def played(self, samples: int) -> None:
        """Tell the service that the listener has heard the first `samples` samples. Optional.

        Raises:
            SpeechError: The connection has failed.
        """
        if self._is_opened and not self._inbox.is_closed:
            await self._channel.send(wire.Played(context=self.name, samples=samples))

    def feed(self, text: str | AsyncIterable[str]) -> None:
        """Send a text, or the pieces of a growing one, and `end`, while the caller iterates.

        An exception raised by `text` itself cancels the utterance and is raised to whoever
        iterates.
        """
        self._feeding = anyio.CancelScope()
        self._channel.start_soon(partial(self._feed, text, self._feeding))

    async def audio(self) -> AsyncGenerator[AudioChunk, None]:
        """Iterate over the audio alone.

        Raises:
            SpeechError: The utterance or the connection has failed.
        """
        async for event in self:
            if isinstance(event, AudioChunk):
                yield event

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        event = await self._inbox.get()
        if event is None:
            raise StopAsyncIteration
        return event

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The slot is free when `done` has come; a lost connection or a mute service ends the wait.
        with anyio.move_on_after(_LEAVE_TIMEOUT_S, shield=True), suppress(SpeechError):
            await self.cancel()
            while not self._inbox.is_closed:
                await self._inbox.wait_for_change()
        self._channel.forget(self)

    async def deliver(self, event: Event, stall_timeout_s: float) -> None:
        """Take an event from the channel.

        Raises:
            SlowConsumerError: The buffer stayed full for `stall_timeout_s`.
        """
        with anyio.move_on_after(stall_timeout_s):
            while not self._inbox.has_room:
                await self._inbox.wait_for_change()
        if not self._inbox.has_room:
            raise SlowConsumerError(f"`{self.name}`: nothing was taken for {stall_timeout_s} s")
        if isinstance(event, AudioChunk) and self._is_cancelling:
            return
        self._inbox.put(event)
        if isinstance(event, wire.Cancelled):
            self.cancelled = event
        elif isinstance(event, wire.Done):
            self.done = event
            self._inbox.close()

    def fail(self, error: Exception) -> bool:
        """End with an error, on the channel's word; whether the service still thinks it is open."""
        was_open = self._is_opened and not self._inbox.is_closed
        self._stop_feeding()
        self._inbox.close(error)
        return was_open and not self._is_cancelling

    def _check_takes_text(self) -> None:
        if self._inbox.failure is not None:
            raise self._inbox.failure
        if self._is_ended or self._is_cancelling or self._inbox.is_closed:
            raise OutOfOrderError(f"utterance `{self.name}` takes no more text")

    async def _send_text(self, text: str) -> None:
        message = wire.Text(context=self.name, text=text)
        if not self._is_opened:
            self._is_opened = True
            message = msgspec.structs.replace(self._first, text=text)
        await self._channel.send(message)

    def _stop_feeding(self) -> None:
        if self._feeding is not None:
            self._feeding.cancel()

    async def _feed(self, text: str | AsyncIterable[str], scope: anyio.CancelScope) -> None:
        with scope:
            try:
                if isinstance(text, str):
                    await self.append(text)
                else:
                    async for piece in text:
                        await self.append(piece)
                await self.end()
            except Exception as error:  # noqa: BLE001 - the caller's iterator may raise anything
                await self._channel.abandon(self, error)
