"""Speed of long runs: 10,000 draws of a job of 1,000 nodes over 60 days, and the whole command.

python -m pytest benchmarks/test_goodput.py --benchmark-only
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from podsim.fleet.reliability import LongRun, best_interval_seconds
from podsim.fleet.reliability_rates import load_study, recovery
from podsim.fleet.reliability_runs import simulate_runs

DAY = 86400.0
BAR = 2.0


def job(**changes):
    known = {name: constant.value for name, constant in recovery().items()}
    mtbf = 1 / (1000 * load_study("rsc-1").rate)
    given = {
        "work": 60 * DAY, "mtbf": mtbf, "interval": float(best_interval_seconds(30.0, mtbf)), "stall": 30.0,
        "restart": known["start"] + 60.0, "hang": known["hang"], "timeout": known["timeout"], "drain": known["drain"],
        "repair": known["repair"], "spares": 50,
    } | changes  # fmt: skip
    return LongRun(**given)


VARIANTS = {
    "spares for all": job(),
    "spares run out": job(spares=3),
    "slow nodes, rates that differ": job(
        spares=3, slow=0.005, nodes=1000, slowdown=0.1, found=DAY, spread=0.5, persist=60.0
    ),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_ten_thousand_runs(benchmark, name):
    found = benchmark.pedantic(
        lambda: simulate_runs(VARIANTS[name], 10_000, np.random.default_rng(0)), rounds=3
    )
    benchmark.extra_info["bar s"] = BAR
    benchmark.extra_info["failures a run"] = float(found.failures.mean())


def test_whole_command(benchmark):
    command = [
        sys.executable, "-m", "podsim.cli", "goodput", "gpt3-175b", "--on", "selene", "--gpus", "1024", "--batch", "1536",
        "--tokens", "300G", "--limit", "tp=8",
    ]  # fmt: skip
    benchmark.pedantic(lambda: subprocess.run(command, check=True, capture_output=True), rounds=3)
