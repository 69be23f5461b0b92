"""A file that looks like Kokoro's: every phoneme lasts 0.1 s and is a buzz of 110 Hz."""

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from models.tokenizer import PHONEME_SYMBOLS

_UNITS = 4  # of 600 samples, each phoneme


def write_stub_kokoro(folder: Path) -> Path:
    """Write the model, its vocabulary and the voice `am_michael` into `folder`; return it."""
    constants = {
        "one": np.array(1, np.int64),
        "units": np.array([_UNITS], np.float32),
        "frames_each": np.array([2 * _UNITS], np.int64),
        "samples_each": np.array([600 * _UNITS], np.int64),
        "hz": np.array([110.0], np.float32),
        "turn": np.array([110.0 / 24000], np.float32),
        "axis": np.array(0, np.int64),
        "half": np.array(0.5, np.float32),
    }
    node = helper.make_node
    nodes = [
        node("Shape", ["tokens"], ["shape"]),
        node("Gather", ["shape", "one"], ["length"]),
        node("Reshape", ["length", "row"], ["count"]),
        node("Expand", ["units", "count"], ["/encoder/Round_output_0"]),
        node("Mul", ["count", "frames_each"], ["frames"]),
        node("Expand", ["hz", "frames"], ["/encoder/F0_proj/Conv_output_0"]),
        node("Mul", ["count", "samples_each"], ["samples"]),
        node("Expand", ["turn", "samples"], ["turns"]),
        node("CumSum", ["turns", "axis"], ["cycles"]),
        node("Floor", ["cycles"], ["whole"]),
        node("Sub", ["cycles", "whole"], ["saw"]),
        node("Sub", ["saw", "half"], ["audio"]),
    ]
    constants["row"] = np.array([1], np.int64)
    graph = helper.make_graph(
        nodes,
        "stub",
        [
            helper.make_tensor_value_info("tokens", TensorProto.INT64, [1, None]),
            helper.make_tensor_value_info("style", TensorProto.FLOAT, [1, 256]),
            helper.make_tensor_value_info("speed", TensorProto.FLOAT, [1]),
        ],
        [helper.make_tensor_value_info("audio", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9  # what onnxruntime reads, whichever onnx writes it
    (folder / "voices").mkdir(parents=True)
    onnx.save(model, str(folder / "kokoro-v1.0.int8.onnx"))
    (folder / "vocab.json").write_text(
        json.dumps({c: i + 1 for i, c in enumerate(PHONEME_SYMBOLS)})
    )
    np.zeros((510, 256), np.float32).tofile(folder / "voices" / "am_michael.bin")
    return folder
