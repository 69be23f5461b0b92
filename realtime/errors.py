"""Every error a caller can meet, with its stable wire code and WebSocket close code.

`RequestError`: the caller must change something. `CapacityError`: the same request may work later.
`EngineError`: our fault. The codes are part of the protocol (docs/PROTOCOL.md); a code never
changes its meaning. This module knows no transport.
"""

from typing import ClassVar

ENGINE_START_S = 4.0
"""What an engine takes to start, rounded up: when to try again while there is none."""


class SpeechError(Exception):
    """Base of all errors that are answered to a caller.

    Attributes:
        code: Stable snake_case identifier, on the wire.
        close_code: WebSocket close code when the error ends the whole connection.
        is_retryable: Whether the same request may succeed later, unchanged.
        usual_retry_after_s: `retry_after_s` where the one who raises it knows no better.
        retry_after_s: When to try again, in seconds; `None` when unknown.
    """

    code: ClassVar[str] = "internal"
    close_code: ClassVar[int] = 1011
    is_retryable: ClassVar[bool] = False
    usual_retry_after_s: ClassVar[float | None] = None

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_s = self.usual_retry_after_s if retry_after_s is None else retry_after_s


class RequestError(SpeechError):
    """The request is wrong; sending it again will not help."""

    code = "bad_request"
    close_code = 1008


class MalformedMessageError(RequestError):
    """Not JSON, an unknown type or field, or a value out of range."""

    code = "malformed_message"
    close_code = 1007


class BinaryNotAllowedError(RequestError):
    """A binary frame where the protocol expects text."""

    code = "binary_not_allowed"
    close_code = 1003


class MessageTooBigError(RequestError):
    """One message is larger than the stated limit."""

    code = "message_too_big"
    close_code = 1009


class ProtocolViolationError(RequestError):
    """A frame that the WebSocket protocol does not allow."""

    code = "protocol_violation"
    close_code = 1002


class RequestTimeoutError(RequestError):
    """No complete HTTP request came in time."""

    code = "request_timeout"


class BadRequestHeadError(RequestError):
    """The head of the HTTP request is too large."""

    code = "request_head_too_large"


class TooManyFramesError(RequestError):
    """A flood of frames that make no messages."""

    code = "too_many_frames"


class OutOfOrderError(RequestError):
    """A message that the session's or the context's state does not allow, such as `text` before
    `hello`.
    """

    code = "out_of_order"


class UnauthorizedError(RequestError):
    """The credential is missing or wrong."""

    code = "unauthorized"


class HelloTimeoutError(RequestError):
    """No `hello` arrived in time."""

    code = "hello_timeout"


class UnknownVoiceError(RequestError):
    """The voice is not in the registry."""

    code = "unknown_voice"


class UnsupportedSpeedError(RequestError):
    """The voice does not speak at this speed."""

    code = "unsupported_speed"


class UnknownContextError(RequestError):
    """The message names a context that is not open."""

    code = "unknown_context"


class TooManyContextsError(RequestError):
    """The session holds as many open contexts as it may."""

    code = "too_many_contexts"


class TextTooLongError(RequestError):
    """The context's text is longer than the stated limit."""

    code = "text_too_long"


class UnspeakableTextError(RequestError):
    """The text front end cannot turn this text into phonemes."""

    code = "unspeakable_text"


class SlowReaderError(RequestError):
    """The caller does not read its audio; the connection is closed to protect the others."""

    code = "slow_reader"


class TextTimeoutError(RequestError):
    """A context was left open without text for longer than allowed."""

    code = "text_timeout"


class CapacityError(SpeechError):
    """No room now; the same request may work later."""

    code = "at_capacity"
    close_code = 1013
    is_retryable = True


class TooManySessionsError(CapacityError):
    """The gateway holds as many connections as it may."""

    code = "too_many_sessions"
    usual_retry_after_s = 5.0


class ShuttingDownError(CapacityError):
    """The service is draining before it stops."""

    code = "shutting_down"
    close_code = 1001
    usual_retry_after_s = ENGINE_START_S  # of the service that takes over


class EngineError(SpeechError):
    """The service failed; the request was fine."""

    code = "engine_failed"
    is_retryable = True


class EngineLostError(EngineError):
    """The engine process died or hung; it is being restarted."""

    code = "engine_lost"
    usual_retry_after_s = ENGINE_START_S


class EngineNotReadyError(EngineError):
    """The engine is still starting."""

    code = "engine_not_ready"
    close_code = 1013
    usual_retry_after_s = ENGINE_START_S


class ConfigError(SpeechError):
    """The configuration is not usable; the message names the field."""

    code = "bad_config"


def all_error_types() -> dict[str, type[SpeechError]]:
    """Every concrete error class by wire code, for documentation and for clients that raise by
    code.
    """
    found: dict[str, type[SpeechError]] = {}
    pending: list[type[SpeechError]] = [SpeechError]
    while pending:
        kind = pending.pop()
        found[kind.code] = kind
        pending.extend(kind.__subclasses__())
    return found
