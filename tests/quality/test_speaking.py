from types import SimpleNamespace

import pytest
import soundfile

from realtime.client import AudioChunk
from realtime.errors import CapacityError, UnknownVoiceError
from realtime.quality import speaking
from realtime.quality.speaking import Job, speak
from realtime.wire import Done, Metrics, Opened
from tests.quality.make import RATE_HZ

PCM = b"\x01\x00" * 100


class Utterance:
    """Fails with an error, or speaks 100 samples."""

    def __init__(self, error):
        self._error = error
        self.done = None

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        pass

    def feed(self, text):
        self.text = text

    async def __aiter__(self):
        yield Opened(context="u", number=1, voice="resolved", seed=1)
        if self._error is not None:
            raise self._error
        yield AudioChunk(sample_offset=0, pcm=PCM, sample_rate_hz=RATE_HZ, is_last=True)
        self.done = Done(
            context="u", reason="end_of_speech", samples=100, char=5, metrics=Metrics(audio_s=0.1)
        )


class Session:
    def __init__(self, *errors):
        self.ready = SimpleNamespace(voice="default", sample_rate_hz=RATE_HZ)
        self.asked = []
        self._errors = [*errors]

    def utterance(self, **options):
        self.asked.append(options)
        return Utterance(self._errors.pop(0) if self._errors else None)


def _job(**changes) -> Job:
    return Job(**({"voice": None, "seed": 2, "speed": 1.0, "index": 3, "text": "Hello"} | changes))


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.anyio
async def test_a_service_without_room_is_asked_again(tmp_path, monkeypatch):
    monkeypatch.setattr(speaking, "_RETRY_AFTER_S", 0.001)
    session = Session(CapacityError("full", retry_after_s=0.001), CapacityError("full again"))
    spoken = await speak(session, _job(), tmp_path)
    assert (spoken.reason, spoken.voice, len(session.asked)) == ("end_of_speech", "resolved", 3)
    assert len(soundfile.read(spoken.path)[0]) == 100


@pytest.mark.anyio
async def test_patience_has_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(speaking, "PATIENCE_S", 0.002)
    session = Session(*[CapacityError("full", retry_after_s=0.001)] * 10)
    spoken = await speak(session, _job(), tmp_path)
    assert spoken.reason == "at_capacity"
    assert len(session.asked) == 3


@pytest.mark.anyio
async def test_a_request_that_can_never_work_is_not_repeated(tmp_path):
    session = Session(UnknownVoiceError("nobody"))
    spoken = await speak(session, _job(voice="no/body"), tmp_path)
    assert (spoken.reason, len(session.asked)) == (UnknownVoiceError.code, 1)
    assert spoken.path.name == "no_body_seed2_0003.wav"


@pytest.mark.anyio
async def test_the_seed_follows_the_line_and_the_speed_is_asked_only_where_it_is_wanted(tmp_path):
    session = Session()
    await speak(session, _job(), tmp_path)
    await speak(session, _job(speed=1.2, voice="other"), tmp_path)
    assert [options["sampling"].seed for options in session.asked] == [5, 5]
    assert [options["speed"] for options in session.asked] == [None, 1.2]
    assert [options["voice"] for options in session.asked] == [None, "other"]
    assert {options["priority"] for options in session.asked} == {"batch"}
