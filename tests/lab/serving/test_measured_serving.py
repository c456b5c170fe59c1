"""A real server, ended early: what was answered until then is kept, and lines say how far it is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from podsim.answers.saved_run import read_run
from podsim.answers.served_real import MeasuredServing
from podsim.lab import usage

pytest.importorskip("torch")
WORDS = ("--layers", "1", "--hidden", "32", "--tries", "1", "--loads", "50%,50%", "--requests", "3000")


@pytest.mark.skipif(sys.platform != "linux", reason="the server is pinned to a core")
def test_what_was_answered_before_sigterm_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    command = [sys.executable, "-m", "podsim.cli", "measure", "serving", *WORDS, "--save", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        most = 40 + 40 + 40 + 48 + 192  # of the loops before the first load
        for line in running.stderr:
            done = line.partition("requests: ")[2].split(" of ")[0].replace(",", "")
            if done.isdecimal() and int(done) > most + 100:
                break
        running.send_signal(signal.SIGTERM)
        told, _ = running.communicate(timeout=120)
    assert running.returncode == 130
    assert "50%" in told
    run = read_run(path)
    assert isinstance(run, MeasuredServing)
    assert run.stopped
    assert len(run.rates) == 1
    assert 100 < len(run.rows) < 3000


def test_time_that_a_host_takes_is_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the processors' time is stolen in a second."""
    took = [0.0]
    monkeypatch.setattr(usage, "_machine", lambda: (0.0, 0.0, took[0]))
    monkeypatch.setattr(time, "perf_counter", lambda: 100.0 + 10 * took[0])
    monkeypatch.setattr(os, "times", lambda: os.times_result((0.0, 0.0, 0.0, 0.0, 0.0)))
    before = usage.clocks()
    took[0] = usage.cores() / 10
    assert usage.others_since(before) == pytest.approx(0.1 / usage.cores(), rel=1e-6)
