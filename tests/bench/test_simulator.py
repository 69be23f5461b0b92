"""The simulator counts right, and says of each policy what cannot be chance."""

from functools import cache

import msgspec
import pytest

from bench.simulator.codec import CodecServer
from bench.simulator.listener import Call
from bench.simulator.machines import CPU, H200
from bench.simulator.policies import POLICIES
from bench.simulator.scenario import Scenario, admissible_calls, admissible_streams, run
from bench.simulator.sentences import load_sentences
from bench.simulator.traffic import Habits, Phase, callers, mean_heard_s
from realtime.engine.plan import NewFrame
from realtime.engine.step_time import StepCosts
from realtime.messages import EngineTimings, Failed, Finished

replace = msgspec.structs.replace
FRAME_S = 1.0 / CPU.layout.frames_per_second


@cache
def figures(policy: str, load: float):
    phases = (Phase(20.0, load), Phase(40.0, load))
    (found,) = run(Scenario(machine=CPU, policy=POLICIES[policy], phases=phases, seed=1))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.9, 1.5])
def test_every_admitted_listener_is_served_without_a_gap(load):
    found = figures("ours", load)
    assert found.num_admitted > 5
    assert found.num_with_gap == 0


@pytest.mark.slow
@pytest.mark.parametrize("rival", ["fifo", "static_cap_high", "bounded_window"])
def test_letting_in_more_than_the_machine_bears_makes_speech_stutter(rival):
    assert figures(rival, 1.5).gap_free_ratio < 0.8


@pytest.mark.slow
def test_refusals_come_at_once_and_waits_stay_short():
    ours, cap = figures("ours", 1.5), figures("static_cap", 1.5)
    assert ours.num_refused > 0
    assert ours.num_refused > ours.num_expired
    assert ours.answer_s[-1] < 0.05
    assert cap.num_refused == 0
    assert ours.wait_s[1] < cap.wait_s[1]


@pytest.mark.slow
def test_same_seed_gives_the_same_run():
    phases = (Phase(0.0, 0.9), Phase(20.0, 0.9))
    scenario = Scenario(machine=CPU, policy=POLICIES["ours"], phases=phases, seed=3)
    assert str(run(scenario)) == str(run(scenario))


def test_more_context_or_slower_steps_mean_fewer_admissible_streams():
    slow = replace(CPU, step=StepCosts(step_s=4e-3, row_s=1e-3, prefill_s=0.0, context_s=3e-7))
    assert 1 < admissible_streams(slow) < admissible_streams(CPU) < admissible_streams(H200)
    per_caller = mean_heard_s(CPU, Habits())
    assert admissible_calls(CPU, Habits()) * per_caller == pytest.approx(admissible_streams(CPU))


