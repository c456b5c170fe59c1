"""Speed of the simulation of steps: the event kernel alone, transfers that share links, whole steps.

python -m pytest benchmarks/test_simulation.py --benchmark-only

`PODSIM_RANKS=4480` adds a step with so many ranks played one by one (22 s, 2 GB); `extra_info` holds seconds of
processor time beside the wall clock, as machines are seldom idle.
"""

from __future__ import annotations

import os
import resource
import time

import numpy as np
import pytest

from podsim.hardware.cluster import load_cluster
from podsim.simulation.events import play
from podsim.simulation.lower import lower
from podsim.simulation.ops import Ops, Transfers
from podsim.simulation.outcome import outcome
from podsim.training.plan import Plan
from podsim.workload.catalog import load_model

GRID = {"tp": 8, "pp": 8, "sequence_parallel": True, "recompute": "selective", "zero": 1}
RANKS = [64, 128, 256, 512, 1024]
if os.environ.get("PODSIM_RANKS"):
    RANKS.append(int(os.environ["PODSIM_RANKS"]))


def note(benchmark, count, seconds, **more):
    """What a run did, in its extra information."""
    benchmark.extra_info.update(
        {"count": count, "processor (s)": seconds, "per second": count / seconds, **more},
        **{"peak (B)": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024},
    )


def timed(benchmark, function, *arguments, rounds=3, **options):
    """(result, least processor seconds)."""
    spent = []

    def once():
        begin = time.process_time()
        out = function(*arguments, **options)
        spent.append(time.process_time() - begin)
        return out

    out = benchmark.pedantic(once, rounds=rounds, warmup_rounds=1)
    return out, min(spent[1:])


def test_ops_alone(benchmark):
    """A million ops on 256 streams, each after the op before it and one of the neighbouring stream."""
    streams, length = 256, 4096
    number = np.arange(streams * length, dtype=np.int32).reshape(length, streams)
    before, after = number[:-1].ravel(), np.roll(number, -1, axis=1)[1:].ravel()
    ops = Ops(
        stream=np.tile(np.arange(streams, dtype=np.int32), length),
        seconds=np.random.default_rng(0).exponential(1.0, number.size), before=before, after=after,
    )  # fmt: skip
    played, seconds = timed(benchmark, play, ops)
    assert played.solved == 0
    note(benchmark, number.size, seconds)


@pytest.mark.parametrize("nodes", [8, 32, 128])
def test_transfers_that_contend(benchmark, nodes):
    """Rings over eight rails: each rank passes on what came, through its adapter and an uplink of its leaf.

    Sixteen adapters share eight uplinks' worth of bandwidth, so that every transfer shares, and sizes differ so that few
    end together.
    """
    rails, steps = 8, 200
    ranks = nodes * rails
    node, rail = np.divmod(np.arange(ranks), rails)
    leaf = (node // 16) * rails + rail
    follow = ((node + 1) % nodes) * rails + rail
    links = np.stack([np.arange(ranks), ranks + follow, 2 * ranks + leaf], axis=1)
    transfers = Transfers(
        peak=np.full(ranks, 25e9), latency=np.full(ranks, 5e-6), use=np.ones(3 * ranks),
        routes=(3 * np.arange(ranks + 1), links.ravel()),
        capacity=np.concatenate([np.full(2 * ranks, 25e9), np.full(int(leaf.max()) + 1, min(nodes, 16) * 12.5e9)]),
    )  # fmt: skip
    number = np.arange(ranks * steps, dtype=np.int32).reshape(steps, ranks)
    ops = Ops(
        stream=np.tile(np.arange(ranks, dtype=np.int32), steps),
        seconds=np.random.default_rng(0).uniform(0.5e-3, 1.5e-3, number.size), before=number[:-1].ravel(),
        after=number[1:][:, follow].ravel(), transfer=np.tile(np.arange(ranks, dtype=np.int32), steps),
        transfers=transfers,
    )  # fmt: skip
    played, seconds = timed(benchmark, play, ops)
    note(benchmark, number.size, seconds, solved=played.solved)


def whole(model, cluster, plan, **options):
    """One step, to the result with its timeline."""
    lowered = lower(model, cluster, plan, **options)
    return outcome(model, cluster, plan, lowered, play(lowered.ops), 1.0)


def test_a_step_of_gpt3_folded(benchmark):
    """GPT-3 175B on 4,480 GPUs (TP 8, PP 8, DP 70), 1,680 sequences: every kernel of eight classes."""
    model, cluster = load_model("gpt3-175b"), load_cluster("selene")
    plan = Plan(**GRID, dp=70, global_batch=1680)
    step, seconds = timed(benchmark, whole, model, cluster, plan)
    assert step.ranks == 8
    note(benchmark, step.ops, seconds, represented=step.represented)


@pytest.mark.parametrize("ranks", RANKS)
def test_a_step_of_gpt3_rank_by_rank(benchmark, ranks):
    """The same with every rank by itself, 24 micro-batches: lowered and played."""
    model, cluster = load_model("gpt3-175b"), load_cluster("selene")
    dp = ranks // 64
    plan = Plan(**GRID, dp=dp, global_batch=24 * dp)

    def run():
        lowered = lower(model, cluster, plan, kernels=False, unfold=True)
        return lowered, play(lowered.ops)

    (lowered, played), seconds = timed(benchmark, run, rounds=1)
    folded = lower(model, cluster, plan, kernels=False)
    assert played.seconds == pytest.approx(play(folded.ops).seconds, rel=1e-9)
    note(benchmark, len(lowered.what), seconds)
