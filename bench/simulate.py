"""How scheduling policies do under load: the engine's scheduler and admission, a stated machine.

    python -m bench.simulate cpu                      # minutes
    python -m bench.simulate --jobs 2 h200 h200-retry
    python -m bench.simulate --list

Writes `NAME.json`, `NAME.md` and, for several loads, `NAME.svg` to `--out`, the same for the same
code. On one Zen 3 core a simulated second of a full H200 (240 streams) takes about one second.
"""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec

from bench.simulator.machines import MACHINES
from bench.simulator.scenario import admissible_calls, admissible_streams
from bench.simulator.studies import STUDIES, Job, Row, jobs, outcome
from bench.simulator.tables import table

_DEFAULT_OUT = Path(__file__).resolve().parents[1] / "docs" / "plots"


def _timed(job: Job) -> tuple[list[Row], float]:
    began = time.perf_counter()
    return outcome(job), time.perf_counter() - began


def _title(name: str) -> str:
    study = STUDIES[name]
    machine = MACHINES[study.machine]
    calls = admissible_calls(machine, study.habits)
    return (
        f"{study.question} (100 % = {admissible_streams(machine)} streams, "
        f"{calls:.{2 if calls < 10 else 0}f} calls a second)"
    )


def study(name: str, num_jobs: int, out: Path) -> None:
    """Run one study and write what came of it."""
    rows: list[Row] = []
    with ProcessPoolExecutor(num_jobs) as pool:
        for job, (found, seconds) in zip(jobs(name), pool.map(_timed, jobs(name)), strict=True):
            rows += found
            _say(f"  {job.policy} at {job.load:.0%}, seed {job.seed}: {seconds:.0f} s")
    lines = [_title(name), "", *table(rows)]
    _say("\n".join(lines))
    encoded = msgspec.json.encode({"question": _title(name), "rows": rows})
    (out / f"{name}.json").write_bytes(msgspec.json.format(encoded, indent=1) + b"\n")
    (out / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if len(STUDIES[name].loads) > 1 and len(STUDIES[name].policies) > 1:
        from bench.simulator.plots import plot  # noqa: PLC0415 - matplotlib is for pictures only

        plot(rows, _title(name), out / f"{name}.svg")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Run the named studies."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("studies", nargs="*", choices=[*STUDIES, []], help="names; see --list")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, default=_DEFAULT_OUT)
    parser.add_argument("--list", action="store_true", help="say what there is")
    options = parser.parse_args()
    if options.list or not options.studies:
        _say("\n".join(f"{name:12} {one.question}" for name, one in STUDIES.items()))
        return
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.studies:
        study(name, options.jobs, options.out)


if __name__ == "__main__":
    main()
