"""The voice that ships, through scheduler and model: normal speech is never taken for a fault."""

from pathlib import Path

import pytest

import realtime.quality
from realtime.clock import MonotonicClock
from realtime.config import EngineConfig, ServiceConfig
from realtime.engine.build import EngineBuilder
from realtime.engine.capacity import unlimited
from realtime.engine.plan import RequestOptions
from realtime.engine.voice import SpokenVoice, speech_layout
from realtime.messages import Finished, SamplingParams
from realtime.text.phonemes import FrontEnd

SENTENCES = Path(realtime.quality.__file__).parent / "data" / "sentences.txt"
NUM_SENTENCES = 20


@pytest.mark.slow
def test_guards_find_nothing_in_normal_speech():
    lines = SENTENCES.read_text(encoding="utf-8").splitlines()[:NUM_SENTENCES]
    config = EngineConfig(max_streams=NUM_SENTENCES, kv_memory_mib=128, max_wait_s=1e6)
    builder = EngineBuilder(ServiceConfig(engine=config), MonotonicClock())
    layout = speech_layout(builder.voice.spec)
    scheduler = builder.scheduler(
        unlimited(layout.tokens_per_second, layout.tokens_per_frame),
        MonotonicClock(),
        builder.limits,
    )
    runner = builder.runner()
    voice = SpokenVoice(builder.voice.spec, builder.voice.tokenizer)
    front_end = FrontEnd()
    options = RequestOptions(sampling=voice.settings(SamplingParams(seed=1)), is_batch=True)
    for number, line in enumerate(lines):
        phonemes = front_end.read(line).phonemes
        scheduler.start(number, options)
        scheduler.append(number, 0, voice.prompt(phonemes), len(phonemes))
        scheduler.end_text(number)
    finished = []
    while scheduler.num_open:
        plan = scheduler.schedule()
        scheduler.commit(plan, runner.run(plan))
        finished += [o for o in scheduler.take_outputs() if isinstance(o, Finished)]
    assert [message.reason for message in finished] == ["end_of_speech"] * NUM_SENTENCES
    assert not any(scheduler.num_mended.values())
