"""Texts to say: the lines that ship, and files of the user's own."""

from pathlib import Path

from realtime.errors import RequestError

SENTENCES = Path(__file__).resolve().parent / "data" / "sentences.txt"
"""150 lines of everyday English that no training has seen."""


class BadTextError(RequestError):
    """A text file holds nothing to say, or is not UTF-8."""

    code = "bad_text"


def read_lines(path: Path) -> tuple[str, ...]:
    """The lines of a file, without empty ones and those that begin with `#`.

    Raises:
        OSError: It cannot be read.
        BadTextError: It holds none, or is not UTF-8.
    """
    lines = tuple(line.strip() for line in _read(path).splitlines())
    kept = tuple(line for line in lines if line and not line.startswith("#"))
    if not kept:
        raise BadTextError(f"{path} holds no lines to say")
    return kept


def read_text(path: Path) -> str:
    """A whole file.

    Raises:
        OSError: It cannot be read.
        BadTextError: It is blank, or not UTF-8.
    """
    text = _read(path).strip()
    if not text:
        raise BadTextError(f"{path} holds nothing to say")
    return text


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadTextError(f"{path} is not UTF-8: {error}") from error
