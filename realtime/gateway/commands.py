"""What the protocol state machine asks of its shell. Frozen values; the shell carries them out in
order.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from realtime.gateway.spoken import SpokenSegment
from realtime.messages import SamplingParams
from realtime.telemetry.stages import RequestStages
from realtime.wire import AudioFrame, DoneReason, ServerMessage

TextKind = Literal["text", "flush", "end"]


class _Command(msgspec.Struct, frozen=True):
    """Base of all commands. `number` is the context's number."""


class Send(_Command, frozen=True):
    """Queue a message for the socket.

    Attributes:
        number: Context it belongs to; `None` for the session's own messages.
        num_samples: Samples of that context's output that are complete once this is given to the
            socket.
        is_droppable: Whether a cancel may take it out of the queue again.
    """

    message: ServerMessage | AudioFrame
    number: int | None = None
    num_samples: int = 0
    is_droppable: bool = False


class DropUnsent(_Command, frozen=True):
    """Take the context's droppable messages out of the queue: none of them may follow what is sent
    next.
    """

    number: int


class FeedText(_Command, frozen=True):
    """Give text to the context's front end; answered by `text_released` in the same order."""

    number: int
    kind: TextKind
    text: str
    at: float


class Released(msgspec.Struct, frozen=True):
    """The answer to one `FeedText`: what the front end has taken, and the segments it completed.

    Attributes:
        arrived_at: When the caller's message arrived.
        has_more: Whether more of the context's text waits for the front end.
        num_unspoken: Letters of the context's text so far that are left out.
    """

    number: int
    kind: TextKind
    segments: Sequence[SpokenSegment]
    arrived_at: float
    has_more: bool
    num_unspoken: int


class StopText(_Command, frozen=True):
    """Forget the context's text that the front end has not taken yet."""

    number: int


class OpenRequest(_Command, frozen=True):
    """Open the context's request in the engine.

    Attributes:
        voice: Its id, for the caller and the log.
        speaker: Its place among the engine's voices.
        speed: Pace relative to the voice's own.
        key: Whose request it is, for fairness among callers.
        is_batch: Nobody listens while it is spoken.
    """

    number: int
    voice: str
    speaker: int
    speed: float
    sampling: SamplingParams
    key: str
    is_batch: bool
    wants_audio: bool
    wants_tokens: bool
    first_segment_min_chars: int | None


class AppendPhonemes(_Command, frozen=True):
    """Append a segment to the context's request."""

    number: int
    index: int
    phonemes: str


class EndRequestText(_Command, frozen=True):
    """No further segment comes."""

    number: int


class AbortRequest(_Command, frozen=True):
    """Free the request in the engine."""

    number: int


class ReportPlayback(_Command, frozen=True):
    """Tell the engine how far the listener is; `played_samples` where the caller just said so."""

    number: int
    sent_samples: int
    played_samples: int | None


class ContextDone(_Command, frozen=True):
    """The context is over: write its log line, observe its metrics, forget it.

    Attributes:
        error_code: Why it failed; `None` where it did not.
        was_abandoned: The caller vanished before its end.
        num_chars: Characters of text received.
    """

    number: int
    voice: str
    seed: int
    reason: DoneReason
    error_code: str | None
    was_abandoned: bool
    num_chars: int
    num_segments: int
    sent_samples: int
    stages: RequestStages


class CountError(_Command, frozen=True):
    """An error was answered."""

    code: str


class Close(_Command, frozen=True):
    """Close the connection after what is queued."""

    code: int
    reason: str


Command = (
    Send
    | DropUnsent
    | FeedText
    | StopText
    | OpenRequest
    | AppendPhonemes
    | EndRequestText
    | AbortRequest
    | ReportPlayback
    | ContextDone
    | CountError
    | Close
)
