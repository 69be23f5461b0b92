import io
from pathlib import Path

import numpy as np
import pytest
import soundfile

from realtime.audio.wav import FILE_ENDINGS, AudioFileWriter, WavStreamWriter

FULL_DEVICE = Path("/dev/full")
RAMP = np.arange(-500, 500, dtype="<i2")


def test_a_wav_file_is_complete_after_every_write(tmp_path):
    path = tmp_path / "a.wav"
    with AudioFileWriter(path, 24_000) as writer:
        for count in (1, 2):
            writer.write(RAMP.tobytes())
            assert len(soundfile.read(path)[0]) == count * len(RAMP)
    samples, rate = soundfile.read(path, dtype="int16")
    assert rate == 24_000
    assert np.array_equal(samples, np.tile(RAMP, 2))


@pytest.mark.parametrize("ending", ["flac", "ogg"])
def test_other_formats_follow_the_name(tmp_path, ending):
    path = tmp_path / f"a.{ending}"
    with AudioFileWriter(path, 24_000) as writer:
        writer.write(RAMP.tobytes())
    assert soundfile.info(path).format == ending.upper()


def test_an_unknown_ending_leaves_no_file(tmp_path):
    with pytest.raises(ValueError, match=r"\.xyz.*\.wav, \.flac, \.ogg"):
        AudioFileWriter(tmp_path / "a.xyz", 24_000)
    assert not list(tmp_path.iterdir())


def test_samples_without_a_format_are_an_unknown_ending(tmp_path):
    with pytest.raises(ValueError, match=r"cannot write \.raw"):
        AudioFileWriter(tmp_path / "a.raw", 24_000)


@pytest.mark.parametrize("ending", FILE_ENDINGS)
def test_every_ending_that_is_named_works(tmp_path, ending):
    path = tmp_path / f"a{ending}"
    with AudioFileWriter(path, 24_000) as writer:
        writer.write(RAMP.tobytes())
    facts = soundfile.info(path)
    assert (facts.samplerate, facts.channels) == (24_000, 1)


@pytest.mark.skipif(not FULL_DEVICE.exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("ending", FILE_ENDINGS)
def test_a_full_disk_is_an_os_error_that_names_the_file(tmp_path, ending):
    path = tmp_path / f"full{ending}"
    path.symlink_to(FULL_DEVICE)
    with (
        pytest.raises(OSError, match=f"full{ending}: cannot write"),
        AudioFileWriter(path, 24_000) as writer,
    ):
        writer.write(RAMP.tobytes())


def test_a_wav_stream_is_readable_though_its_length_was_unknown():
    stream = io.BytesIO()
    writer = WavStreamWriter(stream, 24_000)
    writer.write(RAMP.tobytes())
    writer.close()
    samples, rate = soundfile.read(io.BytesIO(stream.getvalue()), dtype="int16")
    assert rate == 24_000
    assert np.array_equal(samples, RAMP)
