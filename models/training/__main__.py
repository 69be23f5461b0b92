"""`python -m models.training STAGE`: make a voice, by stages or all at once."""

import argparse
import json
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import torch

from models.training import stages
from models.training.config import PipelineConfig, read_config
from models.training.speech_data import shards
from models.weights import load_voice

STAGES = (
    "corpus",
    "speech",
    "speakers",
    "codec",
    "tokens",
    "language",
    "sound",
    "draft",
    "adopt",
    "export",
    "plots",
    "evaluate",
    "all",
)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m models.training", description=__doc__)
    parser.add_argument("stage", choices=STAGES)
    parser.add_argument(
        "--run",
        type=Path,
        default=Path("runs/voice"),
        help="directory of the run (default: %(default)s)",
    )
    parser.add_argument("--config", type=Path, help="TOML file over the defaults")
    parser.add_argument(
        "--budget-minutes",
        type=float,
        default=180.0,
        help="of training in this stage, or in all of them",
    )
    parser.add_argument(
        "--voice", type=Path, help="voice folder to write (export, all) or to judge (evaluate)"
    )
    parser.add_argument(
        "--from-voice",
        type=Path,
        help="voice folder to start the language model from, or whose codec to adopt",
    )
    parser.add_argument("--whisper", type=Path, help="whisper-base folder, for evaluate")
    parser.add_argument("--lines", type=int, default=60, help="held-out lines to judge")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def _work(
    arguments: argparse.Namespace, run: stages.Run, config: PipelineConfig, budget_s: float
) -> None:
    """One process's part of a stage."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    worker = arguments.worker
    match arguments.stage:
        case "speech":
            stages.make_speech(run, config, worker)
        case "speakers":
            stages.read_second(run, config, worker)
        case "codec":
            stages.train_codec_tokens(run, config, worker, budget_s)
        case "tokens":
            stages.tokenize(run, config, worker)
        case "language":
            stages.train_language(run, config, worker, arguments.from_voice)
        case "draft":
            stages.train_draft(run, config, worker)
        case _:
            stages.train_codec_sound(run, config, worker, budget_s)


def _fan_out(stage: str, arguments: argparse.Namespace, workers: int, budget_s: float) -> None:
    """Run one process per worker and wait for all of them.

    Raises:
        SystemExit: One failed.
    """
    command = [sys.executable, "-m", "models.training", stage, "--run", str(arguments.run)]
    command += ["--budget-minutes", str(budget_s / 60)]
    for option, value in (("--config", arguments.config), ("--from-voice", arguments.from_voice)):
        if value is not None:
            command += [option, str(value)]
    started = time.perf_counter()
    print(f"{stage}: {workers} workers, {budget_s / 60:.1f} minutes", flush=True)
    running = [subprocess.Popen([*command, "--worker", str(w)]) for w in range(workers)]
    codes = [process.wait() for process in running]
    print(f"{stage}: done in {time.perf_counter() - started:.0f} s", flush=True)
    if any(codes):
        raise SystemExit(f"{stage}: workers ended with {codes}")


def _evaluate(arguments: argparse.Namespace, run: stages.Run, config: PipelineConfig) -> None:
    # whisper is wanted by this stage alone
    from models.training.evaluate import score, teacher_lines  # noqa: PLC0415
    from realtime.quality.recogniser import load_recogniser  # noqa: PLC0415

    voice = load_voice(arguments.voice or run.folder / "voice")
    lines = teacher_lines(shards(run.speech)[0], arguments.lines)
    hear = load_recogniser(str(arguments.whisper))
    result = asdict(score(voice, lines, voice.spec.sampling, config.corpus.seed, hear))
    misses = result.pop("misses")
    (run.folder / "figures.json").write_text(
        json.dumps({k: round(float(v), 4) for k, v in result.items()}, indent=2)
    )
    (run.folder / "misses.json").write_text(json.dumps(misses, indent=1))
    print(json.dumps(result, indent=2))


def _stage(
    stage: str,
    arguments: argparse.Namespace,
    run: stages.Run,
    config: PipelineConfig,
    budget_s: float,
) -> None:
    match stage:
        case "corpus":
            stages.make_corpus(run, config)
        case "export":
            stages.export_run(run, config, arguments.voice or run.folder / "voice")
        case "adopt":
            stages.adopt_codec(run, arguments.from_voice)
        case "plots":
            from models.training.plots import plot_run  # noqa: PLC0415  matplotlib

            print(*plot_run(run.codec, run.language, run.folder / "plots"), sep="\n")
        case "evaluate":
            _evaluate(arguments, run, config)
        case _:
            if stage in ("language", "draft"):
                folder = run.language if stage == "language" else run.draft
                stages.plan_language(folder, config, budget_s)
            _fan_out(stage, arguments, config.workers, budget_s)
            if stage == "codec":
                stages.freeze_codec(run, config)
            elif stage == "tokens":
                stages.gather_tokens(run)


def main() -> None:
    """Entry of `python -m models.training`."""
    arguments = _arguments()
    run, config = stages.Run(arguments.run), read_config(arguments.config)
    budget_s = arguments.budget_minutes * 60
    if arguments.worker is not None:
        _work(arguments, run, config, budget_s)
        return
    if arguments.stage != "all":
        _stage(arguments.stage, arguments, run, config, budget_s)
        return
    codec, language, sound = (share * budget_s for share in config.shares)
    plan = [
        ("corpus", 0.0),
        ("speech", 0.0),
        *([("speakers", 0.0)] if config.second.voice else []),
        ("codec", codec),
        ("tokens", 0.0),
        ("language", language),
        ("sound", sound),
        *([("draft", config.draft_share * budget_s)] if config.draft_share else []),
    ]
    plan += [("export", 0.0), ("plots", 0.0)]
    plan += [("evaluate", 0.0), ("export", 0.0)] if arguments.whisper else []
    for stage, stage_s in plan:
        _stage(stage, arguments, run, config, stage_s)


if __name__ == "__main__":
    main()
