"""`realtime quality` with the true judges, where they and a recogniser are at hand."""

import subprocess
import sys

import pytest

from realtime.quality.results import read_report
from tests.e2e.service import ROOT

RECOGNISERS = ROOT / "runs" / "models"

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.mark.skipif(
    not (RECOGNISERS / "whisper-base" / "model.bin").exists(),
    reason="needs runs/models/whisper-base, see docs/QUALITY.md",
)
def test_the_teacher_is_understood_and_like_itself(service, tmp_path):
    for package in ("faster_whisper", "speechmos", "resemblyzer", "pyloudnorm", "matplotlib"):
        pytest.importorskip(package)
    command = [sys.executable, "-m", "realtime", "quality", "--url", service.url, "--teacher"]
    command += ["--models", str(RECOGNISERS), "--lines", "3", "-o", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    report = read_report(tmp_path)
    assert report.notes == ()
    teacher, ours = report.figures["teacher"], report.figures["default"]
    assert teacher["word_error"].value <= 0.1
    assert teacher["dnsmos_overall"].value >= 3.0
    assert teacher["similarity"].value >= 0.8
    assert ours["leading_silence_ms"].value <= 50
    assert ours["runaway_or_early_stop"].value == 0
    assert "<svg" in (tmp_path / "report.html").read_text()
