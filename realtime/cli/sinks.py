"""Where the audio of `realtime speak` goes."""

import sys
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import anyio.to_thread

from realtime.audio.wav import AudioFileWriter, WavStreamWriter
from realtime.cli.exits import UsageError

STANDARD_OUTPUT = Path("-")


class Sink(Protocol):
    """Takes audio in order."""

    async def write(self, pcm: bytes) -> None:
        """Take little-endian s16 samples; may wait until there is room."""
        ...

    async def finish(self) -> None:
        """All audio was given: return when it is written or heard."""
        ...

    def close(self) -> None:
        """Release everything at once, whether or not `finish` was called."""
        ...


def standard_output() -> BinaryIO:
    """Standard output, for bytes.

    Raises:
        UsageError: It is closed.
    """
    if sys.stdout is None:  # Python's sign of `>&-`
        raise UsageError("standard output is closed: there is nothing to write to")
    return sys.stdout.buffer


class FileSink:
    """An audio file, or WAV into standard output for the path `-`."""

    def __init__(self, path: Path, sample_rate_hz: int) -> None:
        """Open the file.

        Raises:
            UsageError: The name's ending is no known format, or standard output is closed.
            OSError: It cannot be created.
        """
        self._writer: AudioFileWriter | WavStreamWriter
        if path == STANDARD_OUTPUT:
            self._writer = WavStreamWriter(standard_output(), sample_rate_hz)
            return
        try:
            self._writer = AudioFileWriter(path, sample_rate_hz)
        except ValueError as error:
            raise UsageError(str(error)) from error

    async def write(self, pcm: bytes) -> None:
        """Append the samples."""
        self._writer.write(pcm)

    async def finish(self) -> None:
        """Nothing is left to wait for."""

    def close(self) -> None:
        """Complete the file."""
        self._writer.close()


class SpeakerSink:
    """The default sound device, through the optional package `sounddevice`."""

    def __init__(self, sample_rate_hz: int) -> None:
        """Open the device.

        Raises:
            UsageError: There is no device, or the package is missing.
        """
        device = load_sounddevice()
        if isinstance(device, str):
            raise UsageError(f"cannot play: {device}")
        self._stream = device.RawOutputStream(
            samplerate=sample_rate_hz, channels=1, dtype="int16", latency="high"
        )
        self._stream.start()

    async def write(self, pcm: bytes) -> None:
        """Queue the samples; waits while the device's buffer is full."""
        await anyio.to_thread.run_sync(self._stream.write, pcm)

    async def finish(self) -> None:
        """Wait until everything was heard."""
        await anyio.to_thread.run_sync(self._stream.stop)

    def close(self) -> None:
        """Silence the device."""
        self._stream.abort()
        self._stream.close()


def load_sounddevice() -> Any:
    """The module `sounddevice` where it can play, else why not, as a string."""
    try:
        import sounddevice  # noqa: PLC0415 - optional
    except ImportError:
        return "the package sounddevice is missing (pip install 'realtime-speech[play]')"
    except OSError as error:
        return f"the PortAudio library is missing ({error})"
    try:
        sounddevice.query_devices(kind="output")
    except (sounddevice.PortAudioError, ValueError) as error:
        return f"no sound device ({error})"
    return sounddevice
