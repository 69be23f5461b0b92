"""The shipped client against the gateway."""

import anyio
import pytest

from realtime import wire
from realtime.client import AudioChunk, connect
from realtime.errors import EngineError, UnknownVoiceError
from tests.fakes.engine import SAMPLES_PER_FRAME
from tests.gateway.harness import running_gateway, until_true

pytestmark = [pytest.mark.anyio, pytest.mark.e2e]


async def test_client_speaks_growing_text_and_gets_every_sample():
    async with running_gateway() as running, connect(running.url) as session:
        async with session.utterance() as utterance:
            for piece in ("One. ", "Tw", "o."):
                await utterance.append(piece)
            await utterance.end()
            events = [event async for event in utterance]
        assert isinstance(events[-1], wire.Done)
        chunks = [event for event in events if isinstance(event, AudioChunk)]
        assert sum(chunk.num_samples for chunk in chunks) == 8 * SAMPLES_PER_FRAME
        assert chunks[-1].is_last


async def test_client_cancels_and_raises_typed_errors():
    options = {"frames_per_segment": 10_000, "frame_s": 0.005}
    async with running_gateway(**options) as running, connect(running.url) as session:
        async with session.utterance() as utterance:
            await utterance.append("Long.")
            async for event in utterance:
                if isinstance(event, AudioChunk):
                    await utterance.cancel()
                    break
        await until_true(lambda: running.engine.client.num_requests == 0)
        with pytest.raises(UnknownVoiceError):
            async for _ in session.speak("One.", voice="nobody"):
                pass
        with pytest.raises(EngineError), anyio.fail_after(5):
            async for _ in session.speak("!fail!."):
                pass
