"""The real model on its exact path: a stream's tokens do not depend on how it was scheduled.
Bit-equal in float32.
"""

import msgspec
import pytest
import torch

from kernels.cpu.build import CompilerMissingError
from models.step_model import make_step_model
from realtime.engine.batch import StepBuffers
from realtime.engine.kv_cache import KVCache
from realtime.engine.plan import RequestOptions, StepPlan
from realtime.engine.runner import ModelRunner
from realtime.engine.scheduler import SchedulerLimits
from realtime.engine.voice import speech_layout
from tests.engine.helpers import Driver, settings
from tests.engine.voice import MODEL, NUM_CODES, VOICE, language_model

pytestmark = pytest.mark.slow
LAYOUT = speech_layout(msgspec.structs.replace(VOICE, min_s_per_phoneme=0.08, extra_s=0.3))
LIMITS = SchedulerLimits(
    max_streams=24,
    max_waiting=64,
    max_step_tokens=64,
    block_size=8,
    num_blocks=24 * 64,
    max_unheard_s=1000.0,
    max_request_s=1000.0,
    max_wait_s=1000.0,
)


@pytest.fixture(scope="module")
def model():
    try:
        return make_step_model(language_model(), MODEL, device="cpu", compile="required")[0]
    except CompilerMissingError:
        pytest.skip("the exact path needs a C++ compiler")


