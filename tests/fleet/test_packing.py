"""Packing: fragmentation by hand, theorems of every packer, and Alibaba's openb against the published allocations."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from podsim.errors import PodsimError, TableError
from podsim.fleet.openb import read_nodes, read_requests
from podsim.fleet.packing import PACKERS, Nodes, Requests, draw_requests, pack
from podsim.fleet.traces import DATA

PUBLISHED = {
    row["policy"]: float(row["gpu_alloc_pct_at_130_arrived"]) / 100
    for row in csv.DictReader(
        (Path(__file__).parent / "data" / "fgd_published_alloc.csv").read_text("utf-8").splitlines()
    )
    if row["workload"] == "openb_pod_list_default"
}


def nodes_of(gpus, cpu=64_000.0):
    n = len(gpus)
    return Nodes(
        cpu=np.full(n, cpu),
        memory=np.full(n, 1e6),
        gpus=np.array(gpus),
        model=np.zeros(n, np.int64),
        models=("A",),
    )


def requests_of(rows, count=None):
    table = np.array(rows, np.float64)
    return Requests(
        cpu=table[:, 0], memory=np.ones(len(rows)), gpus=table[:, 1].astype(np.int64), share=table[:, 2].astype(np.int64),
        allowed=np.ones((len(rows), 1), np.bool_), count=np.array(count or [1] * len(rows)),
    )  # fmt: skip


def test_fgd_keeps_whole_gpus_together():
    # a half, then whole GPUs: FGD puts both halves on one GPU, where no whole request could have gone
    requests = requests_of([(1000, 1, 500), (1000, 1, 1000)])
    packed = pack(requests, nodes_of([1, 1]), [0, 0, 1], "fgd", rng=np.random.default_rng(0))
    assert packed.turned_away == 0
    assert packed.allocated[-1] == 1.0
    assert packed.fragmented == 0.0


def test_fragmentation_by_hand():
    # after a request of 0.6 of a GPU, 0.4 of it is of no use to it; the idle GPU is of use
    requests = requests_of([(1000, 1, 600)])
    packed = pack(requests, nodes_of([2]), [0], "best-fit", rng=np.random.default_rng(0))
    assert packed.fragmented == pytest.approx(0.2)
    # without cores nothing that is free is of use
    poor = pack(requests, nodes_of([2], cpu=1000.0), [0], "best-fit", rng=np.random.default_rng(0))
    assert poor.fragmented == pytest.approx(0.7)


@pytest.mark.parametrize("packer", PACKERS)
def test_theorems(packer):
    rng = np.random.default_rng(7)
    requests = requests_of(
        [(4000, 0, 0), (2000, 1, 250), (3000, 1, 600), (8000, 1, 1000), (16_000, 4, 1000), (9000, 2, 1000)]
    )
    nodes = nodes_of([4, 8, 2, 1, 8])
    arrivals = draw_requests(requests, 23, 1.5, rng)
    assert requests.demand[arrivals].sum() == pytest.approx(1.5 * 23_000, rel=0.2)
    one = pack(requests, nodes, arrivals, packer, rng=np.random.default_rng(1))
    two = pack(requests, nodes, arrivals, packer, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(one.allocated, two.allocated)
    assert np.all(np.diff(one.allocated) >= 0)
    assert np.all(one.allocated <= np.minimum(one.arrived, 1.0) + 1e-12)
    assert 0 <= one.fragmented <= 1 - one.allocated[-1] + 1e-12
    few = pack(requests, nodes, arrivals[:3], packer, rng=np.random.default_rng(1))
    assert few.turned_away == 0


def test_models_of_gpu_are_kept(tmp_path):
    (tmp_path / "n.csv").write_text("cpu_milli,memory_mib,gpu,model\n9000,9000,1,A\n9000,9000,1,B\n", "utf-8")
    (tmp_path / "p.csv").write_text(
        "cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n1,1,1,1000,B\n1,1,1,1000,A|B\n"
    )
    nodes = read_nodes(tmp_path / "n.csv")
    requests = read_requests(tmp_path / "p.csv", nodes.models)
    only = int(np.flatnonzero(requests.allowed.sum(axis=1) == 1)[0])
    packed = pack(requests, nodes, [only, only], "fgd", rng=np.random.default_rng(0))
    assert packed.turned_away == 1


@pytest.mark.parametrize("packer", ["random", "fgd"])
def test_openb_as_published(packer):
    nodes = read_nodes(DATA / "openb_gpu_nodes.csv.gz")
    requests = read_requests(DATA / "openb_pods.csv.gz", nodes.models)
    assert (len(nodes.gpus), nodes.gpus.sum(), requests.count.sum()) == (1213, 6212, 8152)
    rng = np.random.default_rng(0)
    packed = pack(requests, nodes, draw_requests(requests, 6212.0, 1.3, rng), packer, rng=rng)
    assert packed.at(1.3) == pytest.approx(PUBLISHED[{"random": "Random", "fgd": "FGD"}[packer]], abs=0.02)


def test_bad_input(tmp_path):
    requests = requests_of([(1, 1, 500)])
    with pytest.raises(PodsimError, match="did you mean fgd"):
        pack(requests, nodes_of([1]), [0], "fdg", rng=np.random.default_rng(0))
    with pytest.raises(PodsimError, match="must have a GPU"):
        nodes_of([0])
    with pytest.raises(PodsimError, match="no request of the trace needs"):
        draw_requests(requests_of([(1, 0, 0)]), 1, 1.0, np.random.default_rng(0))
    (tmp_path / "p.csv").write_text("cpu_milli,memory_mib,num_gpu,gpu_milli\n1,1,2,500\n", "utf-8")
    with pytest.raises(TableError, match="500 thousandths of 2 GPUs"):
        read_requests(tmp_path / "p.csv", ("A",))
    (tmp_path / "n.csv").write_text("cpu_milli,gpu\n1,1\n", "utf-8")
    with pytest.raises(TableError, match="no column memory_mib, model"):
        read_nodes(tmp_path / "n.csv")
