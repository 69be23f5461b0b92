"""Exit codes of all commands, and how an error becomes one line and a code.

0 done, 1 the service failed, 2 wrong use or configuration or a request that can never work, 3 no
service answers, 4 no room now (try again later), 130 interrupted, 141 the reader of our output is
gone.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import typer

from realtime.errors import (
    CapacityError,
    ConfigError,
    EngineNotReadyError,
    RequestError,
    SpeechError,
)

FAILED = 1
WRONG_USE = 2
NO_SERVICE = 3
NO_ROOM = 4
INTERRUPTED = 130
BROKEN_PIPE = 141


class UsageError(RequestError):
    """The command was called in a way that cannot work."""

    code = "usage"


class NoServiceError(SpeechError):
    """No service to talk to."""

    code = "no_service"


def exit_code(error: SpeechError) -> int:
    """The exit code that an error stands for."""
    match error:
        case ConfigError() | RequestError():
            return WRONG_USE
        case NoServiceError():
            return NO_SERVICE
        case CapacityError() | EngineNotReadyError():
            return NO_ROOM
        case _:
            return FAILED


def say(text: str) -> None:
    """A line for a person, on standard error."""
    typer.echo(text, err=True)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person sees `stream`; Python has `None` for a standard stream that is closed."""
    return stream is not None and stream.isatty()


def require_utf8(name: str, value: str | None) -> None:
    """Refuse an argument whose bytes were no UTF-8, which Python hands over as lone surrogates.

    Raises:
        UsageError: Naming the argument.
    """
    try:
        (value or "").encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{name} is not UTF-8") from error


@contextmanager
def exit_codes() -> Iterator[None]:
    """Run a command's body; errors a person can meet become one line and an exit code.

    Raises:
        typer.Exit: With the code.
    """
    try:
        with ungrouped():
            yield
    except SpeechError as error:
        say(f"error: {error}{_hint(error)}")
        raise typer.Exit(exit_code(error)) from error
    except KeyboardInterrupt as error:
        say("interrupted")
        raise typer.Exit(INTERRUPTED) from error
    except BrokenPipeError as error:
        _forget_standard_output()
        raise typer.Exit(BROKEN_PIPE) from error
    except OSError as error:
        say(f"error: {error}")
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError:
            _forget_standard_output()
        raise typer.Exit(FAILED) from error


def _forget_standard_output() -> None:
    """What Python still holds for standard output would fail again at exit: let it vanish."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def ungrouped() -> Iterator[None]:
    """Raise the one exception inside a group by itself; task groups wrap what their tasks raise."""
    try:
        yield
    except BaseExceptionGroup as group:
        inner: BaseException = group
        while isinstance(inner, BaseExceptionGroup) and len(inner.exceptions) == 1:
            inner = inner.exceptions[0]
        raise inner from None


def _hint(error: SpeechError) -> str:
    return "" if error.retry_after_s is None else f" (try again in {error.retry_after_s:.1f} s)"
