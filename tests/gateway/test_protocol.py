"""The protocol's rules, without sockets and without time."""

import pytest

from realtime import wire
from realtime.errors import ENGINE_START_S
from realtime.gateway.protocol import MAX_SEGMENTS_AHEAD
from tests.gateway.driver import LIMITS, SAMPLES_PER_FRAME, Driver


def text(piece: str, context: str = "a", **fields) -> wire.Text:
    return wire.Text(context=context, text=piece, **fields)


def flush(context: str = "a") -> wire.Flush:
    return wire.Flush(context=context)


def end(context: str = "a") -> wire.End:
    return wire.End(context=context)


def cancel(context: str = "a") -> wire.Cancel:
    return wire.Cancel(context=context)


def test_ready_states_what_is_granted():
    driver = Driver().hello(max_contexts=2)
    ready = driver.last(wire.Ready)
    assert ready.voices == ("default", "other")
    assert ready.limits.max_contexts == 2
    assert ready.sample_rate_hz == 24_000


def test_granted_contexts_never_exceed_the_services_limit():
    assert Driver().hello(max_contexts=100).last(wire.Ready).limits.max_contexts == 3


def test_hello_must_come_first_and_in_time():
    driver = Driver().wait(4.9)
    assert driver.closed is None
    driver.wait(0.2).send_all()
    assert driver.last(wire.Error).code == "hello_timeout"
    assert driver.closed.code == 1008


def test_second_hello_ends_the_session():
    driver = Driver().hello().hello()
    assert driver.last(wire.Error).code == "out_of_order"
    assert driver.closed.code == 1008


@pytest.mark.parametrize(
    ("credential", "is_accepted"), [("key", True), ("kez", False), (None, False)]
)
def test_credential_is_checked_where_keys_are_set(credential, is_accepted):
    driver = Driver(credentials=("other", "key")).hello(credential=credential)
    assert (driver.closed is None) == is_accepted


def test_hello_without_an_engine_says_try_again():
    driver = Driver()
    driver.engine.ready = None
    driver.hello()
    error = driver.last(wire.Error)
    assert (error.code, error.retryable, driver.closed.code) == ("engine_not_ready", True, 1013)
    assert error.retry_after_s == ENGINE_START_S


def test_ping_is_answered_with_its_nonce():
    assert Driver().hello().say(wire.Ping(nonce="7")).send_all().last(wire.Pong).nonce == "7"


def test_first_piece_opens_a_context_and_pieces_are_joined_verbatim():
    driver = Driver().hello().say(text("Hel"), text("lo wor"), text("ld."), end()).prepare_text()
    assert driver.requests[1].phonemes == ["Hello world."]
    assert driver.requests[1].has_ended


def test_sampling_of_the_context_overrides_the_sessions_field_by_field():
    driver = Driver().hello(sampling=wire.Sampling(temperature=0.5, top_k=9, seed=3))
    driver.say(text("x", sampling=wire.Sampling(top_k=5))).say(text("x", "b")).send_all()
    first, second = driver.requests[1].opened, driver.requests[2].opened
    assert (first.sampling.temperature, first.sampling.top_k, first.sampling.seed) == (0.5, 5, 3)
    assert second.sampling.top_k == 9
    assert driver.all(wire.Opened)[0].seed == 3


def test_priority_belongs_to_the_first_piece_and_reaches_the_engine():
    driver = Driver().hello().say(text("x", priority="batch"), text("y", "b")).send_all()
    assert (driver.requests[1].opened.is_batch, driver.requests[2].opened.is_batch) == (True, False)
    driver.say(text("z", "b", priority="batch")).send_all()
    assert driver.last(wire.Error).code == "out_of_order"


def test_requests_carry_whose_they_are():
    driver = Driver(credentials=("other", "key")).hello(credential="key").say(text("x")).send_all()
    assert driver.requests[1].opened.key == "key"
    assert Driver().hello().say(text("x")).requests[1].opened.key == ""


