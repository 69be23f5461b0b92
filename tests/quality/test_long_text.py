import numpy as np
import pytest
import soundfile

from realtime.quality import joins
from realtime.quality.joins import Sentence, find_joins, missing_ratios
from realtime.quality.judging import Judges
from realtime.quality.long_text import (
    errors_by_sentence,
    judge_long_text,
    merge,
    pieces,
    place_sentences,
    text_of_minutes,
)
from realtime.quality.speaking import Job, Spoken
from realtime.quality.words import compare
from realtime.wire import Sentence as SentenceSpan
from tests.quality.make import RATE_HZ, embed, opinion, silence, speech

LINES = ("The red door is open.", "All of the birds were singing.")
PAUSE_S = 0.2


def _sentences(*lines: str, seconds: float = 2.0) -> list[Sentence]:
    found: list[Sentence] = []
    for number, line in enumerate(lines):
        first = found[-1].end_word if found else 0
        found.append(
            Sentence(
                text=line,
                first_word=first,
                num_words=len(line.split()),
                start_sample=int(number * seconds * RATE_HZ),
                end_sample=int((number + 1) * seconds * RATE_HZ),
            )
        )
    return found


def _sound(num: int) -> np.ndarray:
    parts = [(speech(2.0 - PAUSE_S, seed), silence(PAUSE_S)) for seed in range(num)]
    return np.concatenate([silence(0), *(part for pair in parts for part in pair)])


def _joins(heard: str, samples=None):
    words = compare(" ".join(LINES), heard)
    return find_joins(_sound(2) if samples is None else samples, RATE_HZ, _sentences(*LINES), words)


def test_a_good_join_has_a_pause_and_no_fault():
    (join,) = _joins("the red door is open all of the birds were singing")
    assert join.faults == ()
    assert join.pause_s == pytest.approx(PAUSE_S, abs=0.025)
    assert (join.at_s, join.before, join.after) == (2.0, "red door is open.", "All of the birds")


@pytest.mark.parametrize(
    ("heard", "missing", "doubled"),
    [
        ("the red door is all of the birds were singing", ("open",), ()),
        ("the red door is open open all of the birds were singing", (), ("open",)),
        ("the red door is open all all of the birds were singing", (), ("all",)),
        ("the door is open all of the birds were singing", (), ()),
        ("the red red door is open all of the birds were singing", (), ()),
        ("the red door is open now all of the birds were singing", (), ()),
    ],
)
def test_words_beside_a_join_that_are_missing_or_doubled_are_faults(heard, missing, doubled):
    (join,) = _joins(heard)
    assert (join.missing, join.doubled) == (missing, doubled)
    assert (joins.MISSING in join.faults, joins.DOUBLED in join.faults) == (
        bool(missing),
        bool(doubled),
    )


def test_a_click_at_the_join_is_a_fault_and_one_elsewhere_is_not():
    heard = " ".join(LINES)
    at_join, elsewhere = _sound(2), _sound(2)
    at_join[2 * RATE_HZ + 20 :] += 0.3
    elsewhere[RATE_HZ:] += 0.3
    assert joins.CLICK in _joins(heard, at_join)[0].faults
    assert joins.CLICK not in _joins(heard, elsewhere)[0].faults


def test_missing_words_are_counted_at_joins_and_elsewhere():
    words = compare(" ".join(LINES), "the door is all of the birds were singing")
    assert missing_ratios(_sentences(*LINES), words) == (1 / 4, 1 / 7)


def test_pieces_hold_whole_sentences_and_no_more_than_the_recogniser_takes():
    sentences = _sentences(*LINES * 10, seconds=4.0)
    groups = pieces(sentences, RATE_HZ)
    assert [sentence for group in groups for sentence in group] == sentences
    assert [len(group) for group in groups] == [6, 6, 6, 2]
    assert len(pieces(_sentences("One.", "Two.", seconds=60.0), RATE_HZ)) == 2


def test_merged_comparisons_keep_their_places():
    merged = merge([compare("a b c", "a c"), compare("d e f", "d d e x")])
    assert (merged.missing, merged.changed, merged.num_words) == ((1,), (5,), 6)
    assert [word for _, word in merged.added] == ["d"]
    terms = errors_by_sentence(_sentences("a b c", "d e f"), merged)
    assert terms == [(0, 1, 3), (1, 2, 3)]


def test_lines_become_a_text_of_the_wanted_length():
    text = text_of_minutes(LINES, 0.1)
    assert 18 <= len(text.split()) < 30
    assert text.startswith(" ".join(LINES) + " " + LINES[0])


def _long(tmp_path, num_lines: int, *, num_spoken: int | None = None) -> Spoken:
    lines = [LINES[number % 2] for number in range(num_lines)]
    text, spans, place = " ".join(lines), [], 0
    for number, line in enumerate(lines[:num_spoken]):
        spans.append(
            SentenceSpan(
                context="long",
                index=number,
                start_char=place,
                end_char=place + len(line),
                start_sample=2 * number * RATE_HZ,
                end_sample=2 * (number + 1) * RATE_HZ,
            )
        )
        place += len(line) + 1
    path = tmp_path / "long.wav"
    soundfile.write(path, _sound(len(spans)), RATE_HZ)
    job = Job(voice=None, seed=0, speed=1.0, index=0, text=text)
    return Spoken(job=job, path=path, voice="default", reason="end_of_speech", sentences=spans)


def test_sentences_are_placed_by_what_the_service_said(tmp_path):
    placed = place_sentences(_long(tmp_path, 3))
    assert [sentence.text for sentence in placed] == [LINES[0], LINES[1], LINES[0]]
    assert [(one.first_word, one.end_word) for one in placed] == [(0, 5), (5, 11), (11, 16)]


def test_a_long_text_is_judged_by_minute_join_and_memory(tmp_path):
    spoken = _long(tmp_path, 62)
    heard = iter([" ".join([*LINES * 6])] * 5 + ["the red door is open"])
    judges = Judges(
        hear=lambda samples, rate_hz: next(heard),
        opinion=opinion,
        speaker=embed,
        references={"default": embed(speech(1.0), RATE_HZ)},
    )
    found = judge_long_text(
        spoken, judges, folder_name="audio", memory_bytes=(100 * 2**20, 103 * 2**20)
    )
    values = {name: figure.value for name, figure in found.figures.items()}
    assert len(found.joins) == 61
    assert [minute.num_words for minute in found.minutes] == [165, 165, 11]
    assert [minute.num_word_errors for minute in found.minutes] == [0, 0, 6]
    assert values["long_word_error"] == pytest.approx(6 / 341)
    assert values["long_drift"] == pytest.approx(6 / 165)
    assert values["long_memory_mib"] == pytest.approx(3)
    assert values["long_join_faults"] == pytest.approx(1 / 61)
    assert values["long_clicks"] == 0


def test_text_that_was_never_spoken_counts_as_missing(tmp_path):
    spoken = _long(tmp_path, 4, num_spoken=2)
    judges = Judges(hear=lambda samples, rate_hz: " ".join(LINES))
    found = judge_long_text(spoken, judges, folder_name="audio")
    assert found.figures["long_word_error"].value == pytest.approx(0.5)
    assert "long_memory_mib" not in found.figures


def test_nothing_spoken_is_a_report_too(tmp_path):
    spoken = _long(tmp_path, 2, num_spoken=0)
    found = judge_long_text(spoken, Judges(hear=lambda *_: ""), folder_name="audio")
    assert found.joins == found.minutes == ()
    assert found.figures["long_word_error"].value == 1.0
