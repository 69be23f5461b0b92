"""A resettable event for one waiting task."""

import anyio


class Signal:
    """Any number of `set` calls wake the one waiter once; a `set` before the wait is not lost."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def set(self) -> None:
        """Wake the waiter, now or when it next waits."""
        self._event.set()

    async def wait(self) -> None:
        """Wait for a `set` since the last wait."""
        await self._event.wait()
        self._event = anyio.Event()