def test_seed_is_drawn_and_told_where_none_was_given():
    driver = Driver().hello().say(text("x")).send_all()
    assert driver.last(wire.Opened).seed == driver.requests[1].opened.sampling.seed == 7


def test_flush_releases_what_end_would_otherwise_wait_for():
    driver = Driver().hello().say(text("and so"), flush()).prepare_text()
    assert driver.requests[1].phonemes == ["and so"]
    assert not driver.requests[1].has_ended


def test_done_waits_until_the_socket_has_taken_everything():
    driver = Driver().hello().say(text("One."), end()).send_all().prepare_text()
    driver.speak(1, 2, completes=True).finish(1)
    assert len(driver.outgoing) == 2  # audio and sentence: `done` is not even queued
    driver.send_all()
    assert driver.last(wire.AudioFrame).is_last
    done = driver.last(wire.Done)
    assert (done.reason, done.samples, done.char) == ("end_of_speech", 2 * SAMPLES_PER_FRAME, 4)
    assert driver.received[-1] is done


def test_reused_name_gets_a_new_number():
    driver = Driver().hello()
    for number in (1, 2):
        driver.say(text("One."), end()).prepare_text().speak(number, completes=True).finish(
            number
        ).send_all()
    assert [m.number for m in driver.all(wire.Opened)] == [1, 2]
    assert len(driver.all(wire.Done)) == 2


def test_cancel_drops_queued_audio_and_counts_what_was_sent():
    driver = Driver().hello().say(text("abcdefgh."), end()).prepare_text()
    driver.speak(1, 2).send_all().speak(1, 2)
    driver.say(cancel()).speak(1, 3).send_all()
    cancelled = driver.last(wire.Cancelled)
    assert cancelled.samples == 2 * SAMPLES_PER_FRAME
    assert 1 in driver.aborted
    assert not driver.all(wire.Done)
    driver.clock.advance(0.01)
    done = driver.finish(1, "cancelled").send_all().last(wire.Done)
    assert (done.reason, done.samples, done.char) == (
        "cancelled",
        cancelled.samples,
        cancelled.char,
    )
    assert done.metrics.slot_free_s == pytest.approx(0.01)


def test_cancel_of_a_context_whose_speech_is_complete_is_done_at_once():
    driver = (
        Driver()
        .hello()
        .say(text("One."), end())
        .prepare_text()
        .speak(1, 4, completes=True)
        .finish(1)
    )
    driver.say(cancel()).send_all()
    done = driver.last(wire.Done)
    assert (done.reason, done.samples, done.char, done.metrics.slot_free_s) == (
        "cancelled",
        0,
        0,
        0.0,
    )
    assert driver.aborted == set()


def test_character_reached_is_exact_at_segment_ends_and_linear_within():
    driver = Driver().hello().say(text("abcd;efghijkl.")).prepare_text()
    driver.speak(1, 5, completes=True).speak(1, 9, completes=True)
    reached = driver.protocol._by_number[1].spoken.char_at
    assert [reached(n * SAMPLES_PER_FRAME) for n in (0, 1, 5, 8, 14)] == [0, 1, 5, 8, 14]


def test_messages_that_cross_the_end_of_their_context_are_ignored():
    driver = Driver().hello().say(text("One."), end()).prepare_text()
    driver.speak(1, completes=True).finish(1).send_all()
    driver.say(cancel(), flush(), end(), wire.Played(context="a", samples=5)).send_all()
    assert not driver.all(wire.Error)
    assert not driver.all(wire.Cancelled)


def test_unknown_context_is_an_error_of_that_name_alone():
    driver = Driver().hello().say(flush("z")).send_all()
    error = driver.last(wire.Error)
    assert (error.code, error.context, driver.closed) == ("unknown_context", "z", None)
    assert driver.say(text("x", "z")).send_all().last(wire.Opened).context == "z"


