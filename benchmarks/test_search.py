"""Speed of the search, of one prediction and of whole commands. Nothing fails for being slow: bars stand in README.md."""

from __future__ import annotations

import subprocess
import sys

import pytest

from podsim.accuracy.stated_prediction import describe
from podsim.hardware.cluster import load_cluster
from podsim.training.plan import Plan
from podsim.training.predict import predict_plan
from podsim.training.search import search
from podsim.workload.catalog import load_model

MODEL = load_model("gpt3-175b")
SELENE = load_cluster("selene").subset(512)
PLAN = Plan(tp=8, pp=8, dp=8, global_batch=1536, zero=1, sequence_parallel=True)
# the largest resident size of one child: its own process, so that no other child of the benchmark counts
CHILD = """
import resource, subprocess, sys
code = subprocess.run([sys.executable, "-m", "podsim.cli", *sys.argv[1:]], stdout=subprocess.DEVNULL).returncode
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def test_full_space_of_gpt3_on_512_gpus(benchmark) -> None:
    """Time and memory of every legal plan; plans per second on one core."""
    found = benchmark.pedantic(
        search, args=(MODEL, SELENE, Plan(global_batch=2048)), rounds=5, iterations=1, warmup_rounds=1
    )
    benchmark.extra_info["plans"] = found.evaluated
    benchmark.extra_info["plans_per_second"] = round(found.evaluated / benchmark.stats.stats.min)
    assert found.order.size > 0


def test_one_prediction(benchmark) -> None:
    """Step time, parts, memory and rates of one plan."""
    assert benchmark(predict_plan, MODEL, SELENE, PLAN).step_time > 0


def test_one_description(benchmark) -> None:
    """The same with gains, error band, warnings and assumptions, as the questions give it."""
    assert benchmark(describe, MODEL, SELENE, PLAN).step_time > 0


@pytest.mark.parametrize(
    "command",
    [
        "--help",
        "plan gpt3-175b --on selene --gpus 512",
        "predict gpt3-175b --on selene --gpus 512 --tp 8 --pp 8 --zero 1",
    ],
)
def test_whole_commands(benchmark, command: str) -> None:
    """From the shell and back, with the peak of memory."""
    peaks = []

    def run() -> None:
        done = subprocess.run(
            [sys.executable, "-c", CHILD, *command.split()], capture_output=True, text=True, check=True
        )
        code, peak = done.stdout.split()
        assert int(code) in (0, 1)
        peaks.append(int(peak) * 1024)

    benchmark.pedantic(run, rounds=3, iterations=1)
    benchmark.extra_info["peak_memory"] = max(peaks)
