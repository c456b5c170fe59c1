"""Containers: the pull storm, the cache of a node, and the seconds before a job computes."""

from __future__ import annotations

import pytest

import podsim
from podsim.errors import PodsimError
from podsim.fleet.containers import container_constants, container_start
from podsim.fleet.jobs import Job, jobs_of
from podsim.fleet.operations import Operations
from podsim.fleet.policies import find_policy
from podsim.fleet.queue import Machine, run_queue


def test_a_storm_shares_the_store():
    selene = Machine(nodes=560, gpus_per_node=8)
    start = container_start(20e9, selene, 25e9, 1e12, "selene")
    assert start.pull == pytest.approx(0.8)
    assert start.storm == pytest.approx(560 * 20e9 / 1e12)
    known = container_constants()
    assert start.mount == pytest.approx(known["start"] + 20e9 / known["unpack"])
    slow = container_start(20e9, selene, 1e9, 1e12, "selene")
    assert slow.storm == slow.pull == pytest.approx(20.0)
    with pytest.raises(PodsimError, match="give the size of its squashfs file"):
        container_start(0.0, selene, 1e9, 1e12, "selene")


def test_nodes_keep_the_image():
    # the first job pulls to both nodes (2 x 30 s), the second finds it there; A's node is replaced and pulls again
    machine = Machine(nodes=2, gpus_per_node=4)
    policy = find_policy("fifo", mount=5.0, pull=10.0, pull_each=30.0)
    jobs = [Job(id="A", submit=0, gpus=8, seconds=100), Job(id="B", submit=1, gpus=4, seconds=100)]
    run = run_queue(jobs_of(jobs), machine, policy)
    assert run.end.tolist() == [165, 270]
    assert run.spent == 8 * 65 + 4 * 5
    failing = run_queue(
        jobs_of(jobs), machine, find_policy("fifo", mount=5.0, pull=10.0, pull_each=30.0, saves=50.0),
        operations=Operations(rate=1 / 150, drain=1.0, repair=10.0, seed=3),
    )  # fmt: skip
    assert failing.failed
    assert failing.spent > run.spent


def test_the_command_says_how_long():
    said = podsim.queue("philly-3", on="selene:8", image="20GB", store="selene", policy=["fifo"])
    assert said.container is not None
    assert said.container.nodes == 8
    plain = podsim.queue("philly-3", on="selene:8", policy=["fifo"])
    assert said.runs[0].jct_mean > plain.runs[0].jct_mean
    assert 0 < said.runs[0].wasted < 0.01
