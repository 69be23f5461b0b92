"""Where WebSocket frames end in a stream of bytes, found without decoding them: how much to hand to
the decoder at a time. Judges nothing; the decoder refuses what is wrong.
"""

_LENGTH_BITS = 0x7F
_MASK_BIT = 0x80
_LENGTH_BYTES = {126: 2, 127: 8}


class FrameMeter:
    """Follows one connection's bytes, taken in the order in which they arrived."""

    def __init__(self) -> None:
        self._head = bytearray()  # of a frame whose length is not known yet
        self._rest_bytes = 0  # of a frame whose length is known

    def take(self, data: bytes | bytearray) -> int:
        """How many of the first bytes of `data` belong to the current frame; they are then taken.

        Args:
            data: What follows the bytes taken before; at least one byte.
        """
        if self._rest_bytes == 0:
            return self._take_head(data)
        size = min(self._rest_bytes, len(data))
        self._rest_bytes -= size
        return size

    def _take_head(self, data: bytes | bytearray) -> int:
        before = len(self._head)
        self._head += data[: max(0, 2 - before)]
        if len(self._head) < 2:
            return len(self._head) - before
        marked = self._head[1]
        num_length_bytes = _LENGTH_BYTES.get(marked & _LENGTH_BITS, 0)
        head_bytes = 2 + num_length_bytes
        offset = len(self._head) - before
        self._head += data[offset : offset + head_bytes - len(self._head)]
        taken = len(self._head) - before
        if len(self._head) < head_bytes:
            return taken
        payload_bytes = int.from_bytes(self._head[2:]) if num_length_bytes else marked & 0x7F
        self._head.clear()
        self._rest_bytes = payload_bytes + (4 if marked & _MASK_BIT else 0)
        size = min(self._rest_bytes, len(data) - taken)
        self._rest_bytes -= size
        return taken + size