class CountingRunner:
    """The real runner, remembering its plans."""

    def __init__(self, model, limits, kv_dtype=torch.float32):
        buffers = StepBuffers(
            max_streams=limits.max_streams,
            max_tokens=limits.max_step_tokens,
            max_blocks=-(-MODEL.max_positions // limits.block_size),
            block_size=limits.block_size,
            num_codes=NUM_CODES,
            device="cpu",
        )

        kv = KVCache.allocate(
            MODEL, limits.num_blocks, limits.block_size, device="cpu", dtype=kv_dtype
        )
        kv.k.fill_(float("nan"))  # whatever reads beyond what was computed shows
        kv.v.fill_(float("nan"))
        self._runner = ModelRunner(model, MODEL, kv, buffers)
        self.plans: list[StepPlan] = []

    def run(self, plan):
        self.plans.append(plan)
        return self._runner.run(plan)


class Voices:
    """Requests 0, 1, 2, ... with different texts, seeds and settings, run in one engine or each in
    its own.
    """

    SETTINGS = (
        {},
        {"top_k": 12},
        {"top_p": 0.9},
        {"repetition_penalty": 1.3},
        {"temperature": 0.0},
    )

    def __init__(self, model, kv_dtype=torch.float32, **changes):
        self.limits = msgspec.structs.replace(LIMITS, **changes)
        runner = CountingRunner(model, self.limits, kv_dtype)
        self.driver = Driver(self.limits, LAYOUT, runner, checks=False)

    def say(self, request_id, *, parts=1, like=None):
        """Text, seed and settings follow from the number, or from that of another one."""
        scheduler = self.driver.scheduler
        model_id = request_id if like is None else like
        chosen = self.SETTINGS[model_id % len(self.SETTINGS)]
        options = RequestOptions(sampling=settings(1000 + model_id, **chosen))
        scheduler.start(request_id, options)
        for index in range(parts):
            ids = [1 + (7 * model_id + 3 * index + i) % 100 for i in range(4 + model_id % 9)]
            text = (MODEL.text_start_id, *ids, MODEL.text_end_id)
            scheduler.append(request_id, index, text, len(ids))
        scheduler.end_text(request_id)

    def codes(self, request_id):
        return self.driver.codes(request_id)


@pytest.fixture(scope="module")
def alone(model):
    """Codes of request i (with so many parts) in an engine of its own, whole prefill."""
    known = {}

    def run(request_id, parts=1):
        if (request_id, parts) not in known:
            voices = Voices(model, max_streams=1, num_blocks=64, max_step_tokens=512)
            voices.say(request_id, parts=parts)
            voices.driver.run()
            known[request_id, parts] = voices.codes(request_id)
        return known[request_id, parts]

    return run


def test_stream_is_the_same_alone_and_in_any_company(model, alone):
    voices = Voices(model)
    for request_id in range(17):
        voices.say(request_id, parts=1 + request_id % 2)
    for _ in range(20):
        voices.driver.step()
    for request_id in range(17, 28):  # join in the middle, over the number of slots
        voices.say(request_id, parts=1 + request_id % 2)
    for _ in range(5):
        voices.driver.step()
    for request_id in (3, 8, 20):  # leave in the middle
        voices.driver.scheduler.cancel(request_id)
    voices.driver.run()
    rows = [len(plan.slices) for plan in voices.driver.runner.plans]
    assert max(rows) == 24
    for request_id in set(range(28)) - {3, 8, 20}:
        expected = alone(request_id, 1 + request_id % 2)
        assert voices.codes(request_id) == expected
        assert len(expected) > 3
    assert len({str(voices.codes(i)) for i in range(28)}) > 20


def test_sixty_four_streams_at_once_are_each_as_alone(model, alone):
    company = Voices(model, max_streams=64, num_blocks=64 * 64, max_step_tokens=128)
    for request_id in range(64):
        company.say(request_id)
    company.driver.run()
    assert max(len(plan.slices) for plan in company.driver.runner.plans) == 64
    for request_id in range(64):
        assert company.codes(request_id) == alone(request_id)


def test_half_precision_pages_make_streams_no_less_independent(model):
    company = Voices(model, torch.float16)
    for request_id in range(12):
        company.say(request_id, parts=1 + request_id % 2)
    company.driver.run()
    for request_id in range(12):
        alone = Voices(model, torch.float16, max_streams=1, num_blocks=64, max_step_tokens=7)
        alone.say(request_id, parts=1 + request_id % 2)
        alone.driver.run()
        assert company.codes(request_id) == alone.codes(request_id)


def test_same_seed_repeats_and_another_seed_differs(model):
    def speak(seed):
        voices = Voices(model)
        scheduler = voices.driver.scheduler
        scheduler.start(0, RequestOptions(sampling=settings(seed)))
        scheduler.append(0, 0, (MODEL.text_start_id, 5, 6, 7, 8, MODEL.text_end_id), 4)
        scheduler.end_text(0)
        voices.driver.run()
        return voices.codes(0)

    assert speak(1) == speak(1)
    assert speak(1) != speak(2)


def test_chunked_prefill_equals_whole(model, alone):
    for budget in (1, 5, 13):
        voices = Voices(model, max_streams=1, max_step_tokens=budget)
        voices.say(12, parts=3)
        voices.driver.run()
        assert voices.codes(12) == alone(12, 3)


@pytest.mark.parametrize("parts", [1, 9])  # nine restart several times
def test_prefix_hit_equals_miss(model, parts):
    spoken = {}
    for has_cache in (True, False):
        voices = Voices(model, max_step_tokens=24, prefix_cache=has_cache)
        for request_id in range(4):  # after the first, then beside each other
            voices.say(request_id, parts=parts, like=8)
            if request_id == 0:
                voices.driver.run()
        voices.driver.run()
        spoken[has_cache] = [voices.codes(request_id) for request_id in range(4)]
        hits = voices.driver.scheduler.num_prefix_hits_total
        assert hits >= parts * 3 * LIMITS.block_size if has_cache else not hits
    assert spoken[True] == spoken[False] == [spoken[True][0]] * 4
    assert len(spoken[True][0]) > 3


@pytest.mark.parametrize("has_cache", [True, False])
def test_preempted_equals_uninterrupted(model, alone, has_cache):
    voices = Voices(model, num_blocks=64, max_streams=8, prefix_cache=has_cache)
    for request_id in range(8):
        voices.say(request_id, parts=2)
    voices.driver.run()
    scheduler = voices.driver.scheduler
    assert scheduler.num_preempted_total > 3
    assert scheduler.num_free_blocks == 64
    assert (scheduler.num_prefix_hits_total > 0) == has_cache
    for request_id in range(8):
        assert voices.codes(request_id) == alone(request_id, 2)


def test_parked_equals_unparked(model, alone):
    voices = Voices(model, max_unheard_s=0.3, max_streams=4)
    for request_id in range(4):
        voices.say(request_id, parts=2)
    for turn in range(400):
        voices.driver.run()
        request_id = turn % 4  # listeners move on one after the other
        sent = len(voices.codes(request_id)) * LAYOUT.samples_per_frame
        voices.driver.scheduler.report_playback(request_id, sent)
    for request_id in range(4):
        assert voices.driver.finished(request_id).timings.parked_s > 0
        assert voices.codes(request_id) == alone(request_id, 2)


def test_restarted_chain_equals_a_chain_that_was_never_computed(model):
    """After a restart the kept segments are computed anew; chunking that differently changes
    nothing.
    """
    spoken = []
    for budget in (512, 7):
        voices = Voices(model, max_streams=1, num_blocks=64, max_step_tokens=budget)
        voices.say(4, parts=9)
        voices.driver.run()
        plans = voices.driver.runner.plans
        starts = [p for plan in plans for p in plan.slices if p.first_position == 0]
        assert len(starts) > 1
        spoken.append(voices.codes(4))
    assert spoken[0] == spoken[1]
