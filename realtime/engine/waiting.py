"""Requests with text that wait for their start: bounded, first come first served within a key, keys
in turn. Knows keys and numbers only.
"""

from collections import OrderedDict, deque


class WaitingQueue:
    """A fair queue of request numbers.

    The longest-unserved key is next, so a burst under one key delays that key and nobody else. A
    key may hold as many places as are still free beside them, so it cannot fill the queue either.

    Args:
        capacity: Requests that may wait at once, all keys together.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._keys: OrderedDict[str, deque[int]] = OrderedDict()
        self._key_of: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._key_of)

    def __contains__(self, request_id: int) -> bool:
        return request_id in self._key_of

    def has_room(self, key: str) -> bool:
        """Whether one more request of `key` may wait."""
        held = len(self._keys.get(key, ()))
        free = self._capacity - len(self._key_of)
        return free > 0 and (held < free or not held)

    def add(self, request_id: int, key: str) -> None:
        """Queue a request behind those of its key."""
        assert request_id not in self._key_of
        self._keys.setdefault(key, deque()).append(request_id)
        self._key_of[request_id] = key

    def first(self) -> int | None:
        """Whose turn it is; `None` when nobody waits."""
        for queue in self._keys.values():
            return queue[0]
        return None

    def take_first(self) -> int:
        """Remove the one whose turn it is; its key's next request waits for another round."""
        key, queue = next(iter(self._keys.items()))
        request_id = queue.popleft()
        del self._key_of[request_id]
        if queue:
            self._keys.move_to_end(key)
        else:
            del self._keys[key]
        return request_id

    def remove(self, request_id: int) -> None:
        """Take a request out, wherever it stands."""
        key = self._key_of.pop(request_id)
        queue = self._keys[key]
        queue.remove(request_id)
        if not queue:
            del self._keys[key]
