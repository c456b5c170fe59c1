"""torch's runtime runs the tables for real, and every schedule trains what one process would."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from podsim.schedules.entries import SCHEDULES, build
from podsim.schedules.torch_csv import to_csv, torch_problems

P, M = 2, 6


@pytest.mark.torch
@pytest.mark.skipif(sys.platform != "linux", reason="gloo over forked processes")
def test_gradients_are_those_of_one_process(tmp_path: Path) -> None:
    """Two ranks over gloo, every schedule that torch can run."""
    pytest.importorskip("torch.distributed.pipelining")
    names = []
    for name, entry in SCHEDULES.items():
        v = 2 if entry.problems(P, 1, M) or name == "breadth-first" else 1
        table = build(name, P, v, M)
        if torch_problems(table):
            continue
        (tmp_path / f"{name}.csv").write_text(to_csv(table))
        (tmp_path / f"{name}.json").write_text(json.dumps(table.stage_rank.tolist()))
        names.append(name)
    script = Path(__file__).with_name("gloo_ranks.py")
    done = subprocess.run(
        [sys.executable, script, tmp_path, str(P), str(M)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{name} ok" for name in sorted(names)], done.stderr
