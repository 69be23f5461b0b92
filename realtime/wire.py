"""Caller <-> gateway: the `speech.v1` messages and the binary audio frame. Does no I/O and knows no
engine.

Text frames hold one JSON object with a `type`; binary frames (server to client only) hold one
`AudioFrame`. docs/PROTOCOL.md is the byte-level description; a test checks its examples against
this module.
"""

import json
import struct
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from realtime.errors import SpeechError

SUBPROTOCOL = "speech.v1"
PROTOCOL_VERSION = 1
STREAM_PATH = "/v1/stream"

MAX_CONTEXT_NAME_CHARS = 128

ContextName = Annotated[str, Meta(min_length=1, max_length=MAX_CONTEXT_NAME_CHARS)]
DoneReason = Literal["end_of_speech", "cancelled", "length", "guard", "error"]
SpeechWarning = Literal["nothing_speakable", "partly_unspoken"]
OutputKind = Literal["audio", "tokens"]
Priority = Literal["live", "batch"]


class _FromClient(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="type",
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """Base of the client's messages: an unknown field is a typo and is refused."""


class _FromServer(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """Base of the server's messages: a client ignores fields that a later server adds."""


class Sampling(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """How the next token is drawn. `None` takes the voice's own default.

    Attributes:
        temperature: Softmax temperature; 0 is greedy.
        top_k: Keep the k likeliest codes; 0 keeps all.
        top_p: Keep the smallest set of codes with at least this probability.
        min_p: Drop codes less likely than this share of the likeliest one.
        repetition_penalty: Divides the logits of recently drawn codes (same codebook position); 1
            is off.
        seed: Fixes the stream of random numbers; the same seed, text and voice give the same tokens
            in any company.
    """

    temperature: Annotated[float, Meta(ge=0.0, le=2.0)] | None = None
    top_k: Annotated[int, Meta(ge=0, le=65536)] | None = None
    top_p: Annotated[float, Meta(gt=0.0, le=1.0)] | None = None
    min_p: Annotated[float, Meta(ge=0.0, le=1.0)] | None = None
    repetition_penalty: Annotated[float, Meta(ge=1.0, le=2.0)] | None = None
    seed: Annotated[int, Meta(ge=0, le=2**53 - 1)] | None = None


class Hello(_FromClient, frozen=True, kw_only=True, tag="hello"):
    """First message of a session: who calls and the defaults of its contexts.

    Attributes:
        credential: API key where the service asks for one.
        voice: Voice name; `None` takes the service's default.
        speed: Pace of every context of this session relative to the voice's own; `ready` says the
            range.
        sampling: Defaults for every context of this session.
        outputs: What the client wants to receive: audio, tokens or both.
        first_segment_min_chars: Release the first segment at a clause or word boundary once it has
            this many characters.
        max_contexts: How many contexts the client wants to hold open at once; the server answers
            with what it grants.
    """

    credential: Annotated[str, Meta(max_length=4096)] | None = None
    voice: Annotated[str, Meta(max_length=256)] | None = None
    speed: float | None = None
    sampling: Sampling = Sampling()
    outputs: Annotated[tuple[OutputKind, ...], Meta(min_length=1, max_length=2)] = ("audio",)
    first_segment_min_chars: Annotated[int, Meta(ge=1, le=1000)] | None = None
    max_contexts: Annotated[int, Meta(ge=1, le=1024)] | None = None


class Text(_FromClient, frozen=True, kw_only=True, tag="text"):
    """A piece of a context's text, joined verbatim to what came before. The first piece opens the
    context.

    Attributes:
        context: The client's name for the utterance.
        text: Any piece, also a part of a word.
        voice: On the first piece only: overrides the session's voice.
        speed: On the first piece only: overrides the session's speed.
        sampling: On the first piece only: overrides the session's sampling, field by field.
        priority: On the first piece only. `batch` says that nobody listens while it is spoken: it
            is made as fast as others leave room for, and is the first to wait.
    """

    context: ContextName
    text: str
    voice: Annotated[str, Meta(max_length=256)] | None = None
    speed: float | None = None
    sampling: Sampling | None = None
    priority: Priority = "live"


class Flush(_FromClient, frozen=True, kw_only=True, tag="flush"):
    """Speak all text sent so far without waiting for the end of a sentence."""

    context: ContextName


class End(_FromClient, frozen=True, kw_only=True, tag="end"):
    """No more text comes for this context; `done` follows its last audio."""

    context: ContextName


class Cancel(_FromClient, frozen=True, kw_only=True, tag="cancel"):
    """Stop at once. Answered by `cancelled`; no audio of the context follows that answer."""

    context: ContextName


class Played(_FromClient, frozen=True, kw_only=True, tag="played"):
    """The listener has heard the context's first `samples` samples."""

    context: ContextName
    samples: Annotated[int, Meta(ge=0)]


class Ping(_FromClient, frozen=True, kw_only=True, tag="ping"):
    """Answered by `pong` with the same `nonce`."""

    nonce: Annotated[str, Meta(max_length=128)] = ""


ClientMessage = Hello | Text | Flush | End | Cancel | Played | Ping


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What the server grants this session."""

    max_contexts: int
    max_message_bytes: int
    max_text_chars: int
    hello_timeout_s: float
    text_timeout_s: float


class Ready(_FromServer, frozen=True, kw_only=True, tag="ready"):
    """Answer to `hello`.

    Attributes:
        voice: Id of the session's voice.
        voices: All names that a request may use.
        speed_range: Slowest and fastest `speed`; `None` where the voices have no speed control.
    """

    session: str
    protocol: int
    voice: str
    voices: tuple[str, ...]
    speed_range: tuple[float, float] | None = None
    sample_rate_hz: int
    encoding: Literal["pcm_s16le"]
    tokens_per_second: float
    limits: Limits


class Opened(_FromServer, frozen=True, kw_only=True, tag="opened"):
    """A context was opened; its audio frames carry `number`. A reused name gets a new number."""

    context: str
    number: int
    voice: str
    speed: float = 1.0
    seed: int


class Tokens(_FromServer, frozen=True, kw_only=True, tag="tokens"):
    """Speech tokens as the codec's codes, flat, 7 a frame, from frame `first_frame` of the context
    on.
    """

    context: str
    first_frame: int
    codes: tuple[int, ...]


class Sentence(_FromServer, frozen=True, kw_only=True, tag="sentence"):
    """A sentence's audio is complete: its span in the client's text (code points) and in the
    context's samples.
    """

    context: str
    index: int
    start_char: int
    end_char: int
    start_sample: int
    end_sample: int


class Cancelled(_FromServer, frozen=True, kw_only=True, tag="cancelled"):
    """The cancel took effect: no audio of this context follows. `done` follows once its slot is
    free.

    Attributes:
        samples: Samples sent before the cancel.
        char: Character of the client's text (code point offset) that those samples reach.
    """

    context: str
    samples: int
    char: int


class Metrics(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """One request's figures, in seconds unless the name says otherwise; `None` where the event
    never came.

    See docs/PROTOCOL.md for each definition.
    """

    text_wait_s: float | None = None
    queue_s: float | None = None
    ttft_s: float | None = None
    ttfb_s: float | None = None
    audible_s: float | None = None
    first_sentence_s: float | None = None
    total_s: float | None = None
    tokens: int = 0
    tpot_s: float | None = None
    tokens_per_s: float | None = None
    audio_s: float = 0.0
    real_time_factor: float | None = None
    underrun_s: float = 0.0
    underruns: int = 0
    text_underrun_s: float = 0.0
    text_underruns: int = 0
    text_resume_s: float | None = None
    slot_free_s: float | None = None


class Done(_FromServer, frozen=True, kw_only=True, tag="done"):
    """Last message of a context.

    Attributes:
        samples: Samples sent to the client.
        char: Character of the client's text (code point offset) that those samples reach.
        warning: `nothing_speakable`: the text was not blank, and nothing of it is read aloud;
            `partly_unspoken`: letters of it were left out.
        unspoken_letters: Letters that were left out because the voice does not know their script.
    """

    context: str
    reason: DoneReason
    samples: int
    char: int
    metrics: Metrics
    warning: SpeechWarning | None = None
    unspoken_letters: int = 0


class Error(_FromServer, frozen=True, kw_only=True, tag="error"):
    """Something failed. With a `context` only that context is affected; without one the connection
    closes next.
    """

    code: str
    message: str
    retryable: bool
    retry_after_s: float | None = None
    context: str | None = None


def error_message(error: SpeechError, context: str | None = None) -> Error:
    """An error as the message that answers it."""
    return Error(
        code=error.code,
        message=error.message,
        retryable=error.is_retryable,
        retry_after_s=error.retry_after_s,
        context=context,
    )


class Pong(_FromServer, frozen=True, kw_only=True, tag="pong"):
    """Answer to `ping`."""

    nonce: str = ""


ServerMessage = Ready | Opened | Tokens | Sentence | Cancelled | Done | Error | Pong


class Voice(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of `GET /v1/voices`.

    Attributes:
        id: Its name.
        aliases: Other names for it.
        language: BCP 47 tag.
        licence: Licence of what it was learnt from, or of its weights.
        description: One line.
        gender: `female` or `male`, as it sounds; empty where that is not said.
        sample: Path of a recording on this service; `None` where there is none.
        is_default: Whether it speaks where no voice is named.
    """

    id: str
    aliases: tuple[str, ...]
    language: str
    licence: str
    description: str
    gender: str
    sample: str | None
    is_default: bool


class VoiceList(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /v1/voices`."""

    voices: tuple[Voice, ...]
    speed_range: tuple[float, float] | None


class AudioFrame(msgspec.Struct, frozen=True):
    """One binary frame: a 16-byte little-endian header, then s16le mono samples.

    Attributes:
        number: The context's number from `opened`.
        sample_offset: Position of the first sample in the context's audio.
        pcm: Little-endian signed 16-bit samples at the session's sample rate.
        is_last: No audio of this context follows.
    """

    HEADER: ClassVar[struct.Struct] = struct.Struct("<BBHIQ")
    ENCODING_PCM_S16LE: ClassVar[int] = 1
    FLAG_LAST: ClassVar[int] = 1

    number: int
    sample_offset: int
    pcm: bytes
    is_last: bool = False

    def encode(self) -> bytes:
        """Header and samples as one WebSocket binary message."""
        flags = self.FLAG_LAST if self.is_last else 0
        return (
            self.HEADER.pack(
                PROTOCOL_VERSION, self.ENCODING_PCM_S16LE, flags, self.number, self.sample_offset
            )
            + self.pcm
        )

    @classmethod
    def decode(cls, data: bytes) -> "AudioFrame":
        """Parse a binary message.

        Raises:
            ValueError: Too short, of an unknown version or encoding, or half a sample.
        """
        if len(data) < cls.HEADER.size or len(data) % 2:
            raise ValueError(
                f"audio frame of {len(data)} bytes: want {cls.HEADER.size} of header, then samples"
            )
        version, encoding, flags, number, offset = cls.HEADER.unpack_from(data)
        if version != PROTOCOL_VERSION or encoding != cls.ENCODING_PCM_S16LE:
            raise ValueError(f"audio frame of version {version}, encoding {encoding}")
        return cls(number, offset, data[cls.HEADER.size :], bool(flags & cls.FLAG_LAST))


_ENCODER = msgspec.json.Encoder()
_CLIENT_DECODER = msgspec.json.Decoder(ClientMessage)
_SERVER_DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder(ServerMessage)


def encode_message(message: ClientMessage | ServerMessage) -> str:
    """A message as the text of one WebSocket text frame."""
    return _ENCODER.encode(message).decode()


def decode_client_message(text: str | bytes) -> ClientMessage:
    """Parse a client's text frame.

    Raises:
        msgspec.DecodeError: Not JSON, an unknown `type` or field, or a value out of range
            (`ValidationError` is a subclass).
    """
    try:
        return _decode(_CLIENT_DECODER, text)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        piece = _piece_of_a_split_character(text)
        if piece is None:
            raise
        return piece


def _piece_of_a_split_character(text: str | bytes) -> Text | None:
    """A `text` message whose text holds half a surrogate pair, which msgspec refuses.

    A piece may be cut anywhere, and callers whose strings are UTF-16 cut through characters.
    """
    try:
        message = msgspec.convert(json.loads(text), ClientMessage)
        if not isinstance(message, Text):
            return None
        (message.context + (message.voice or "")).encode()
    except (ValueError, RecursionError, msgspec.ValidationError):
        return None  # UnicodeEncodeError is a ValueError: names are sent back and must be whole
    return message


def decode_server_message(text: str | bytes) -> ServerMessage:
    """Parse a server's text frame.

    Raises:
        msgspec.DecodeError: As `decode_client_message`.
    """
    return _decode(_SERVER_DECODER, text)


def _decode(decoder: msgspec.json.Decoder[Any], text: str | bytes) -> Any:
    try:
        return decoder.decode(text)
    except RecursionError as error:
        raise msgspec.DecodeError("nested too deeply") from error
