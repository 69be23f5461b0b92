"""Text from standard input, piece by piece, as it is being written."""

import codecs
import os
import sys
from collections.abc import AsyncIterator

import anyio
import anyio.to_thread

from realtime.cli.exits import UsageError

_PIECE_BYTES = 4096


def standard_input() -> int:
    """The descriptor of standard input.

    Raises:
        UsageError: It is closed.
    """
    if sys.stdin is None:  # Python's sign of `<&-`
        raise UsageError("standard input is closed: give a text, or something to read")
    return sys.stdin.fileno()


async def growing_text(fd: int) -> AsyncIterator[str]:
    """Yield what can be read from `fd` as soon as it can be read, until its end.

    A code point whose bytes arrive in two reads is yielded whole. What the event loop can watch is
    read without a thread, so an interrupted caller never waits for a read that does not come.

    Raises:
        OSError: `fd` cannot be read.
        UsageError: The bytes are not UTF-8.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        while True:
            data = await _read(fd)
            piece = decoder.decode(data, final=not data)
            if piece:
                yield piece
            if not data:
                return
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input is not UTF-8: {error.reason}") from error


async def _read(fd: int) -> bytes:
    try:
        await anyio.wait_readable(fd)
    except PermissionError:  # plain files, /dev/null: always ready, so epoll does not watch them
        return await anyio.to_thread.run_sync(os.read, fd, _PIECE_BYTES)
    return os.read(fd, _PIECE_BYTES)
