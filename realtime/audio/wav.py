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
        with path.open("wb"):  # soundfile's own message for a bad path names no reason
            pass
        self._path = path
        with self._failures_as_os_error():
            self._file = soundfile.SoundFile(
                os.fsencode(path),  # pyright: ignore[reportArgumentType] - as a str it must be UTF-8
                "w",
                sample_rate_hz,
                channels=1,
                format=kind,
            )

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
        with self._failures_as_os_error():
            self._file.close()

    @contextmanager
    def _failures_as_os_error(self) -> Iterator[None]:
        """The errors of libsndfile are no `OSError`, and name neither file nor act."""
        try:
            yield
        except soundfile.LibsndfileError as error:
            raise OSError(f"{self._path}: cannot write the audio: {error.error_string}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


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
