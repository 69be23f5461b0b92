"""Gateway <-> engine: every value that crosses the process boundary. Torch-free; knows neither
sockets nor sessions.

A request is one utterance. Its segments are appended to one sequence, so the voice does not restart
between sentences. Instants (`*_at`) are `Clock.now()` of either process: both read the same
machine-wide monotonic clock.
"""

from typing import Literal

import msgspec

FinishReason = Literal["end_of_speech", "cancelled", "length", "guard"]


class _Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", array_like=False):
    """Base of all messages; msgspec adds the tag that tells them apart."""


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True):
    """Sampling of one request as the caller wished it; `None` takes the voice's default. See
    `realtime.wire.Sampling`.

    Attributes:
        seed: Always decided by the gateway, so that a request can be repeated.
    """

    seed: int
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None


class StartRequest(_Message, frozen=True, kw_only=True, tag="start"):
    """Open a request. It holds no slot until its first segment arrives.

    Attributes:
        request_id: Chosen by the gateway, never used twice on one link.
        speaker: Place of the voice in `EngineReady.voices`.
        speed: Pace relative to the voice's own; 1.0 where it has no speed control.
        key: Whose request it is; the engine lets keys start in turn.
        is_batch: Nobody listens: it takes what listeners leave, and is not paced.
        wants_audio: Whether PCM is decoded and sent.
        wants_tokens: Whether codes are sent.
    """

    request_id: int
    sampling: SamplingParams
    speaker: int = 0
    speed: float = 1.0
    key: str = ""
    is_batch: bool = False
    wants_audio: bool = True
    wants_tokens: bool = False


class AppendSegment(_Message, frozen=True, kw_only=True, tag="append"):
    """The next piece of text to speak, as phonemes.

    Attributes:
        index: 0, 1, 2, ... within the request.
        phonemes: In the voice's phoneme alphabet.
    """

    request_id: int
    index: int
    phonemes: str


class EndText(_Message, frozen=True, kw_only=True, tag="end_text"):
    """No further segment comes: the request finishes after its last one (at once when it had
    none).
    """

    request_id: int


class CancelRequest(_Message, frozen=True, kw_only=True, tag="cancel"):
    """Free the request before the next step; answered by `Finished(reason="cancelled")`.

    Attributes:
        sent_at: When the gateway gave the request up.
    """

    request_id: int
    sent_at: float | None = None


class PlaybackReport(_Message, frozen=True, kw_only=True, tag="playback"):
    """How far the listener is: the engine bounds its lead by it, so a stalled reader costs no
    memory.

    Attributes:
        sent_samples: Samples that the caller's socket has accepted.
        played_samples: Samples the caller says were heard; `None` where it has not said so since
            the last report.
    """

    request_id: int
    sent_samples: int
    played_samples: int | None = None


class Shutdown(_Message, frozen=True, kw_only=True, tag="shutdown"):
    """Finish nothing further and exit 0."""


ToEngine = StartRequest | AppendSegment | EndText | CancelRequest | PlaybackReport | Shutdown


class VoiceFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A voice that requests may ask for.

    Attributes:
        id: Its name.
        aliases: Other names for it.
        language: BCP 47 tag.
        licence: Licence of the weights, or of what this speaker was learnt from.
        description: One line.
        gender: As it sounds; empty where that is not said.
        sample: Path of a recording; empty where there is none.
    """

    id: str
    aliases: tuple[str, ...] = ()
    language: str
    licence: str
    description: str
    gender: str = ""
    sample: str = ""


class EngineReady(_Message, frozen=True, kw_only=True, tag="ready"):
    """Sent once, when the engine is warm.

    Attributes:
        voices: Whom it can speak as, at least one; the first is the default. A request names one by
            its place.
        speed_range: Slowest and fastest pace that requests may ask for; `None` without speed
            control.
    """

    pid: int
    device: str
    dtype: str
    voices: tuple[VoiceFacts, ...]
    speed_range: tuple[float, float] | None = None
    sample_rate_hz: int
    samples_per_frame: int
    tokens_per_frame: int
    tokens_per_second: float
    max_streams: int
    num_blocks: int
    block_size: int
    is_compiled: bool


class OutputChunk(_Message, frozen=True, kw_only=True, tag="chunk"):
    """New output of one request, in order, without gaps.

    Attributes:
        first_frame: Frame index of the first frame in this chunk; sample offset = first_frame *
            samples_per_frame.
        pcm: s16le mono samples, whole frames; empty unless `wants_audio`.
        codes: 7 codes a frame, flat; empty unless `wants_tokens`.
        text_at: Where the engine had to wait for this chunk's text: when it arrived.
    """

    request_id: int
    first_frame: int
    num_frames: int
    pcm: bytes
    codes: tuple[int, ...] = ()
    text_at: float | None = None


class SegmentSpoken(_Message, frozen=True, kw_only=True, tag="spoken"):
    """All output of segment `index` has been sent; it ends before frame `end_frame` of the
    request.
    """

    request_id: int
    index: int
    end_frame: int


class EngineTimings(msgspec.Struct, frozen=True, kw_only=True):
    """Where a request's time went inside the engine.

    Attributes:
        first_segment_at: When the first segment reached the scheduler; `None` if none did.
        scheduled_at: When a slot was given; `None` if never.
        first_token_at: When the first speech token was committed; `None` if never.
        last_token_at: When the last speech token was committed; `None` if never.
        starved_s: Time in a slot waiting for the next segment's text.
        parked_s: Time in a slot but held back because the listener is far behind.
        freed_at: When slot and blocks were free again.
    """

    first_segment_at: float | None = None
    scheduled_at: float | None = None
    first_token_at: float | None = None
    last_token_at: float | None = None
    starved_s: float = 0.0
    parked_s: float = 0.0
    freed_at: float


class Finished(_Message, frozen=True, kw_only=True, tag="finished"):
    """Last message of a request that did not fail.

    Attributes:
        num_tokens: Speech tokens generated, END_OF_SPEECH not counted.
        num_frames: Frames sent.
        num_mended: Segments that ran into a fault and were drawn anew from before it.
        num_orphaned_steps: Steps that worked for the request after its cancel was sent.
        num_orphaned_tokens: Tokens, prompts included, that they computed for it.
    """

    request_id: int
    reason: FinishReason
    num_tokens: int
    num_frames: int
    num_mended: int = 0
    num_orphaned_steps: int = 0
    num_orphaned_tokens: int = 0
    timings: EngineTimings


class Failed(_Message, frozen=True, kw_only=True, tag="failed"):
    """Last message of a request that failed; `code` is a `SpeechError` code. Its slot is free."""

    request_id: int
    code: str
    message: str
    retry_after_s: float | None = None


class CapacityReport(_Message, frozen=True, kw_only=True, tag="capacity"):
    """Sent about twice a second, also when idle: load for admission, and the engine's heartbeat.

    Attributes:
        num_tokens_total: Speech tokens generated since the start.
        num_steps_total: Steps run since the start.
        num_parked: Requests with a slot that are ahead of their listener.
        num_late_total: Times that a listener was found waiting in silence.
        num_refused_total: Requests told to come back later, by reason.
        most_streams: Listeners that keep their rate on this machine, as measured now.
        step_correction: How many times longer steps take than at calibration.
        step_s: Smoothed duration of one decode step with the present batch; 0 when idle.
        codec_s: Smoothed codec time of one frame batch; 0 when idle.
        resident_bytes: Memory of the engine process.
        num_preempted_total: Times that a request lost its KV blocks to another one.
        num_prefilled_tokens_total: Tokens computed more than one at a time: prompts, and what is
            computed again.
        num_hit_tokens_total: Tokens that the prefix cache had instead.
        num_mended_total: Segments drawn anew from before a fault, by fault.
        num_given_up_total: Segments ended because of a fault, by fault.
        phase_s_total: Time in forward passes that only `decode`, only `prefill` or do both
            (`mixed`), and around them (`host`).
    """

    at: float
    num_running: int
    num_waiting: int
    max_streams: int
    free_blocks: int
    num_blocks: int
    num_tokens_total: int
    num_steps_total: int
    num_parked: int
    num_late_total: int
    num_refused_total: dict[str, int]
    most_streams: int
    step_correction: float
    step_s: float
    codec_s: float
    resident_bytes: int
    num_preempted_total: int = 0
    num_prefilled_tokens_total: int = 0
    num_hit_tokens_total: int = 0
    num_mended_total: dict[str, int] = {}
    num_given_up_total: dict[str, int] = {}
    phase_s_total: dict[str, float] = {}


FromEngine = EngineReady | OutputChunk | SegmentSpoken | Finished | Failed | CapacityReport
