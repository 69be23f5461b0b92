"""Text from standard input, piece by piece, as it is being written."""

import codecs
import os
import stat
from collections.abc import AsyncIterator

import anyio

from realtime.cli.exits import UsageError

_PIECE_BYTES = 4096


async def growing_text(fd: int) -> AsyncIterator[str]:
    """Yield what can be read from `fd` as soon as it can be read, until its end.

    A code point whose bytes arrive in two reads is yielded whole. No thread is used, so an
    interrupted caller never waits for a read that does not come.

    Raises:
        UsageError: The bytes are not UTF-8.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    never_blocks = stat.S_ISREG(os.fstat(fd).st_mode)  # the event loop cannot watch plain files
    try:
        while True:
            if not never_blocks:
                await anyio.wait_readable(fd)
            data = os.read(fd, _PIECE_BYTES)
            piece = decoder.decode(data, final=not data)
            if piece:
                yield piece
            if not data:
                return
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input is not UTF-8: {error.reason}") from error
