"""Emitted sbatch scripts, held against a real Slurm of four emulated nodes of 8 GPUs."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from click.testing import Result

from podsim.launching.slurm import duration

if TYPE_CHECKING:
    from tests.launching.conftest import Slurm

PLAN = ("gpt3-175b", "--on", "dgx-a100-80gb:4", "--tp", "8", "--pp", "4", "--sequence-parallel", "--batch", "8",
        "--for", "slurm", "--partition", "batch", "--time-limit", "90 min", "--mount", "/tmp:/data",
        "--force")  # fmt: skip

# stands in for torchrun: as many ranks as it is told to start, each with its place in the job
TORCHRUN = """#!/bin/bash
while [ $# -gt 0 ] && [ "${1##*/}" != pretrain_gpt.py ]; do
  [ "$1" = --nproc-per-node ] && each=$2
  [ "$1" = --nnodes ] && nodes=$2
  [ "$1" = --rdzv-endpoint ] && meet=$2
  shift
done
for ((rank = 0; rank < each; rank++)); do
  echo "rank $((SLURM_NODEID * each + rank)) of $((nodes * each)) meets at $meet with $NCCL_IB_HCA runs $*" &
done
wait
"""
# stands in for pyxis: takes its options away, and keeps them to be looked at
SRUN = """#!/bin/bash
kept=()
for word in "$@"; do
  case "$word" in --container-*|--no-container-*) echo "$word" >> "$(dirname "$0")/../pyxis" ;; *) kept+=("$word") ;; esac
done
exec {srun} "${{kept[@]}}"
"""


def _program(slurm: Slurm, name: str, text: str) -> None:
    path = slurm.home / "bin" / name
    path.write_text(text)
    path.chmod(0o755)


def test_slurm_takes_and_runs_the_script(slurm: Slurm, podsim: Callable[..., Result]) -> None:
    srun = slurm.run("which", "srun").stdout.strip()
    script = slurm.home / "job.sh"
    script.write_text(podsim("launch", *PLAN).stdout)

    accepted = slurm.run("sbatch", "--test-only", script)
    assert "using 1024 processors on nodes dgx[1-4] in partition batch" in accepted.stderr

    _program(slurm, "torchrun", TORCHRUN)
    _program(slurm, "srun", SRUN.format(srun=shlex.quote(srun)))
    number = slurm.finish(script)
    lines = (slurm.home / f"gpt3-175b-{number}.out").read_text().splitlines()
    assert sorted(int(line.split()[1]) for line in lines) == list(range(32))
    assert all(" of 32 meets at dgx1:29500 with mlx5_0,mlx5_1" in line for line in lines)
    assert all("--tensor-model-parallel-size 8" in line for line in lines)
    assert (slurm.home / "pyxis").read_text().splitlines()[:3] == [
        "--container-image=nvcr.io#nvidia/pytorch:25.04-py3",
        f"--container-mounts={slurm.home}:{slurm.home},/tmp:/data",
        f"--container-workdir={slurm.home}",
    ]

    shown = slurm.run("scontrol", "show", "job", number).stdout
    assert "TimeLimit=01:30:00" in shown
    assert "NumNodes=4" in shown

    (slurm.home / "bin" / "srun").unlink()
    script.write_text(podsim("launch", *PLAN, "--image", "").stdout)
    plain = slurm.finish(script)
    assert len((slurm.home / f"gpt3-175b-{plain}.out").read_text().splitlines()) == 32

    script.write_text(podsim("launch", *PLAN[:2], "dgx-a100-80gb:5", "--batch", "40", *PLAN[10:]).stdout)
    refused = slurm.run("sbatch", "--test-only", script, check=False)
    assert refused.returncode != 0
    assert "node" in refused.stderr.lower()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(60, "0-00:01:00"), (61, "0-00:02:00"), (5400, "0-01:30:00"), (90_000, "1-01:00:00")],
)
def test_time_limits(seconds: float, text: str) -> None:
    assert duration(seconds) == text
