"""Speakers and speeds of one voice side by side: everyone sounds as if alone."""

import msgspec
import pytest
import torch

from models.codec.decoder import CodecDecoder
from models.spec import SpeakerSpec
from models.step_model import make_step_model
from models.tokenizer import PhonemeTokenizer
from realtime.engine.batch import StepBuffers
from realtime.engine.codec_stage import CodecInline, CodecStage
from realtime.engine.core import EngineCore, EngineParts
from realtime.engine.kv_cache import KVCache
from realtime.engine.plan import NewFrame
from realtime.engine.runner import ModelRunner
from realtime.engine.sequence import PendingSegment
from realtime.engine.voice import SpokenVoice, speech_layout, speed_range, voice_facts
from realtime.messages import (
    AppendSegment,
    EndText,
    Failed,
    OutputChunk,
    SamplingParams,
    StartRequest,
)
from tests.engine.helpers import LIMITS as SMALL_LIMITS
from tests.engine.helpers import make_scheduler
from tests.engine.test_core import ListLink
from tests.engine.voice import CODEC, MODEL, VOICE, language_model
from tests.fakes.clock import FakeClock

SPEEDS = (0.7, 1.0, 1.3)
LIMITS = msgspec.structs.replace(SMALL_LIMITS, num_blocks=256)
_SPEC = msgspec.structs.replace(
    MODEL,
    vocab_size=MODEL.vocab_size + 2 + len(SPEEDS),
    num_speakers=2,
    speeds=SPEEDS,
    control_base_id=MODEL.vocab_size,
)
_FACTS = {"language": "en-US", "licence": "Apache-2.0", "teacher": "none"}
TWO = msgspec.structs.replace(
    VOICE,
    model=_SPEC,
    codec=msgspec.structs.replace(CODEC, speaker_hz=(110.0,)),
    speakers=(
        SpeakerSpec(id="ada", aliases=("alloy",), description="1", gender="female", **_FACTS),
        SpeakerSpec(id="bob", description="2", gender="male", sample="bob.wav", **_FACTS),
    ),
)


def codec() -> CodecDecoder:
    """Random weights, those that tell the speakers apart included."""
    torch.manual_seed(1)
    decoder = CodecDecoder(TWO.codec)
    with torch.no_grad():
        for name, tensor in decoder.named_parameters():
            if "film" in name or "speaker" in name:
                tensor.normal_(std=0.3)
    return decoder.eval().requires_grad_(False)


