import numpy as np
import pytest

from realtime.quality import sound
from tests.quality.make import RATE_HZ, silence, speech


def _join(*parts):
    return np.concatenate(parts)


def test_silences_and_level_are_found():
    samples = _join(silence(0.3), speech(1.0), silence(0.5), speech(1.0, 1), silence(0.2))
    found = sound.describe(samples, RATE_HZ)
    assert found.audio_s == pytest.approx(3.0)
    assert found.leading_silence_s == pytest.approx(0.3, abs=0.005)
    assert found.spoken_s == pytest.approx(2.5, abs=0.01)
    assert found.longest_pause_s == pytest.approx(0.5, abs=0.025)
    assert found.level_dbfs == pytest.approx(sound.describe(speech(2.0), RATE_HZ).level_dbfs, abs=1)


def test_a_hiss_far_below_the_speech_is_a_pause():
    samples = _join(speech(1.0), speech(0.4, 2, level=0.1 * 10 ** (-34 / 20)), speech(1.0, 1))
    assert sound.describe(samples, RATE_HZ).longest_pause_s == pytest.approx(0.4, abs=0.025)


@pytest.mark.parametrize("samples", [silence(1.0), silence(0.0)])
def test_silence_is_leading_silence_as_a_whole(samples):
    found = sound.describe(samples, RATE_HZ)
    assert found.leading_silence_s == found.audio_s
    assert found.spoken_s == found.longest_pause_s == 0.0
    assert found.level_dbfs == sound.FLOOR_DBFS


def test_a_click_is_found_where_it_is_and_nowhere_else():
    samples = speech(2.0)
    assert not sound.clicks(samples, RATE_HZ).size
    samples[30_000:] -= 0.5
    assert sound.clicks(samples, RATE_HZ).tolist() == [30_000]
    assert sound.jump_ratio(samples, 30_000, RATE_HZ) > sound.CLICK_RATIO
    assert sound.jump_ratio(samples, 15_000, RATE_HZ) < 2


def test_a_cut_into_silence_is_a_click_only_where_it_can_be_heard():
    quiet = 0.5 * sound.CLICK_FLOOR
    assert not sound.clicks(_join(silence(0.5), silence(0.5) + quiet), RATE_HZ).size
    loud = 2 * sound.CLICK_FLOOR
    assert sound.clicks(_join(silence(0.5), silence(0.5) + loud), RATE_HZ).tolist() == [12_000]


def test_the_pause_at_a_place_is_measured_to_both_sides():
    samples = _join(speech(1.0), silence(0.2), silence(0.15), speech(1.0, 1))
    level = sound.speech_level_dbfs(samples, RATE_HZ)

    def pause_at(seconds: float) -> float:
        return sound.pause_around(samples, int(seconds * RATE_HZ), RATE_HZ, level)

    assert pause_at(1.2) == pytest.approx(0.35, abs=0.025)
    assert pause_at(1.37) == pytest.approx(0.35, abs=0.025), "the pause ends just before the place"
    assert pause_at(0.5) == pause_at(2.3) == 0.0


def test_loudness_needs_enough_sound():
    class Package:
        class Meter:
            def __init__(self, rate_hz):
                assert rate_hz == RATE_HZ

            def integrated_loudness(self, samples):
                return -np.inf if not samples.any() else -23.0

    assert sound.loudness_lufs(speech(1.0), RATE_HZ, Package) == -23.0
    assert sound.loudness_lufs(silence(1.0), RATE_HZ, Package) is None
    assert sound.loudness_lufs(speech(0.3), RATE_HZ, Package) is None
