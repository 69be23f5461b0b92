import pytest
import soundfile

from realtime.quality import judging
from realtime.quality.judging import Judges, faults_of, judge_line
from realtime.quality.sound import Sound
from realtime.quality.speaking import Job, Spoken
from realtime.quality.words import compare
from tests.quality.make import RATE_HZ, embed, opinion, silence, speech

SOUND = {
    "audio_s": 2.0,
    "leading_silence_s": 0.02,
    "spoken_s": 1.9,
    "longest_pause_s": 0.2,
    "level_dbfs": -25.0,
}
CASE = {"reason": "end_of_speech", "expected_s": 2.0, "words": None, "num_clicks": 0}


@pytest.mark.parametrize(
    ("sound", "case", "faults"),
    [
        ({}, {}, ()),
        ({"audio_s": 0.0}, {}, ("failed",)),
        ({}, {"reason": "engine_lost"}, ("failed",)),
        ({"level_dbfs": -60.0}, {}, ("silent",)),
        ({"audio_s": 3.5}, {}, ()),
        ({"audio_s": 3.51}, {}, ("runaway",)),
        ({"audio_s": 35.0}, {"expected_s": None}, ()),
        ({}, {"reason": "guard"}, ("runaway",)),
        ({"spoken_s": 1.19}, {}, ("early_stop",)),
        ({"spoken_s": 0.1}, {"expected_s": None}, ()),
        ({}, {"words": compare("one two three four", "one")}, ("early_stop",)),
        ({}, {"words": compare("one two three four", "one two")}, ()),
        ({}, {"words": compare("one two three", "")}, ()),
        ({"longest_pause_s": 1.01}, {}, ("long_silence",)),
        ({"leading_silence_s": 0.051}, {}, ("late_start",)),
        ({"leading_silence_s": 0.05}, {"num_clicks": 1}, ("click",)),
    ],
)
def test_faults_are_told_by_their_definitions(sound, case, faults):
    assert faults_of(Sound(**(SOUND | sound)), **(CASE | case)) == faults
    assert set(faults) <= set(judging.FAULTS)


def _spoken(folder, samples, text: str = "The red door.", reason: str = "end_of_speech") -> Spoken:
    path = folder / "line.wav"
    soundfile.write(path, samples, RATE_HZ)
    job = Job(voice=None, seed=0, speed=1.0, index=3, text=text)
    return Spoken(job=job, path=path, voice="default", reason=reason)


def test_everybody_listens(tmp_path):
    references = {"default": embed(speech(1.0), RATE_HZ), "other": embed(silence(1.0), RATE_HZ)}
    judges = Judges(
        hear=lambda samples, rate_hz: "the red floor",
        opinion=opinion,
        speaker=embed,
        references=references,
    )
    line = judge_line(_spoken(tmp_path, speech(1.5)), judges, expected_s=1.4, folder_name="sounds")
    assert (line.num_word_errors, line.num_words, line.num_char_errors) == (1, 3, 2)
    assert (line.dnsmos_overall, line.dnsmos_background) == (3.0, 4.0)
    assert line.similarity > line.similarity_to_other
    assert (line.index, line.audio, line.faults) == (3, "sounds/line.wav", ())
    against = judge_line(
        _spoken(tmp_path, speech(1.5)), judges, expected_s=1.4, folder_name="", speaker="other"
    )
    assert (against.similarity, against.similarity_to_other) == (
        pytest.approx(line.similarity_to_other),
        pytest.approx(line.similarity),
    )


def test_a_line_without_audio_is_heard_as_nothing(tmp_path):
    judges = Judges(hear=lambda samples, rate_hz: "", opinion=opinion, speaker=embed)
    line = judge_line(
        _spoken(tmp_path, silence(0), reason="at_capacity"),
        judges,
        expected_s=1.0,
        folder_name="sounds",
    )
    assert (line.num_word_errors, line.num_words, line.audio) == (3, 3, "")
    assert line.dnsmos_overall is line.similarity is None
    assert (line.faults, line.reason) == (("failed",), "at_capacity")


def test_where_nobody_listens_words_are_not_judged(tmp_path):
    line = judge_line(
        _spoken(tmp_path, speech(1.5)), Judges(), expected_s=None, folder_name="sounds"
    )
    assert (line.heard, line.num_words, line.faults) == (None, 0, ())
