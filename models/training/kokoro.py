"""A Kokoro voice (Kokoro-82M, Apache-2.0) as a teacher: waveform, phoneme durations and f0.

It reads the alphabet that hibari writes, so one text front end serves every speaker.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

_DURATIONS = "/encoder/Round_output_0"  # units of 600 samples, with a pad at both ends
_PITCH = "/encoder/F0_proj/Conv_output_0"  # hertz per 300 samples
_FILE = "kokoro-v1.0.int8.onnx"
_STYLE_SIZE = 256


@dataclass(frozen=True)
class Reading:
    """One phoneme string as it was spoken.

    Attributes:
        samples: float32 `[N]` at 24 kHz, silence at both ends included.
        durations: Of each phoneme and the two pads, in units of 600 samples, `[phonemes + 2]`.
        f0: Hertz per 300 samples, near zero where unvoiced, `[N / 300]`.
    """

    samples: np.ndarray
    durations: np.ndarray
    f0: np.ndarray


def with_durations(model: Path, folder: Path) -> Path:
    """Write Kokoro's ONNX file with durations and f0 as more outputs into `folder`."""
    path = folder / "kokoro_teacher.onnx"
    if not path.exists():
        graph = onnx.load(str(model / _FILE))
        for name in (_DURATIONS, _PITCH):
            graph.graph.output.append(
                onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
            )
        part = path.with_suffix(f".{os.getpid()}.part")
        onnx.save(graph, str(part))
        part.replace(path)  # several workers may write it
    return path


class Kokoro:
    """One voice of Kokoro.

    Args:
        model: Folder with the model, `vocab.json` and `voices/NAME.bin`.
        scratch: Where the model with more outputs is kept.
        voice: Its name, `am_michael` for one.
    """

    def __init__(self, model: Path, scratch: Path, voice: str) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        path = str(with_durations(model, scratch))
        self._session = onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"]
        )
        vocab = json.loads((model / "vocab.json").read_text())
        self._vocab: dict[str, int] = vocab.get("vocab", vocab)
        style = np.fromfile(model / "voices" / f"{voice}.bin", np.float32)
        self._styles = style.reshape(-1, _STYLE_SIZE)

    def knows(self, phonemes: str) -> bool:
        """Whether it can read every symbol, and so many."""
        return 2 <= len(phonemes) < len(self._styles) and all(c in self._vocab for c in phonemes)

    def read(self, phonemes: str, speed: float) -> Reading:
        """Speak `phonemes`, all of which it must know."""
        ids = [0, *(self._vocab[c] for c in phonemes), 0]
        inputs = {
            "tokens": np.array([ids], np.int64),
            "style": self._styles[len(phonemes)][None],
            "speed": np.array([speed], np.float32),
        }
        outputs = self._session.run(None, inputs)
        samples, durations, f0 = (np.asarray(x).ravel() for x in outputs)
        return Reading(samples, durations, f0)
