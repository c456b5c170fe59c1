"""Runs that signals end keep what was finished: printed on SIGTERM and SIGINT, in the file on SIGKILL, too."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from podsim.answers.lab import MeasuredCollectives
from podsim.answers.saved_run import read_run

TRAIN = (
    "train", "gpt-tiny", "--precision", "fp32,tf32,bf16,fp16,fp8,mxfp8,nvfp4", "--seeds", "3", "--steps", "2",
    "--sequence", "16", "--batch", "2",
)  # fmt: skip
COLLECTIVE = ("measure", "collective", "--ranks", "2", "--sizes", "64K:256M:2", "--algo", "ring,library")


def ended(words: tuple[str, ...], file: Path, number: int, line: str) -> tuple[int, str, list[str]]:
    """(exit status, standard output, lines of standard error) of a command that a signal ends after a line."""
    with subprocess.Popen(
        [sys.executable, "-m", "podsim.cli", *words, "--save", str(file)], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"COLUMNS": "80"},
    ) as process:  # fmt: skip
        assert process.stderr is not None
        assert process.stdout is not None
        lines = []
        for said in process.stderr:
            lines.append(said)
            if line in said:
                process.send_signal(number)
                break
        else:
            raise AssertionError(f"no line with {line!r}: {lines}")
        lines += process.stderr.readlines()
        printed = process.stdout.read()
    return process.returncode, printed, lines


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_precisions_keep_their_finished_runs(tmp_path: Path, number: signal.Signals) -> None:
    file = tmp_path / "runs.json"
    status, printed, lines = ended(TRAIN, file, number, "run 4 of 21")
    kept = json.loads(file.read_text())
    done = [(curve["precision"], curve["seed"]) for curve in kept["curves"]]
    assert done[:4] == [("fp32", 0), ("fp32", 1), ("fp32", 2), ("tf32", 0)]
    assert len(done) < 21
    assert kept["stopped"]
    assert [f"run {count} of 21" in line for count, line in enumerate(
        (line for line in lines if ": final loss" in line), 1
    )] == [True] * len(done)  # fmt: skip
    if number != signal.SIGKILL:
        assert status == 130
        assert [row.split()[0] for row in printed.splitlines() if row.startswith(("  fp32 ", "  tf32 "))] == [
            "fp32", "tf32",
        ]  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_collective_keeps_its_finished_rows(tmp_path: Path, number: signal.Signals) -> None:
    file = tmp_path / "rows.jsonl"
    status, printed, _ = ended(COLLECTIVE, file, number, " of 26")
    run = read_run(file)
    assert isinstance(run, MeasuredCollectives)
    assert run.stopped
    assert 0 < len(run.rows) < 26
    assert run.rows[0].size == 65536
    if number == signal.SIGTERM:
        assert status == 130
        assert "# Stopped" in printed
