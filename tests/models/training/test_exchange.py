"""Weight averaging between processes, and the log and schedule that they share."""

import itertools
import json
from pathlib import Path

import torch

from models.training.exchange import WeightExchange, Worker
from models.training.progress import ProgressLog, falling


def test_two_workers_meet_in_the_middle(tmp_path: Path) -> None:
    first, second = torch.zeros(3), torch.full((3,), 2.0)
    one = WeightExchange(tmp_path, 0, 2, [first])
    other = WeightExchange(tmp_path, 1, 2, [second])
    assert one.average() == 1
    assert other.average() == 2
    assert second.tolist() == [1.0, 1.0, 1.0]
    assert one.average() == 2
    assert first.tolist() == [1.0, 1.0, 1.0]


def test_a_worker_that_fell_silent_is_left_out(tmp_path: Path) -> None:
    mine, theirs = torch.zeros(2), torch.ones(2)
    one = WeightExchange(tmp_path, 0, 2, [mine])
    other = WeightExchange(tmp_path, 1, 2, [theirs])
    other.publish()
    other.rows[1][-1] -= 1000.0
    assert one.average() == 1
    assert mine.tolist() == [0.0, 0.0]


def test_a_worker_alone_has_no_exchange(tmp_path: Path) -> None:
    assert Worker(1.0, tmp_path / "log").meet([torch.zeros(1)]) is None


def test_the_log_holds_means_and_loses_no_step(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    log = ProgressLog(path, every=2)
    for value in (1.0, 3.0, 8.0):
        log.add({"loss": value})
    log.flush()
    log.flush()
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(r["step"], r["loss"]) for r in rows] == [(2, 2.0), (3, 8.0)]


def test_the_rate_is_stable_then_falls_to_almost_nothing() -> None:
    rates = [falling(x / 20, 0.4) for x in range(21)]
    assert rates[:9] == [1.0] * 9
    assert all(a >= b for a, b in itertools.pairwise(rates))
    assert 0 < rates[-1] < 0.05
