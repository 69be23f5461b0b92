import numpy as np
import pytest

from realtime.audio.level import first_audible_sample, rms_dbfs


def _pcm(*samples: int) -> bytes:
    return np.array(samples, dtype="<i2").tobytes()


def test_the_first_sample_at_the_level_is_found():
    at_minus_40 = 328  # 32768 * 10 ** (-40 / 20) = 327.68
    assert first_audible_sample(_pcm(0, 100, -327, at_minus_40, 0), -40.0) == 3
    assert first_audible_sample(_pcm(0, -32768), -40.0) == 1


@pytest.mark.parametrize("pcm", [b"", _pcm(0, 1, -2)])
def test_quiet_or_empty_audio_has_no_audible_sample(pcm):
    assert first_audible_sample(pcm, -40.0) is None


def test_level_of_a_full_scale_square_wave_is_zero():
    assert rms_dbfs(_pcm(-32768, -32768)) == pytest.approx(0.0)
    assert rms_dbfs(_pcm(16384, -16384)) == pytest.approx(-6.0206, abs=1e-3)


@pytest.mark.parametrize("pcm", [b"", _pcm(0, 0)])
def test_silence_is_minus_infinity(pcm):
    assert rms_dbfs(pcm) == float("-inf")