class Speech:
    """A real engine without a process: requests as `(speaker, speed, seed)`."""

    def __init__(self, max_streams: int = 4) -> None:
        clock = FakeClock()
        self.link = ListLink(clock)
        layout = speech_layout(TWO)
        limits = msgspec.structs.replace(LIMITS, max_streams=max_streams)
        model, _ = make_step_model(
            language_model(_SPEC), _SPEC, device="cpu", compile="off", compiler=None
        )
        buffers = StepBuffers(
            max_streams=max_streams,
            max_tokens=limits.max_step_tokens,
            max_blocks=-(-_SPEC.max_positions // limits.block_size),
            block_size=limits.block_size,
            num_codes=_SPEC.codebook_size,
            device="cpu",
        )
        kv = KVCache.allocate(
            _SPEC, limits.num_blocks, limits.block_size, device="cpu", dtype=torch.float32
        )
        stage = CodecStage(codec(), max_streams, clock)
        self.core = EngineCore(
            EngineParts(
                link=self.link,
                scheduler=make_scheduler(limits, layout, clock),
                runner=ModelRunner(model, _SPEC, kv, buffers),
                sink=CodecInline(stage, self.link.send),
                voice=SpokenVoice(TWO, PhonemeTokenizer(TWO.symbols)),
                clock=clock,
                codec_s=lambda: 0.0,
                resident_bytes=lambda: 0,
            )
        )

    def pcm(self, *requests: tuple[int, float, int]) -> list[bytes]:
        """What each of them is answered with, all of them asked for at once."""
        for number, (speaker, speed, seed) in enumerate(requests):
            sampling = SamplingParams(seed=seed, temperature=0.8)
            self.link.inbox += [
                StartRequest(request_id=number, speaker=speaker, speed=speed, sampling=sampling),
                AppendSegment(request_id=number, index=0, phonemes="hɛlO"),
                EndText(request_id=number),
            ]
        for _ in range(5000):
            if not self.core.step() and not self.link.inbox:
                break
        chunks = [m for m in self.link.sent if isinstance(m, OutputChunk)]
        return [
            b"".join(chunk.pcm for chunk in chunks if chunk.request_id == number)
            for number in range(len(requests))
        ]


REQUESTS = [(0, 1.0, 5), (1, 1.0, 5), (0, 0.7, 5), (1, 1.3, 5)]


@pytest.mark.slow
def test_speakers_and_speeds_in_one_batch_sound_as_alone():
    together = Speech().pcm(*REQUESTS)
    assert together == [Speech().pcm(request)[0] for request in REQUESTS]
    assert len(set(together)) == len(REQUESTS), "the control changes nothing"


@pytest.mark.slow
def test_a_reused_slot_does_not_keep_its_predecessors_speaker():
    requests = [(1, 1.0, 5), (0, 1.0, 5), (1, 1.0, 5)]
    one_after_another = Speech(max_streams=1).pcm(*requests)
    assert one_after_another == [Speech().pcm(request)[0] for request in requests]


def test_the_codec_gives_a_slot_the_speaker_of_its_new_request():
    codes = (1, 2, 3, 4, 5, 6, 7)
    frames = [NewFrame(n, 0, 0, codes, 0.0, True, False, None, n % 2) for n in range(3)]
    stage = CodecStage(codec(), 1, FakeClock())
    first, second, third = (stage.decode([frame])[0].pcm for frame in frames)
    assert first == third != second


def test_prompt_names_speaker_and_nearest_trained_speed():
    voice = SpokenVoice(TWO, PhonemeTokenizer(TWO.symbols))
    start, speaker, speed, *_, end = voice.prompt("hɛlO", 1, 1.24)
    assert (start, end) == (_SPEC.text_start_id, _SPEC.text_end_id)
    assert (speaker, speed) == (_SPEC.control_base_id + 1, _SPEC.control_base_id + 2 + 2)


def test_a_voice_without_controls_has_none_in_its_prompt():
    prompt = SpokenVoice(VOICE, PhonemeTokenizer(VOICE.symbols)).prompt("hɛlO", 0, 1.0)
    assert len(prompt) == len("hɛlO") + 2


def test_a_speaker_that_is_not_there_fails_its_request():
    speech = Speech()
    speech.pcm((2, 1.0, 5))
    assert [m.code for m in speech.link.sent if isinstance(m, Failed)] == ["unknown_voice"]


@pytest.mark.parametrize(("speed", "factor"), [(0.7, 1 / 0.7), (1.3, 1 / 1.3)])
def test_plausible_lengths_follow_the_speed(speed, factor):
    layout = speech_layout(TWO)
    usual, other = (PendingSegment(0, (1, 2), 100, pace) for pace in (1.0, speed))
    for length in ("min_frames", "likely_frames", "max_frames"):
        expected = getattr(usual, length)(layout) * factor
        found = getattr(other, length)(layout)
        is_cut = found == (layout.max_positions - 3) // layout.tokens_per_frame
        assert is_cut or abs(found - expected) <= 2


def test_facts_of_the_speakers_and_the_folders_own_names(tmp_path):
    ada, bob = voice_facts(TWO, tmp_path)
    assert ada.aliases == ("tiny", "default", "alloy")
    assert (ada.sample, bob.sample) == ("", str(tmp_path / "bob.wav"))
    assert (ada.gender, bob.gender) == ("female", "male")
    assert speed_range(TWO) == (0.7, 1.3)


def test_a_voice_without_speakers_is_one_voice_under_its_name(tmp_path):
    (facts,) = voice_facts(VOICE, tmp_path)
    assert (facts.id, facts.aliases, speed_range(VOICE)) == ("tiny", ("default",), None)
