"""What scheduler and runner tell each other: frozen values, no torch, no behaviour beyond derived
facts.
"""

import enum

import msgspec

from realtime.messages import Failed, Finished, SegmentSpoken


class Phase(enum.Enum):
    """What a slice does in its step."""

    PREFILL = "prefill"
    DECODE = "decode"


class SpeechLayout(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a voice that the scheduler needs; derived from its specs when the engine
    starts.

    Attributes:
        audio_base_id: First id of the audio codes; position-in-frame p owns the `codebook_size` ids
            from `audio_base_id + p * codebook_size` on.
        end_of_speech_id: Ends a segment; legal only at position-in-frame 0.
        max_positions: Longest sequence the language model was trained on, in tokens.
        min_s_per_phoneme: Shortest plausible speech of a segment, per phoneme, at speed 1.0.
        max_s_per_phoneme: Longest plausible speech of a segment, per phoneme, at speed 1.0.
        extra_s: Added to the longest plausible speech of a segment (short words are slower).
        quiet_codes: First codes of a frame that the voice speaks in pauses only; empty where that
            is not known.
    """

    tokens_per_frame: int
    codebook_size: int
    audio_base_id: int
    end_of_speech_id: int
    max_positions: int
    sample_rate_hz: int
    samples_per_frame: int
    min_s_per_phoneme: float
    max_s_per_phoneme: float
    extra_s: float
    quiet_codes: frozenset[int] = frozenset()

    @property
    def frames_per_second(self) -> float:
        """Codec frames in a second of speech."""
        return self.sample_rate_hz / self.samples_per_frame

    @property
    def tokens_per_second(self) -> float:
        """Speech tokens that a listener plays in a second."""
        return self.frames_per_second * self.tokens_per_frame


class SamplingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a request draws its tokens, the voice's defaults filled in. Fields as in
    `realtime.wire.Sampling`.
    """

    seed: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float


class RequestOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is decided when a request opens.

    Attributes:
        sampling: How it draws its tokens.
        speaker: Who speaks, by the place among the voice's speakers.
        speed: Pace relative to the voice's own.
        key: Whose it is: one key's burst does not delay the others' starts.
        is_batch: Nobody listens: it is neither paced nor counted by admission, takes what others
            leave and is preempted first.
        wants_audio: Whether its frames are decoded.
        wants_tokens: Whether its codes are sent.
    """

    sampling: SamplingSettings
    speaker: int = 0
    speed: float = 1.0
    key: str = ""
    is_batch: bool = False
    wants_audio: bool = True
    wants_tokens: bool = False


class Draw(msgspec.Struct, frozen=True, gc=False):
    """One token to sample at the end of a slice.

    Attributes:
        position_in_frame: Which codebook block is legal.
        may_end: Whether END_OF_SPEECH may be drawn.
        index: Counts the draws of the request; with the seed it fixes the random number.
        settings: The request's sampling.
        recent_codes: Codes lately drawn at this frame position; empty unless they are penalised.
        barred_codes: Codes that may not be drawn; leaves some.
    """

    position_in_frame: int
    may_end: bool
    index: int
    settings: SamplingSettings
    recent_codes: tuple[int, ...] = ()
    barred_codes: tuple[int, ...] = ()


class SequenceSlice(msgspec.Struct, frozen=True, gc=False):
    """A run of consecutive tokens of one sequence whose keys and values this step computes.

    Attributes:
        slot: Row of the per-stream state; belongs to `request_id` while the request runs.
        token_ids: The tokens, in order.
        first_position: Position of the first one; everything before it is already in the KV cache.
        block_ids: The sequence's block table; covers every position up to the slice's end.
        draw: The token to sample behind the slice; `None` for all but the last chunk of a prefill.
    """

    request_id: int
    slot: int
    phase: Phase
    token_ids: tuple[int, ...]
    first_position: int
    block_ids: tuple[int, ...]
    draw: Draw | None

    @property
    def end_position(self) -> int:
        """Position behind the last token."""
        return self.first_position + len(self.token_ids)


class StepPlan(msgspec.Struct, frozen=True):
    """One forward pass: slices in the order of their rows."""

    slices: tuple[SequenceSlice, ...]

    @property
    def num_tokens(self) -> int:
        """Tokens that this step computes."""
        return sum(len(piece.token_ids) for piece in self.slices)


class StepResult(msgspec.Struct, frozen=True):
    """The drawn tokens, one for each slice with a `draw`, in plan order, as vocabulary ids."""

    token_ids: tuple[int, ...]


class NewFrame(msgspec.Struct, frozen=True, gc=False):
    """A complete codec frame of one request.

    Attributes:
        frame: Index within the request.
        codes: One code in [0, codebook_size) for each position-in-frame.
        needed_at: When a listener who plays without a pause since the first frame needs it.
        text_at: When the text arrived that the stream had to wait for before it; `None` where it
            had not.
        speaker: Who speaks.
    """

    request_id: int
    slot: int
    frame: int
    codes: tuple[int, ...]
    needed_at: float
    wants_audio: bool
    wants_tokens: bool
    text_at: float | None = None
    speaker: int = 0


Output = NewFrame | SegmentSpoken | Finished | Failed
