"""Audio files written while the audio still arrives. Does not know where samples come from."""

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np
import soundfile

SAMPLE_BYTES = 2

FILE_ENDINGS = (".wav", ".flac", ".ogg", ".mp3", ".aiff", ".au", ".caf", ".w64", ".rf64")
"""What a file's name may end in: formats that libsndfile writes at any sample rate."""


class AudioFileWriter:
    """A mono file that grows chunk by chunk; its format follows the name (`FILE_ENDINGS`).

    A WAV file on disk is a valid file after every `write`, because its header is kept up to date.
    """

    def __init__(self, path: Path, sample_rate_hz: int) -> None:
        """Create or replace the file.

        Raises:
            OSError: The file cannot be created.
            ValueError: The name's ending is none of `FILE_ENDINGS`.
        """
        ending = path.suffix.lower()
        if ending not in FILE_ENDINGS:
            raise ValueError(
                f"{path}: cannot write {path.suffix or 'a file without an ending'}; "
                f"these endings work: {', '.join(FILE_ENDINGS)}"
            )
        kind = ending.removeprefix(".").upper()
        self._path = path
        self._stream = _CheckedFile(path)
        try:
            with self._failures_as_os_error():
                self._file = soundfile.SoundFile(
                    self._stream,  # pyright: ignore[reportArgumentType] - the methods it needs
                    "w",
                    sample_rate_hz,
                    channels=1,
                    format=kind,
                )
        except OSError:
            self._stream.close()
            raise

    def write(self, pcm: bytes) -> None:
        """Append little-endian s16 samples.

        Raises:
            OSError: The file cannot be written, such as on a full disk.
        """
        with self._failures_as_os_error():
            self._file.write(np.frombuffer(pcm, dtype="<i2"))
            self._file.flush()

    def close(self) -> None:
        """Finish the header and close the file.

        Raises:
            OSError: What was left cannot be written.
        """
        try:
            with self._failures_as_os_error():
                self._file.close()
        finally:
            self._stream.close()

    @contextmanager
    def _failures_as_os_error(self) -> Iterator[None]:
        """The errors of libsndfile are no `OSError` and name neither file nor act; some of its
        formats lose the system's errors altogether.
        """
        reason: Exception | str | None = None
        try:
            yield
        except soundfile.LibsndfileError as error:
            reason = error.error_string
        reason, self._stream.failure = self._stream.failure or reason, None
        if reason is not None:
            raise OSError(f"{self._path}: cannot write the audio: {reason}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _CheckedFile:
    """A file as libsndfile sees it, which remembers what went wrong. Once closed it takes
    everything and does nothing: an abandoned `SoundFile` may still write its header.

    Attributes:
        failure: The first error of a write; libsndfile is told that all went well.
    """

    def __init__(self, path: Path) -> None:
        self.failure: OSError | None = None
        self._raw = path.open("w+b", buffering=0)

    def write(self, data: bytes) -> int:
        """Write all of `data`."""
        rest = memoryview(b"" if self._raw.closed else data)
        try:
            while rest:
                rest = rest[self._raw.write(rest) :]
        except OSError as error:
            self.failure = self.failure or error
        return len(data)

    def read(self, size: int = -1) -> bytes:
        """Read back, as libsndfile does with some headers."""
        return b"" if self._raw.closed else self._raw.read(size) or b""

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a position."""
        return 0 if self._raw.closed else self._raw.seek(offset, whence)

    def tell(self) -> int:
        """The position."""
        return 0 if self._raw.closed else self._raw.tell()

    def close(self) -> None:
        """Close the file."""
        self._raw.close()


class WavStreamWriter:
    """WAV into a pipe, where the length is not known and nobody can go back to the header.

    Both sizes in the header are the largest possible, which players and converters read as
    "until the end of the stream".
    """

    _UNKNOWN = 0xFFFFFFFF

    def __init__(self, stream: BinaryIO, sample_rate_hz: int) -> None:
        self._stream = stream
        self._stream.write(
            struct.pack(
                "<4sI4s4sIHHIIHH4sI",
                *(b"RIFF", self._UNKNOWN, b"WAVE", b"fmt ", 16, 1, 1),
                *(sample_rate_hz, sample_rate_hz * SAMPLE_BYTES, SAMPLE_BYTES, 8 * SAMPLE_BYTES),
                *(b"data", self._UNKNOWN),
            )
        )

    def write(self, pcm: bytes) -> None:
        """Append little-endian s16 samples and push them out.

        Raises:
            BrokenPipeError: The reader is gone.
        """
        self._stream.write(pcm)
        self._stream.flush()

    def close(self) -> None:
        """Push out what is left; the stream itself belongs to the caller."""
        self._stream.flush()