def test_text_after_an_error_does_not_open_the_context_again():
    driver = Driver().hello().say(text("One."), text("#", voice="other")).send_all()
    assert driver.last(wire.Error).code == "out_of_order"
    driver.finish(1, "cancelled").say(text("more"), flush()).send_all()
    assert len(driver.all(wire.Opened)) == 1
    driver.say(end(), text("New.")).send_all()
    assert driver.last(wire.Opened).number == 2


def test_refused_context_is_not_opened_and_its_further_text_is_ignored():
    driver = Driver().hello()
    driver.engine.is_full = True
    driver.say(text("One.")).send_all()
    driver.engine.is_full = False
    driver.say(text("Two."), end()).send_all()
    assert driver.last(wire.Error).code == "at_capacity"
    assert not driver.all(wire.Opened)
    assert not driver.all(wire.Done)
    assert driver.say(text("Three.")).send_all().last(wire.Opened).number == 1


def test_text_after_end_fails_the_context():
    driver = Driver().hello().say(text("One."), end(), text("Two.")).send_all()
    assert driver.last(wire.Error).code == "out_of_order"
    assert driver.finish(1, "cancelled").send_all().last(wire.Done).reason == "error"


@pytest.mark.parametrize("options", [{}, {"voice": "other"}])
def test_text_before_the_done_of_a_cancelled_name_is_refused_once_and_never_begins_later(options):
    driver = Driver().hello().say(text("One. Two."), cancel())
    driver.say(text("Three ", **options), text("four ")).send_all()
    assert [(e.code, e.context) for e in driver.all(wire.Error)] == [("out_of_order", "a")]
    driver.finish(1, "cancelled").send_all()
    assert driver.last(wire.Done).reason == "cancelled"
    driver.say(text("five."), flush(), end()).prepare_text().send_all()
    assert list(driver.requests) == [1]
    assert len(driver.all(wire.Error)) == 1
    driver.say(text("Six."), end()).prepare_text()
    assert driver.requests[2].phonemes == ["Six."]


def test_every_utterance_begun_before_the_done_of_its_name_is_refused():
    driver = Driver().hello().say(text("One."), cancel())
    driver.say(text("Two."), end(), text("Three."), cancel()).send_all()
    assert [e.code for e in driver.all(wire.Error)] == ["out_of_order"] * 2
    driver.finish(1, "cancelled").say(text("Four."), end()).prepare_text()
    assert driver.requests[2].phonemes == ["Four."]


def test_text_after_end_is_ignored_up_to_its_own_end():
    driver = Driver().hello().say(text("One."), end(), text("Two "), text("three.")).send_all()
    driver.finish(1, "cancelled").say(text("four."), end()).send_all()
    assert [e.code for e in driver.all(wire.Error)] == ["out_of_order"]
    driver.say(text("Five."), end()).prepare_text()
    assert driver.requests[2].phonemes == ["Five."]


def test_repeated_end_and_flush_after_end_do_no_harm():
    driver = Driver().hello().say(text("One."), end(), end(), flush()).prepare_text().send_all()
    assert not driver.all(wire.Error)
    assert driver.requests[1].phonemes == ["One."]


def test_text_over_the_limit_fails_the_context():
    driver = Driver().hello().say(text("x" * 200), text("x")).send_all()
    assert driver.last(wire.Error).code == "text_too_long"


def test_context_without_text_times_out_only_while_nothing_is_left_to_speak():
    driver = Driver().hello().say(text("One.")).prepare_text().send_all().wait(100)
    assert not driver.all(wire.Error)
    driver.speak(1, completes=True).send_all().wait(59)
    assert not driver.all(wire.Error)
    driver.wait(2).send_all()
    assert driver.last(wire.Error).code == "text_timeout"
    assert driver.finish(1, "cancelled").send_all().last(wire.Done).reason == "error"


def test_lost_engine_ends_each_context_with_a_retryable_error():
    driver = Driver().hello().say(text("One."), text("Two.", "b")).prepare_text().speak(1)
    driver.fail(1, "engine_lost").fail(2, "engine_lost").send_all()
    assert [(e.code, e.retryable, e.context) for e in driver.all(wire.Error)] == [
        ("engine_lost", True, "a"),
        ("engine_lost", True, "b"),
    ]
    assert [d.reason for d in driver.all(wire.Done)] == ["error", "error"]
    assert not driver.all(wire.AudioFrame)


