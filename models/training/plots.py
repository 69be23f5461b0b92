"""Loss curves of a run as PNG files beside its logs."""

import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot


def _rows(path: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _plot(
    series: dict[str, tuple[list[float], list[float]]], title: str, unit: str, path: Path
) -> None:
    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    for label, (x, y) in series.items():
        axes.plot([v / 60 for v in x], y, label=label, marker="." if len(x) < 30 else "")
    axes.set(title=title, xlabel="minutes of training", ylabel=unit)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def plot_run(codec: Path, language: Path, folder: Path) -> list[Path]:
    """Draw what there is to draw; return the files written."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    envelopes = {}
    for name in ("start", "tokens_0", "sound_0"):
        if rows := _rows(codec / f"{name}.jsonl"):
            envelopes[name] = ([r["elapsed_s"] for r in rows], [r["level"] for r in rows])
    if envelopes:
        written.append(folder / "codec.png")
        _plot(envelopes, "Codec: error of the spectral level", "nepers", written[-1])
    entropy = {}
    if rows := _rows(language / "worker_0.jsonl"):
        entropy["training, with corrupted history"] = (
            [r["elapsed_s"] for r in rows],
            [r["mean"] for r in rows],
        )
    if rows := _rows(language / "evaluations.jsonl"):
        entropy["held out, averaged weights"] = (
            [r["elapsed_s"] for r in rows],
            [r["held_out_mean"] for r in rows],
        )
    if entropy:
        written.append(folder / "language_model.png")
        _plot(entropy, "Language model: cross-entropy", "nats a token", written[-1])
    return written
