"""Speech of the teacher (hibari, Apache-2.0) as what its network says, not as a waveform.

hibari predicts, per 12.5 ms frame, a harmonic spectrum, an aperiodic spectrum and f0, and renders
them with a random phase. The codec learns from these noise-free *parameters* (band envelopes and
f0): they are a function of the phonemes, so the speech tokens made from them are predictable by a
language model, where tokens made from the waveform would also carry the noise. The waveform is
kept for a part of the data, to tune the decoder's sound.
"""

import functools
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from hibari import Hibari, dsp
from hibari.tts import ASSETS

from models.codec.bands import HARMONIC_BANDS, NOISE_BANDS, band_positions

FRAME_SAMPLES = 300  # the teacher's frame
DURATION_FRAMES = 2  # its durations count in units of two frames
FLOOR = -7.0  # log amplitude below which an envelope is silence
_VOICED_HZ = 40.0
_LOUD = 0.005  # root mean square at which speech starts and ends
_LEAD_FRAMES = 3  # kept before the onset: 37.5 ms
_TAIL_FRAMES = 12  # kept after the last sound: 150 ms


@dataclass(frozen=True)
class Utterance:
    """One spoken sentence.

    Attributes:
        text: The line it was read from.
        phonemes: What was spoken, in the teacher's alphabet.
        ends: End of each phoneme in teacher frames from the utterance's start, `[len(phonemes)]`.
        harmonic: Log amplitude of the harmonic envelope relative to a unit-power pulse train, `[T,
            80]`.
        noise: Log amplitude of the aperiodic envelope relative to unit white noise, `[T, 40]`.
        f0: Hertz, interpolated through unvoiced frames, `[T]`.
        voiced: `[T]` bool.
        samples: The teacher's waveform, int16 `[T * 300]`, or None where it was not rendered.
        speed: How fast it was spoken, relative to the default pace.
    """

    text: str
    phonemes: str
    ends: np.ndarray
    harmonic: np.ndarray
    noise: np.ndarray
    f0: np.ndarray
    voiced: np.ndarray
    samples: np.ndarray | None
    speed: float = 1.0


@functools.cache  # asked for by every reading
def pooling_matrix(num_bands: int, num_bins: int = 601) -> np.ndarray:
    """Triangular averages of bins around each band, rows summing to one, `[bands, bins]`."""
    position = band_positions(num_bands, num_bins)
    weight = np.maximum(0.0, 1.0 - np.abs(position[None] - np.arange(num_bands)[:, None]))
    for band in range(num_bands):
        if weight[band].sum() < 0.5:  # low bands are narrower than a bin
            weight[band, np.abs(position - band).argmin()] += 1.0
    return (weight / weight.sum(1, keepdims=True)).astype(np.float32)


def with_durations(folder: Path) -> Path:
    """Write the teacher's ONNX file with phoneme durations as one more output."""
    path = folder / "teacher.onnx"
    if not path.exists():
        model = onnx.load(str(Path(ASSETS) / "hibari.onnx"))
        durations = onnx.helper.make_tensor_value_info(
            "/Round_output_0", onnx.TensorProto.FLOAT, None
        )
        model.graph.output.append(durations)
        part = path.with_suffix(f".{os.getpid()}.part")
        onnx.save(model, str(part))
        part.replace(path)  # several workers may write it
    return path


class Teacher:
    """hibari's voice with its parameters exposed; `speed` is that of the default pace."""

    def __init__(self, model: Path, speed: float) -> None:
        self.hibari = Hibari(model=str(model))
        self.hibari.sess = self._session(model)
        self.speed = speed
        self._harmonic = pooling_matrix(HARMONIC_BANDS)
        self._noise = pooling_matrix(NOISE_BANDS)

    @staticmethod
    def _session(model: Path) -> onnxruntime.InferenceSession:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])

    def phonemize(self, text: str) -> list[str]:
        """Phoneme strings of `text`, one per sentence, in symbols that the voice knows."""
        known = self.hibari.vocab
        return ["".join(c for c in p if c in known) for p in self.hibari.phonemize(text)]

    def speak(
        self, text: str, phonemes: str, seed: int, *, with_samples: bool, speed: float = 1.0
    ) -> Utterance | None:
        """Speak one phoneme string, at `speed` times the default pace.

        None where nothing audible came out.
        """
        ids = np.array([self.hibari.ids(phonemes)], np.int64)
        inputs = {"ids": ids, "speed": np.array([self.speed * speed], np.float32)}
        outputs = [np.asarray(x) for x in self.hibari.sess.run(None, inputs)]
        lh, th, ln, lr, phi, f0 = (x[0] for x in outputs[:6])
        durations = outputs[6].ravel() * DURATION_FRAMES
        voiced = f0 > _VOICED_HZ
        if len(durations) != ids.shape[1] or voiced.sum() < 3:
            return None
        noise_power = np.exp(2 * lr) + 2 * np.exp(2 * ln)
        cut = _speech_span(lh, noise_power, f0, voiced)
        if cut is None:
            return None
        index = np.arange(len(f0))
        smooth = np.interp(index, index[voiced], f0[voiced]).astype(np.float32)
        # hibari scales its pulse spectra by window / 300; the codec's source has unit power over
        # 0-12 kHz
        harmonic = self._harmonic @ lh - np.log(300.0) - np.log(0.7 * np.sqrt(2 * smooth / 12000))
        harmonic[:, ~voiced] = FLOOR
        noise = 0.5 * np.log(self._noise @ noise_power + 1e-12) - 0.5 * np.log(1800.0)
        samples = None
        if with_samples:
            wave = dsp.synth(lh, th, ln, lr, phi, f0, np.random.default_rng(seed))
            wave = wave[cut[0] * FRAME_SAMPLES : cut[1] * FRAME_SAMPLES]
            samples = (np.clip(wave, -1, 1) * 32767).astype(np.int16)
        part = slice(*cut)
        ends = np.cumsum(durations)[1:-1] - cut[0]  # without the pads at both ends
        return Utterance(
            text, phonemes, ends.astype(np.float32),
            np.maximum(harmonic.T, FLOOR)[part].astype(np.float16),
            np.maximum(noise.T, FLOOR)[part].astype(np.float16),
            smooth[part], voiced[part], samples, speed,
        )  # fmt: skip


def _speech_span(
    lh: np.ndarray, noise_power: np.ndarray, f0: np.ndarray, voiced: np.ndarray
) -> tuple[int, int] | None:
    """First and last frame to keep, from the level that the spectra amount to."""
    harmonic_power = np.exp(2 * lh).mean(0) * np.where(voiced, 30.0 / np.maximum(f0, 60.0), 0.0)
    return audible(np.sqrt((4 * harmonic_power + noise_power.mean(0)) / 1800.0))


def audible(level: np.ndarray) -> tuple[int, int] | None:
    """First and last frame to keep, from the level of each; None where nothing is audible."""
    loud = np.flatnonzero(level > _LOUD)
    if len(loud) < 4:
        return None
    return max(0, int(loud[0]) - _LEAD_FRAMES), min(len(level), int(loud[-1]) + 1 + _TAIL_FRAMES)