@pytest.mark.parametrize("code", ["engine_lost", "engine_not_ready", "shutting_down"])
def test_failures_that_a_start_mends_say_when_one_is_over(code):
    driver = Driver().hello().say(text("One.")).fail(1, code).send_all()
    assert driver.last(wire.Error).retry_after_s == ENGINE_START_S


def test_unknown_failure_code_is_answered_as_ours():
    driver = Driver().hello().say(text("One.")).prepare_text().fail(1, "melted").send_all()
    assert driver.last(wire.Error).code == "engine_failed"


@pytest.mark.parametrize("reason", ["length", "guard"])
def test_early_end_keeps_its_reason(reason):
    driver = Driver().hello().say(text("One. Two. Three.")).prepare_text()
    driver.speak(1, 4, completes=True).finish(1, reason).send_all()
    done = driver.last(wire.Done)
    assert (done.reason, done.char) == (reason, 4)


def test_last_words_without_a_mark_are_a_sentence():
    driver = Driver().hello().say(text("One. and;"), end()).prepare_text()
    driver.speak(1, 2, completes=True).speak(1, 3, completes=True).finish(1).send_all()
    spans = [
        (s.index, s.start_char, s.end_char, s.start_sample, s.end_sample)
        for s in driver.all(wire.Sentence)
    ]
    assert spans == [
        (0, 0, 4, 0, 2 * SAMPLES_PER_FRAME),
        (1, 4, 9, 2 * SAMPLES_PER_FRAME, 5 * SAMPLES_PER_FRAME),
    ]


def test_playback_reports_follow_the_socket_and_the_caller():
    driver = Driver().hello().say(text("One.")).prepare_text().speak(1, 2)
    assert driver.playback == {}
    driver.send_all()
    assert driver.playback == {1: 2 * SAMPLES_PER_FRAME}
    driver.say(wire.Played(context="a", samples=10**9))
    assert driver.protocol._by_number[1]._delivery.playback.played_samples == 2 * SAMPLES_PER_FRAME


def test_position_of_the_listener_is_told_once_and_not_repeated_as_news():
    driver = Driver().hello().say(text("One.")).prepare_text()
    driver.say(wire.Played(context="a", samples=10**9))  # nothing was sent yet
    driver.speak(1, 2).send_all().speak(1, 2).send_all()
    assert driver.playback == {1: 4 * SAMPLES_PER_FRAME}
    assert driver.played == [(1, 0)]


def test_text_is_not_prepared_far_ahead_of_speech():
    driver = Driver().hello().say(text("a." * MAX_SEGMENTS_AHEAD)).prepare_text()
    assert not driver.protocol.wants_text(1)
    assert driver.speak(1, completes=True).protocol.wants_text(1)


def test_draining_session_refuses_new_contexts_and_finishes_old_ones():
    driver = Driver().hello().say(text("One."), end()).prepare_text()
    driver.protocol.drain()
    driver.say(text("x", "b")).send_all()
    error = driver.last(wire.Error)
    assert (error.code, error.context, error.retryable) == ("shutting_down", "b", True)
    assert (
        driver.speak(1, completes=True).finish(1).send_all().last(wire.Done).reason
        == "end_of_speech"
    )


def test_vanished_caller_frees_every_request():
    driver = Driver().hello().say(text("One."), text("Two.", "b")).vanish()
    assert driver.aborted == {1, 2}
    assert all(done.was_abandoned for done in driver.dones.values())
    assert driver.protocol.num_contexts == 0


