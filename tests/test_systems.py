"""On macOS and Windows everything imports and predicts, and what needs Linux says so; both are played on Linux.

The extras of pyproject.toml are not there, either: `pip install podsim` alone imports and predicts.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import podsim

PREDICT = "predict llama-3.1-8b --on h100 --gpus 64 --zero 2 --json"
EXPERTS = "predict mixtral-8x7b --on h100 --gpus 64 --ep 8 --zero 1 --capacity-factor 1.25 --imbalance 1.5"
NEED_LINUX = (
    "emulate dgx-a100:2 -- true", "exporter --once", "measure loader .", "verify --expect dgx-a100-80gb",
    "train gpt2 --set model.dropout=false --set model.layers=2",
)  # fmt: skip


@pytest.mark.parametrize("system", ["win32", "darwin"])
def test_what_needs_linux_says_so_and_the_rest_runs(system: str, tmp_path: Path) -> None:
    commands = [command.split() for command in (PREDICT, EXPERTS, *NEED_LINUX)]
    played = subprocess.run(
        [sys.executable, Path(__file__).parent / "made" / "other_system.py", system],
        input=json.dumps(commands), cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert played.returncode == 0, played.stderr
    answer = json.loads(played.stdout)
    assert answer["lost"] == []
    (predicted, text, _), (experts, _, wrong), *others = answer["said"]
    assert (predicted, experts) == (0, 1), wrong  # the experts fit no GPU
    step = podsim.predict("llama-3.1-8b", on="h100", gpus=64, zero=2).step_time
    assert json.loads(text)["step_time"] == pytest.approx(step, rel=1e-9)
    for command, (status, _, mistake) in zip(NEED_LINUX, others, strict=True):
        assert status == 2, command
        assert f"needs Linux, and this is {system}" in " ".join(mistake.split()), command
