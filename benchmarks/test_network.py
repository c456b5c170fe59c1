"""Speed of the network simulation: 1 GiB all-reduces on up to 32,768 ranks.

    python -m pytest benchmarks/test_network.py --benchmark-only

Kernels are compiled before the clock starts. Times are of a table on a fabric from nothing (`prepare` and `play`), unless
the test says otherwise.
"""

from __future__ import annotations

import resource
from dataclasses import replace

import numpy as np
import pytest
from made_fabrics import leaf_spine

from podsim.hardware.cluster import load_cluster
from podsim.hardware.fabrics import fabric_of
from podsim.network.collectives.hierarchical import hierarchical_all_reduce
from podsim.network.collectives.rings import ring_all_reduce
from podsim.network.flow import max_min_rates
from podsim.network.play import play, prepare

SIZE = 2.0**30
RANKS = 4480


def pod(nodes, leaf):
    """Servers of eight A100 on eight rails: 300 GB/s inside, 25 GB/s a rail."""
    return leaf_spine(
        nodes=nodes, local=8, inside=300e9, outside=25e9, leaf=leaf,
        inside_latency=2e-6, outside_latency=4e-6, spine_latency=1e-6,
    )  # fmt: skip


def flat(**options):
    """One rank a server, 32 servers on a leaf switch of 32 uplinks."""
    return leaf_spine(nodes=RANKS, outside=25e9, leaf=32, uplinks=32, **options)


@pytest.fixture(scope="module", autouse=True)
def compiled():
    for fold in (False, True):
        play(hierarchical_all_reduce(4, 8), SIZE, pod(4, 2), fold=fold)
    max_min_rates(([0, 1], [0]), [1.0])


def once(benchmark, run, seconds, gib=1.0):
    played = benchmark.pedantic(run, rounds=3)
    benchmark.extra_info["target s"] = seconds
    benchmark.extra_info["target GiB"] = gib
    benchmark.extra_info["peak GiB so far"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    benchmark.extra_info["events"] = played.events
    benchmark.extra_info["events per second"] = played.events / benchmark.stats.stats.min
    return played


def test_hierarchical_4480_every_flow(benchmark):
    fabric = replace(pod(560, 20), latency=np.zeros_like(pod(560, 20).latency))
    played = once(benchmark, lambda: play(hierarchical_all_reduce(560, 8), SIZE, fabric), 0.5)
    assert played.simulated == played.events == 5_071_360


def test_hierarchical_4480_every_flow_with_latency(benchmark):
    once(benchmark, lambda: play(hierarchical_all_reduce(560, 8), SIZE, pod(560, 20)), 1.0)


def test_hierarchical_on_selene_every_flow(benchmark):
    # 75,040 links of the real fabric, built within the time
    run = lambda: play(hierarchical_all_reduce(560, 8), SIZE, fabric_of(load_cluster("selene")))  # noqa: E731
    played = once(benchmark, run, 0.5)
    assert played.simulated == played.events == 5_071_360


def test_flat_ring_4480_every_flow(benchmark):
    played = once(benchmark, lambda: play(ring_all_reduce(RANKS), SIZE, flat()), 2.0)
    assert played.simulated == played.events == 40_131_840


def test_flat_ring_4480_half_rate_uplinks(benchmark):
    played = once(benchmark, lambda: play(ring_all_reduce(RANKS), SIZE, flat(taper=0.5)), 5.0)
    assert played.simulated == played.events


def test_random_ring_4480_lockstep_large_shared_parts(benchmark):
    # 2:1 taper over eight uplinks: flows of a step hang together in parts of hundreds; equal steps are done once
    order = np.random.default_rng(1).permutation(RANKS)
    table = replace(ring_all_reduce(RANKS, order), lockstep=True)
    fabric = leaf_spine(nodes=RANKS, outside=25e9, leaf=32, uplinks=8, taper=0.5)
    once(benchmark, lambda: play(table, SIZE, fabric), 10.0)


@pytest.mark.parametrize("steps", [1000, 4479])
def test_random_ring_4480_every_flow(benchmark, steps):
    # full uplinks, colliding as destination mod 32 has it; every rank goes on as soon as its data are there
    table = ring_all_reduce(RANKS, np.random.default_rng(1).permutation(RANKS))
    table = replace(table, repeat=np.minimum(table.repeat, steps))
    prepared = prepare(table, flat())
    played = benchmark.pedantic(lambda: play(prepared, SIZE), rounds=1)
    benchmark.extra_info["events per second"] = played.events / benchmark.stats.stats.min
    assert played.simulated == played.events


def test_folded_hierarchical_4480_any_size(benchmark):
    prepared = prepare(hierarchical_all_reduce(560, 8), pod(560, 20), fold=True)
    played = once(benchmark, lambda: play(prepared, SIZE), 0.02)
    assert played.simulated < played.events / 200


def test_folded_hierarchical_4480_from_nothing(benchmark):
    once(benchmark, lambda: play(hierarchical_all_reduce(560, 8), SIZE, pod(560, 20), fold=True), 0.2)


def test_folded_hierarchical_32768_from_nothing(benchmark):
    once(benchmark, lambda: play(hierarchical_all_reduce(4096, 8), SIZE, pod(4096, 32), fold=True), 1.0)


def test_max_min_of_4480_random_flows(benchmark):
    rng = np.random.default_rng(1)
    links = rng.integers(0, 2000, 4480 * 4)
    routes = np.arange(4481) * 4, links
    capacities = rng.uniform(1.0, 2.0, 2000)
    rates = benchmark(lambda: max_min_rates(routes, capacities))
    assert rates.min() > 0.0
