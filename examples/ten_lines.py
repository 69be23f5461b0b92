"""The client in ten lines: speak a text that is still being written. Needs `realtime serve`."""

import sys
import wave
from collections.abc import AsyncIterator

import anyio

from realtime.client import DEFAULT_URL, connect


async def language_model() -> AsyncIterator[str]:
    """Stands for any source of text that comes in pieces."""
    for piece in ("Hel", "lo the", "re. This is spo", "ken as it is wri", "tten."):
        yield piece
        await anyio.sleep(0.05)


async def main(url: str) -> None:
    """Write hello.wav while the text arrives."""
    async with connect(url) as session:
        with wave.open("hello.wav", "wb") as file:
            file.setparams((1, 2, session.ready.sample_rate_hz, 0, "NONE", ""))
            async for chunk in session.speak(language_model()):
                file.writeframes(chunk.pcm)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else DEFAULT_URL)
