"""Estimated opinion of listeners: DNSMOS P.835 (Reddy et al., 2022; weights in `speechmos`, MIT).

Runs the package's network and its published polynomials on one thread; its own entry point takes
every core and imports an audio library that compiles itself for half a minute.
"""

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from realtime.quality.packages import JUDGE_EXTRA, MissingPackageError, load
from realtime.quality.recogniser import resample
from realtime.quality.sound import Samples

RATE_HZ = 16_000
WINDOW_SAMPLES = int(9.01 * RATE_HZ)
HOP_SAMPLES = WINDOW_SAMPLES // 2
PURPOSE = "DNSMOS"
# speechmos 0.0.1.1, dnsmos.py: raw outputs to the scale of the listeners, 1 to 5
_SIGNAL = np.poly1d([-0.08397278, 1.22083953, 0.0052439])
_BACKGROUND = np.poly1d([-0.13166888, 1.60915514, -0.39604546])
_OVERALL = np.poly1d([-0.06766283, 1.11546468, 0.04602535])


@dataclass(frozen=True, slots=True)
class Opinion:
    """Mean opinion scores, 1 (bad) to 5 (excellent)."""

    overall: float
    signal: float
    background: float


class OpinionJudge(Protocol):
    """Estimates what listeners would say."""

    def __call__(self, samples: Samples, rate_hz: int) -> Opinion:
        """Of a recording that is not empty."""
        ...


class Dnsmos:
    """The loaded network; implements `OpinionJudge`."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def __call__(self, samples: Samples, rate_hz: int) -> Opinion:
        """Mean over windows of 9 s that overlap by half; a shorter recording is repeated."""
        audio = resample(samples, rate_hz, RATE_HZ)
        while len(audio) < WINDOW_SAMPLES:
            audio = np.concatenate([audio, audio])
        raw = [
            self._session.run(None, {"input_1": audio[None, start : start + WINDOW_SAMPLES]})[0][0]
            for start in range(0, len(audio) - WINDOW_SAMPLES + 1, HOP_SAMPLES)
        ]
        signal, background, overall = np.array(raw).T
        return Opinion(
            overall=float(_OVERALL(overall).mean()),
            signal=float(_SIGNAL(signal).mean()),
            background=float(_BACKGROUND(background).mean()),
        )


def load_opinion_judge() -> Dnsmos:
    """Load DNSMOS.

    Raises:
        MissingPackageError: `speechmos` or `onnxruntime` is not installed.
    """
    package = importlib.util.find_spec("speechmos")  # located, not imported
    if package is None or not package.submodule_search_locations:
        raise MissingPackageError(f"{PURPOSE} needs the package speechmos: {JUDGE_EXTRA}")
    weights = Path(package.submodule_search_locations[0]) / "dnsmos_models" / "sig_bak_ovr.onnx"
    runtime = load("onnxruntime", PURPOSE)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return Dnsmos(
        runtime.InferenceSession(str(weights), options, providers=["CPUExecutionProvider"])
    )
