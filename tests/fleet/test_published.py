"""The four complete Philly VCs against the published averages: 64 GPUs in 8 nodes, jobs as submitted or all at once."""

from __future__ import annotations

import csv
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from podsim.fleet.policies import find_policy
from podsim.fleet.queue import Machine, run_queue
from podsim.fleet.traces import read_jobs

ROWS = list(
    csv.DictReader(
        (Path(__file__).parent / "data" / "philly_4vc_published.csv").read_text("utf-8").splitlines()
    )
)
PUBLISHED = {
    (row["trace"], row["policy"]): (float(row["avg_jct_s"]), float(row["makespan_s"])) for row in ROWS
}
MACHINE = Machine(nodes=8, gpus_per_node=8, placement="first-fit")
TRACES = ("1", "2", "3", "4", "1pr", "2pr", "3pr", "4pr")
OURS = {
    "SRTF": find_policy("srtf", moves=True),
    "SRSF": find_policy("srsf", moves=True),
    "Themis": find_policy("themis", moves=True),
    "Tiresias": find_policy("tiresias", moves=True),
}
"""those that give whole GPUs to one job at a time"""
NOT_REPRODUCED = {("1", "Themis"): (1.05, 1.15), ("2pr", "Themis"): (0.45, 0.6)}
"""where our mean completion time over the published one lies; docs/queue.md says what is known of it"""


jobs_of = cache(read_jobs)


@cache
def measured(trace, policy):
    """Seconds of jobs from their submission to their end, and the last end."""
    jobs = jobs_of(f"philly-{trace[0]}", together="pr" in trace)
    run = run_queue(jobs, MACHINE, OURS[policy])
    return run.end - jobs.submit, float(run.end.max())


@pytest.mark.parametrize(("trace", "policy"), tuple(product(TRACES, ("SRTF", "SRSF"))))
def test_within_a_tenth(trace, policy):
    seconds, makespan = measured(trace, policy)
    jct, (wanted_jct, wanted_makespan) = seconds.mean(), PUBLISHED[trace, policy]
    assert jct == pytest.approx(wanted_jct, rel=0.1)
    assert makespan == pytest.approx(wanted_makespan, rel=0.1)
    assert jct < wanted_jct * 1.02  # quicker on every trace, for reasons not known


@pytest.mark.parametrize(("trace", "policy"), tuple(product(TRACES, ("Themis", "Tiresias"))))
def test_where_lengths_are_unknown(trace, policy):
    seconds, makespan = measured(trace, policy)
    jct, (wanted_jct, wanted_makespan) = seconds.mean(), PUBLISHED[trace, policy]
    low, high = NOT_REPRODUCED.get((trace, policy), (0.9, 1.1))
    assert low < jct / wanted_jct < high
    assert makespan == pytest.approx(wanted_makespan, rel=0.1)


@pytest.mark.parametrize("trace", TRACES)
def test_tail_of_tiresias(trace):
    last = np.percentile(measured(trace, "Tiresias")[0], 99)
    wanted = next(
        float(row["p99_jct_s"]) for row in ROWS if (row["trace"], row["policy"]) == (trace, "Tiresias")
    )
    assert last == pytest.approx(wanted, rel=0.05)


@pytest.mark.parametrize("levels", [(3250.0,), (3600.0,), (3250.0, 7200.0)])
def test_levels_matter_little(levels):
    # the publication does not say which it took: any of these is near
    policy = replace(OURS["Tiresias"], levels=levels)
    for trace in TRACES:
        jobs = jobs_of(f"philly-{trace[0]}", together="pr" in trace)
        run = run_queue(jobs, MACHINE, policy)
        assert 0.9 < float((run.end - jobs.submit).mean()) / PUBLISHED[trace, "Tiresias"][0] < 1.15


@pytest.mark.parametrize("trace", TRACES)
def test_order_of_policies(trace):
    names = ("SRSF", "SRTF", "Themis", "Tiresias")
    ours = {name: measured(trace, name)[0].mean() for name in names}
    wanted = {name: PUBLISHED[trace, name][0] for name in names}
    if trace == "2pr":  # not reproduced: published has Tiresias before Themis there
        assert ours["SRSF"] < ours["SRTF"] < min(ours["Themis"], ours["Tiresias"])
    else:
        assert sorted(names, key=ours.__getitem__) == sorted(names, key=wanted.__getitem__)


def test_helios_order():
    # Hu et al. 2021 on Philly: SRTF < SJF < FIFO in mean completion time
    machine = Machine(gpus_per_node=64)
    for number in range(1, 5):
        jobs = jobs_of(f"philly-{number}")
        means = [run_queue(jobs, machine, find_policy(name)).end.mean() for name in ("srtf", "sjf", "fifo")]
        assert means == sorted(means)
