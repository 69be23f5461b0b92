"""Texts of several contexts through one worker."""

import threading

import anyio
import pytest

from realtime.gateway.commands import FeedText
from realtime.gateway.text_feed import BITE_CHARS, MAX_PENDING_ITEMS, TextFeed
from tests.fakes.text import FakeTextSource

pytestmark = pytest.mark.anyio


class Recorder:
    """A text source that keeps what it was given, in which thread."""

    num_unspoken = 0

    def __init__(self, fail_at: str = "") -> None:
        self.taken: list[str] = []
        self.threads: set[int] = set()
        self.fail_at = fail_at

    def push(self, piece):
        self.threads.add(threading.get_ident())
        self.taken.append(piece)
        if self.fail_at and self.fail_at in piece:
            raise RuntimeError("a bug")
        return []

    def flush(self):
        self.taken.append("<flush>")
        return []

    def end(self):
        self.taken.append("<end>")
        return []


class Session:
    def __init__(self, wants=lambda number: True) -> None:
        self.feed = TextFeed(anyio.CapacityLimiter(1), wants)
        self.released = []
        self.failed = []
        self.is_done = anyio.Event()

    def put(self, number: int, *items: str, at: float = 0.0) -> None:
        for item in items:
            kind = item.strip("<>") if item in ("<flush>", "<end>") else "text"
            self.feed.put(FeedText(number, kind, "" if kind != "text" else item, at))

    async def run_until(self, num_released: int = 10**9, num_failed: int = 10**9) -> None:
        def check() -> None:
            has_ended = bool(self.released) and self.released[-1].kind == "end"
            if has_ended or len(self.released) >= num_released or len(self.failed) >= num_failed:
                self.is_done.set()

        def on_released(released) -> None:
            self.released.append(released)
            check()

        def on_failed(number, error) -> None:
            self.failed.append((number, error))
            check()

        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.feed.run, on_released, on_failed)
                await self.is_done.wait()
                tasks.cancel_scope.cancel()


async def test_text_is_taken_in_order_off_the_event_loop():
    session, source = Session(), Recorder()
    session.feed.open(1, source)
    session.put(1, "a", "b", "<flush>", "c", "<end>")
    await session.run_until(5)
    assert source.taken == ["a", "b", "<flush>", "c", "<end>"]
    assert threading.get_ident() not in source.threads
    assert [r.has_more for r in session.released] == [True, True, True, True, False]


async def test_long_text_is_taken_in_bites_and_the_other_context_comes_between():
    session, long, short = Session(), Recorder(), Recorder()
    session.feed.open(1, long)
    session.feed.open(2, short)
    session.put(1, "x" * (3 * BITE_CHARS))
    session.put(2, "y")
    await session.run_until(4)
    assert [r.number for r in session.released] == [1, 2, 1, 1]
    assert [len(piece) for piece in long.taken] == [BITE_CHARS] * 3


async def test_many_pieces_that_wait_are_joined_verbatim():
    session, source = Session(), Recorder()
    session.feed.open(1, source)
    pieces = [f"{i} " for i in range(1000)]
    session.put(1, *pieces, "<end>")
    assert len(session.feed._texts[1].pending) == MAX_PENDING_ITEMS + 1
    await session.run_until()
    assert "".join(source.taken) == "".join(pieces) + "<end>"


async def test_repeated_flushes_are_one():
    session, source = Session(), Recorder()
    session.feed.open(1, source)
    session.put(1, "a", "<flush>", "<flush>", "<flush>")
    await session.run_until(2)
    assert source.taken == ["a", "<flush>"]


async def test_context_that_is_ahead_of_its_speech_waits():
    is_behind = {1: False, 2: True}
    session, source, other = Session(lambda number: is_behind[number]), Recorder(), Recorder()
    session.feed.open(1, source)
    session.feed.open(2, other)
    session.put(1, "a")
    session.put(2, "b")
    await session.run_until(1)
    assert (source.taken, other.taken) == ([], ["b"])
    is_behind[1] = True
    session.feed.wake()
    session.is_done = anyio.Event()
    await session.run_until(2)
    assert source.taken == ["a"]


async def test_closed_context_takes_nothing_further():
    session, source, other = Session(), Recorder(), Recorder()
    session.feed.open(1, source)
    session.feed.open(2, other)
    session.put(1, "a")
    session.feed.close(1)
    session.put(1, "b")
    session.put(2, "c")
    await session.run_until(1)
    assert source.taken == []


async def test_fault_of_the_front_end_fails_its_context_alone():
    session, broken, other = Session(), Recorder(fail_at="!"), FakeTextSource()
    session.feed.open(1, broken)
    session.feed.open(2, other)
    session.put(1, "!")
    session.put(2, "#")
    await session.run_until(num_failed=2)
    assert [(number, error.code) for number, error in session.failed] == [
        (1, "internal"),
        (2, "unspeakable_text"),
    ]