def test_both_outputs_come_frame_for_frame():
    driver = Driver().hello(outputs=("audio", "tokens")).say(text("One.")).prepare_text()
    driver.speak(1, 2).send_all()
    assert driver.last(wire.Tokens).codes == tuple(range(14))
    assert len(driver.last(wire.AudioFrame).pcm) == 2 * 2 * SAMPLES_PER_FRAME
    assert driver.playback == {1: 2 * SAMPLES_PER_FRAME}


def test_limits_are_told_as_configured():
    assert Driver().hello().last(wire.Ready).limits == LIMITS


def test_opened_says_who_speaks_and_how_fast():
    driver = Driver().hello(voice="other", speed=0.9)
    driver.say(text("One.", "a"), text("Two.", "b", voice="default", speed=1.2)).send_all()
    assert [(o.voice, o.speed) for o in driver.all(wire.Opened)] == [
        ("other", 0.9),
        ("default", 1.2),
    ]
    opened = [driver.requests[number].opened for number in (1, 2)]
    assert [(o.speaker, o.speed) for o in opened] == [(1, 0.9), (0, 1.2)]


def test_speed_out_of_range_refuses_its_context_alone():
    driver = Driver().hello().say(text("One.", "a", speed=2.0), text("Two.", "b")).send_all()
    error = driver.last(wire.Error)
    assert (error.code, error.context) == ("unsupported_speed", "a")
    assert [o.context for o in driver.all(wire.Opened)] == ["b"]


def test_speed_out_of_range_in_hello_ends_the_session():
    driver = Driver().hello(speed=0.5)
    assert driver.last(wire.Error).code == "unsupported_speed"
    assert driver.closed.code == 1008


def test_speed_after_the_first_piece_is_out_of_order():
    driver = Driver().hello().say(text("One."), text(" Two.", speed=1.1)).send_all()
    assert driver.last(wire.Error).code == "out_of_order"


def test_silence_for_want_of_text_is_told_from_one_for_want_of_speech():
    driver = Driver().hello().say(text("One. ")).prepare_text()
    frame_s = driver.speak(1, 10).send_all().samples_received(1) / 10 / 24_000
    driver.wait(10 * frame_s + 2.0).say(text("Two."), end()).prepare_text()
    text_at = driver.clock.now()
    driver.wait(0.1).speak(1, text_at=text_at).send_all()
    driver.wait(frame_s + 0.5).speak(1, completes=True).send_all().finish(1)
    metrics = driver.send_all().last(wire.Done).metrics
    assert (metrics.underruns, metrics.text_underruns) == (1, 1)
    assert metrics.underrun_s == pytest.approx(0.5)
    assert metrics.text_underrun_s == pytest.approx(2.1)
    assert metrics.text_resume_s == pytest.approx(0.1)


def test_wait_for_text_counts_for_the_audio_behind_it_however_late_the_socket_takes_it():
    driver = Driver().hello().say(text("One. ")).prepare_text().send_all()
    driver.speak(1, 2).speak(1, text_at=driver.clock.now() + 0.5)
    driver.send_one()
    driver.wait(1.0).send_all()
    driver.say(end()).prepare_text().speak(1, completes=True).finish(1)
    metrics = driver.send_all().last(wire.Done).metrics
    assert (metrics.underruns, metrics.text_underruns) == (0, 1)
    assert metrics.text_resume_s == pytest.approx(0.5)


def _spoken(piece: str) -> wire.Done:
    driver = Driver().hello().say(text(piece), end()).prepare_text()
    for _ in driver.requests[1].phonemes:
        driver.speak(1, completes=True)
    return driver.finish(1).send_all().last(wire.Done)


@pytest.mark.parametrize(
    ("piece", "warning", "unspoken"),
    [
        ("One.", None, 0),
        ("", None, 0),
        (" \n", None, 0),
        ("~~", "nothing_speakable", 0),
        ("One \u0434\u0430.", "partly_unspoken", 2),
    ],
)
def test_done_says_what_was_not_read_aloud(piece, warning, unspoken):
    done = _spoken(piece)
    assert (done.reason, done.warning, done.unspoken_letters) == (
        "end_of_speech",
        warning,
        unspoken,
    )
