"""Speed of the queue and of packing.

    python -m pytest benchmarks/test_fleet.py --benchmark-only

Times are of run_queue alone, on jobs that have been read. Those of first use are of whole commands with an empty cache.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from time import process_time

import numpy as np
import pytest

from podsim.fleet.arrivals import Arrivals, draw_jobs
from podsim.fleet.jobs import JobColumns, make_jobs
from podsim.fleet.openb import read_nodes, read_requests
from podsim.fleet.packing import draw_requests, pack
from podsim.fleet.policies import POLICIES, find_policy
from podsim.fleet.queue import Machine, run_queue
from podsim.fleet.sliced import run_sliced
from podsim.fleet.traces import DATA, read_jobs
from podsim.hardware.mig.profiles import slicings

SMALL = Machine(nodes=8, gpus_per_node=8)
SELENE = Machine(nodes=560, gpus_per_node=8, nodes_per_leaf=20)


@pytest.fixture(scope="module")
def philly():
    return [read_jobs(f"philly-{number}") for number in range(1, 5)]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_philly_10879_jobs(benchmark, philly, policy):
    runs = benchmark.pedantic(lambda: [run_queue(jobs, SMALL, policy) for jobs in philly], rounds=2)
    before = process_time()
    for jobs in philly:
        run_queue(jobs, SMALL, policy)
    benchmark.extra_info["processor s"] = process_time() - before
    benchmark.extra_info["target s"] = 2.0
    benchmark.extra_info["decisions"] = sum(run.decisions for run in runs)
    assert sum(len(run.jobs) for run in runs) == 10_879


def test_million_jobs_on_4480_gpus_with_backfill(benchmark):
    jobs = draw_jobs(Arrivals(jobs=1_000_000, load=0.85), SELENE.gpus, np.random.default_rng(1))
    run = benchmark.pedantic(lambda: run_queue(jobs, SELENE, find_policy("easy")), rounds=1)
    benchmark.extra_info["target s"] = 60.0
    benchmark.extra_info["decisions"] = run.decisions
    benchmark.extra_info["peak GiB so far"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    assert len(run.span_job) == 1_000_000


@pytest.mark.parametrize(
    ("name", "jobs"),
    [
        ("easy", 30_000),
        ("easy", 60_000),
        ("easy", 120_000),
        ("las", 20_000),
        ("las", 40_000),
        ("themis", 20_000),
        ("slurm", 50_000),
        ("conservative", 40_000),
    ],
)
def test_backlog_at_load_1_2(benchmark, name, jobs):
    made = draw_jobs(Arrivals(jobs=jobs, load=1.2), SELENE.gpus, np.random.default_rng(1))
    benchmark.pedantic(lambda: run_queue(made, SELENE, find_policy(name)), rounds=1)
    before = process_time()
    run_queue(made, SELENE, find_policy(name))
    benchmark.extra_info["processor s"] = process_time() - before


@pytest.mark.parametrize(
    "command", [("queue", "three.csv", "--on", "8"), ("pack", "openb")], ids=lambda command: command[0]
)
def test_first_use(benchmark, command, tmp_path):
    (tmp_path / "three.csv").write_text("id,submit,gpus,seconds\na,0,4,100\nb,10,8,50\nc,20,2,30\n")
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    run = [sys.executable, "-c", "import sys; from podsim.cli import main; sys.exit(main())", *command]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    benchmark.pedantic(
        lambda: subprocess.run(run, cwd=tmp_path, env=environment, check=True, capture_output=True), rounds=1
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    benchmark.extra_info["processor s"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_100000_jobs_with_conservative_backfill(benchmark):
    jobs = draw_jobs(Arrivals(jobs=100_000, load=0.85), SELENE.gpus, np.random.default_rng(1))
    benchmark.pedantic(lambda: run_queue(jobs, SELENE, find_policy("conservative")), rounds=1)


@pytest.mark.parametrize("packer", ["best-fit", "fgd"])
def test_10000_jobs_of_which_most_ask_for_instances(benchmark, packer):
    rng, n = np.random.default_rng(0), 10_000
    profile = rng.choice(["1g", "2g", "3g", "7g", ""], n, p=[0.45, 0.2, 0.15, 0.05, 0.15])
    gpus = np.where(profile == "", rng.choice([1, 2, 4, 8], n), 1)
    seconds = np.minimum(3600 * np.exp(1.5 * rng.standard_normal(n)), 3e5)
    jobs = make_jobs(
        JobColumns(
            ids=range(n),
            submit=np.sort(rng.uniform(0, 12_000.0, n)),
            gpus=gpus,
            seconds=seconds,
            mig=profile.tolist(),
        )
    )
    slicing, easy = slicings()["a100-80gb"], find_policy("easy")
    benchmark.pedantic(lambda: run_sliced(jobs, SELENE, easy, slicing, packer=packer), rounds=1)


@pytest.mark.parametrize("packer", ["random", "best-fit", "fgd"])
def test_openb(benchmark, packer):
    nodes = read_nodes(DATA / "openb_gpu_nodes.csv.gz")
    requests = read_requests(DATA / "openb_pods.csv.gz", nodes.models)
    arrivals = draw_requests(requests, float(nodes.gpus.sum()), 1.3, np.random.default_rng(0))
    once = lambda: pack(requests, nodes, arrivals, packer, rng=np.random.default_rng(0))  # noqa: E731
    benchmark.pedantic(once, rounds=2, warmup_rounds=1)
