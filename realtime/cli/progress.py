"""Progress of a long text on a terminal."""

import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from realtime.cli.exits import is_terminal

LONG_TEXT_CHARS = 200


class SpeechProgress:
    """A line on standard error that follows the speech; implements `speaking.Watcher`.

    The bar counts characters of complete sentences; of a text that is still growing it shows what
    has been written so far.
    """

    def __init__(self, text_chars: int | None) -> None:
        """Prepare the line; `text_chars` is `None` while the length is not known."""
        self._bar = Progress(
            SpinnerColumn(),
            BarColumn(),
            TextColumn("{task.completed}/{task.total} characters"),
            TextColumn("{task.fields[audio_s]:.1f} s of audio"),
            console=Console(stderr=True),
            transient=True,
        )
        self._is_growing = text_chars is None
        self._task = self._bar.add_task("", total=text_chars or 0, audio_s=0.0)

    def text_sent(self, chars: int) -> None:
        """Move the end of a growing text."""
        if self._is_growing:
            self._bar.update(self._task, total=chars)

    def spoken(self, audio_s: float, chars: int) -> None:
        """Move the bar."""
        self._bar.update(self._task, completed=chars, audio_s=audio_s)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()


def progress_for(text: str | None, *, is_quiet: bool) -> SpeechProgress | None:
    """A progress line where one helps: on a terminal, for a long or growing (`None`) text."""
    is_long = text is None or len(text) > LONG_TEXT_CHARS
    if is_quiet or not is_long or not is_terminal(sys.stderr):
        return None
    return SpeechProgress(None if text is None else len(text))
