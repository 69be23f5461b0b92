"""Which outputs wait for the codec, and until when. Pure; knows no threads and no tensors.

A codec call reads the decoder's weights once, however many frames it decodes. So frames that no
listener needs yet wait for company; a frame that is needed soon, or a mark, takes all along.
"""

import math

from realtime.engine.plan import NewFrame, Output

_MARGIN_S = 0.3  # decode a frame this long before it is needed: codec, link and socket take time
_FULL_BATCH = 16  # frames beyond which company makes a frame no cheaper


class CodecQueue:
    """Outputs in order, to be decoded together.

    Attributes:
        due_at: When they have to be decoded; infinity while there are none.
    """

    def __init__(self) -> None:
        self._outputs: list[Output] = []
        self.due_at = math.inf

    def __len__(self) -> int:
        return len(self._outputs)

    def add(self, outputs: list[Output]) -> None:
        """Queue behind the others."""
        self._outputs += outputs
        self.due_at = min([self.due_at, *map(_due_at, outputs)])
        if len(self._outputs) >= _FULL_BATCH:
            self.due_at = -math.inf

    def take(self) -> list[Output]:
        """All of them; none is left."""
        outputs, self._outputs = self._outputs, []
        self.due_at = math.inf
        return outputs


def _due_at(output: Output) -> float:
    """When it has to be decoded or sent."""
    if isinstance(output, NewFrame) and output.wants_audio:
        return output.needed_at - _MARGIN_S
    return -math.inf