def test_callers_arrive_at_the_stated_rate_and_only_while_there_is_load():
    phases = (Phase(1000.0, 0.5), Phase(1000.0, 0.0), Phase(1000.0, 1.0))
    arrivals = callers(CPU, phases, Habits(), 10, seed=0)
    counts = [sum(int(c.at // 1000.0) == phase for c in arrivals) for phase in range(3)]
    expected = 1000.0 * 10 / mean_heard_s(CPU, Habits())
    assert counts[0] == pytest.approx(0.5 * expected, rel=0.15)
    assert counts[1] == 0
    assert counts[2] == pytest.approx(expected, rel=0.15)


def test_bursts_arrive_together():
    arrivals = callers(CPU, (Phase(200.0, 1.0),), Habits(burst_size=5), 10, seed=0)
    assert len(arrivals) % 5 == 0
    assert len({caller.at for caller in arrivals}) == len(arrivals) // 5


def test_sentences_are_split_only_where_they_come_first():
    sentences = load_sentences()
    assert len(sentences) == 150
    assert any(len(sentence.first) > len(sentence.later) for sentence in sentences)
    for sentence in sentences:
        assert sum(p.num_phonemes for p in sentence.first) >= 10
        assert sum(p.num_phonemes for p in sentence.later) >= 10


def test_listener_counts_silence_in_the_middle_but_not_the_wait_before():
    call = Call(caller=0, attempt=1, offered_at=0.0)
    call.hear(2, 5.0, FRAME_S, text_at=0.0)
    assert (call.first_sound_at, call.gap_s) == (5.0, 0.0)
    call.hear(1, 5.0 + 2 * FRAME_S, FRAME_S, text_at=0.0)
    assert call.gap_s == 0.0
    call.hear(1, 5.0 + 3 * FRAME_S + 0.2, FRAME_S, text_at=0.0)
    assert call.gap_s == pytest.approx(0.2)
    assert call.dry_at == pytest.approx(5.2 + 4 * FRAME_S)


def test_silence_for_want_of_text_is_not_the_engines():
    call = Call(caller=0, attempt=1, offered_at=0.0)
    call.hear(1, 1.0, FRAME_S, text_at=0.0)
    call.hear(1, 3.0, FRAME_S, text_at=2.9)
    assert call.gap_s == 0.0
    assert call.text_gap_s == pytest.approx(2.0 - FRAME_S)


def test_interrupted_listener_heard_only_what_was_played():
    call = Call(caller=0, attempt=1, offered_at=0.0)
    call.hear(10, 1.0, FRAME_S, text_at=0.0)
    call.interrupt(1.0 + 3.5 * FRAME_S, FRAME_S)
    assert call.num_heard == 4
    call.hear(5, 2.0, FRAME_S, text_at=0.0)
    assert call.num_heard == 4


def frame(request_id: int, number: int, needed_at: float = 0.0) -> NewFrame:
    return NewFrame(request_id, 0, number, (0,) * 7, needed_at, True, False)


def finished(request_id: int, reason="end_of_speech") -> Finished:
    timings = EngineTimings(freed_at=0.0)
    return Finished(
        request_id=request_id, reason=reason, num_tokens=0, num_frames=0, timings=timings
    )


def server(**changes) -> tuple[CodecServer, list]:
    deliveries = []
    return CodecServer(replace(CPU, **changes), deliveries.append), deliveries


def test_codec_lets_go_in_order_and_takes_its_time():
    codec, deliveries = server()
    codec.submit([frame(1, 0), frame(2, 0)], 1.0)
    codec.submit([frame(1, 1)], 1.001)
    codec.run_until(10.0)
    assert [d.counts for d in deliveries] == [{1: 1, 2: 1}, {1: 1}]
    assert [d.first_frames for d in deliveries] == [{1: 0, 2: 0}, {1: 1}]
    first, second = deliveries
    assert first.at == pytest.approx(1.0 + CPU.codec.predict(2))
    assert second.at == pytest.approx(first.at + CPU.codec.predict(1))


def test_codec_with_lookahead_holds_frames_back_until_the_end():
    codec, deliveries = server(lookahead_frames=3)
    codec.submit([frame(1, number) for number in range(4)], 1.0)
    codec.run_until(2.0)
    codec.submit([frame(1, 4), finished(1)], 2.0)
    codec.run_until(3.0)
    assert [d.counts for d in deliveries] == [{1: 1}, {1: 4}]


def test_codec_drops_what_was_cancelled():
    codec, deliveries = server()
    codec.submit([frame(1, 0), finished(1, "cancelled"), frame(2, 0)], 1.0)
    codec.run_until(2.0)
    assert [d.counts for d in deliveries] == [{2: 1}]


def test_codec_passes_refusals_on():
    codec, deliveries = server()
    refusal = Failed(request_id=1, code="at_capacity", message="", retry_after_s=2.0)
    codec.submit([refusal], 1.0)
    codec.run_until(2.0)
    assert deliveries[0].failed == [refusal]
    assert deliveries[0].at == 1.0
