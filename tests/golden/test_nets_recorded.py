"""What NCCL is believed to pick, what it costs, and tables of collectives played on links: as they were recorded."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded_values import check, sums

from podsim.errors import PodsimError
from podsim.hardware.cluster import load_cluster
from podsim.hardware.fabrics import fabric_of
from podsim.network.aggregation import aggregation_links, aggregation_table, aggregation_tree
from podsim.network.collective_settings import NETWORKS
from podsim.network.collectives.algorithms import ALGORITHMS
from podsim.network.collectives.cost import Link, cost, lower_bound, summary
from podsim.network.collectives.table import Table
from podsim.network.nccl import COLLECTIVES, wires_of
from podsim.network.nccl_group import Group, Wires, group_layout, layout_numbers
from podsim.network.nccl_paths import table, wire_rates
from podsim.network.nccl_table import nccl_fabric, nccl_table
from podsim.network.nccl_tuner import GENERATIONS, beliefs, chosen_until
from podsim.network.play import play
from podsim.network.play_links import single_switch
from podsim.network.switch_trees import switch_tree_table, switch_trees
from podsim.network.torus_cost import torus_candidate

FILE = Path(__file__).with_name("nets_recorded.json.gz")
GROUPS = (
    (2, 2, 1.0, 1),
    (5, 5, 1.0, 1),
    (8, 8, 1.0, 1),
    (4, 2, 4.0, 4),
    (16, 8, 1.0, 1),
    (3, 1, 8.0, 1),
    (48, 8, 1.0, 1),
)
"""ranks, of them on a node, groups that share its adapters, and the GPUs from one member to the next"""
MACHINES = tuple(
    product(("volta", "ampere", "hopper", "blackwell"), ("nvswitch", "nvlink", "pcie", "pcie-root"))
)
LIMITS: tuple[dict[str, Any], ...] = (
    {}, {}, {"algorithms": ("ring", "tree")}, {"protocols": ("ll", "simple")},
    {"algorithms": ("tree",), "protocols": ("ll128",)},
    {"sharp": True}, {"socket": 9e9, "slot": 20e9},
)  # fmt: skip


def wires(architecture: str, topology: str, number: int) -> Wires:
    """Links that differ in all that laws ask of them."""
    fabric = NETWORKS[number % len(NETWORKS)]
    return Wires(
        architecture=architecture, topology=topology, fabric=fabric, vendor=("intel", "amd")[number % 2], gpus=8,
        nvlink=(300e9, 20e9)["pcie" in topology], nvlink_latency=0.7e-6, nics=(8, 4, 1, 2)[number % 4],
        network=(25e9, 50e9, 12.5e9)[number % 3], network_latency=(2.7e-6, 8e-6)[number % 2],
        **LIMITS[number % len(LIMITS)],
    )  # fmt: skip


def placed(ends: Wires, number: int) -> Group:
    ranks, members, sharing, stride = GROUPS[number]
    layout = int(layout_numbers(ends, members, stride, None))
    return Group(ranks, members, sharing, *group_layout(layout))


@pytest.mark.parametrize("release", GENERATIONS)
@pytest.mark.parametrize(("architecture", "topology"), MACHINES)
def test_what_nccl_believes(architecture: str, topology: str, release: str) -> None:
    told: dict[Any, Any] = {}
    for number, (group, collective) in enumerate(
        product(range(len(GROUPS)), ("all_reduce", "all_gather", "reduce"))
    ):
        ends = wires(architecture, topology, number + number // 7)
        where = placed(ends, group)
        found = beliefs(ends, where, collective, release, 12)
        until = chosen_until(found, ends, where, collective, release, 12)
        names = " ".join(f"{each.algorithm}-{each.protocol}" for each in found)
        told[number] = [names, sums([each[2:] for each in found]), sums(until)]
    check(FILE, f"beliefs {architecture} {topology} {release}", told)


@pytest.mark.parametrize("launch", ["process", "thread", "single"])
@pytest.mark.parametrize(("architecture", "topology"), MACHINES)
def test_what_nccl_costs(architecture: str, topology: str, launch: str) -> None:
    told: dict[Any, Any] = {}
    for number, (group, collective) in enumerate(product(range(len(GROUPS)), COLLECTIVES)):
        ends = wires(architecture, topology, number + number // 7)
        release = GENERATIONS[number % len(GENERATIONS)]
        found = table(ends, collective, placed(ends, group), launch, release)
        names = " ".join(f"{each.algorithm}-{each.protocol}" for each in found)
        told[number] = [names, sums([each[2:] for each in found])]
        picked = found[number % len(found)]
        if picked.algorithm in ("ring", "tree", "nvls", "pairs"):
            told[f"{number} wires"] = sums(
                wire_rates(ends, collective, placed(ends, group), picked.algorithm, picked.protocol)
            )
    check(FILE, f"costs {architecture} {topology} {launch}", told)


@pytest.mark.parametrize(
    "collective", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"]
)
@pytest.mark.parametrize("name", ["tpu-v2-pod", "tpu-v3-pod", "tpu-v4-pod", "tpu-v5p-pod", "tpu-v5e-pod"])
def test_what_a_torus_costs(name: str, collective: str) -> None:
    told = {}
    ends = wires_of(load_cluster(name))
    for ranks, stride in product((1, 2, 4, 8, 12, 16, 32, 64, 128, 256, 512), (1, 2, 4, 16)):
        for members in (ranks, ranks // 2):
            if members and members * stride <= ends.gpus:
                found = torus_candidate(ends, collective, Group(ranks, members, 1.0, 0, stride))
                told[f"{ranks} {members} {stride}"] = sums(found[2:])
    check(FILE, f"torus {name} {collective}", told)


COLUMNS = (
    "step", "source", "destination", "chunk", "count", "reduce", "own", "channel", "repeat", "turn", "wheel", "home",
    "goal", "sizes",
)  # fmt: skip


def of_table(built: Table) -> dict[str, Any]:
    """Sums of a table's columns, of its figures, and of what it takes on links of several speeds."""
    told = {name: sums(getattr(built, name)) for name in COLUMNS}
    told["figures"] = sums(list(vars(summary(built, 3e6)).values()))
    told["cost"] = [cost(built, 3e6, 2e9, 1e-6)] if not built.switches else []
    links = single_switch(built.nodes, [1e9 * (1 + rank % 3) for rank in range(built.nodes)], 2e-6)
    for fold in (False, True):
        played = play(built, 3e6, links, fold=fold)
        told[f"played {fold}"] = [sums(each) for each in vars(played).values()]
    return told


@pytest.mark.parametrize("ranks", [2, 3, 4, 6, 8, 12])
@pytest.mark.parametrize("name", [f"{each.name}, {each.collective}" for each in ALGORITHMS])
def test_tables_of_collectives(name: str, ranks: int) -> None:
    build = next(each.build for each in ALGORITHMS if f"{each.name}, {each.collective}" == name)
    try:
        built = build(ranks)
    except PodsimError as problem:
        check(FILE, f"table {name} {ranks}", [str(problem)])
        return
    check(FILE, f"table {name} {ranks}", of_table(built))


@pytest.mark.parametrize(("nodes", "local"), [(1, 4), (2, 2), (3, 2), (2, 1), (5, 1)])
@pytest.mark.parametrize("choice", [
    "ring all-reduce", "ring all-gather", "ring reduce-scatter", "ring broadcast", "ring reduce", "nvls all-reduce",
    "pairs all-to-all", "pairs send-recv", "nvlstree all-reduce",
])  # fmt: skip
def test_tables_of_nccl(choice: str, nodes: int, local: int) -> None:
    algorithm, _, collective = choice.partition(" ")
    try:
        built = nccl_table(collective, algorithm, nodes=nodes, local=local)
    except PodsimError as problem:
        check(FILE, f"nccl {choice} {nodes} {local}", [str(problem)])
        return
    check(FILE, f"nccl {choice} {nodes} {local}", of_table(built))


@pytest.mark.parametrize("in_network", [False, True])
@pytest.mark.parametrize("collective", ["all-reduce", "all-gather", "broadcast", "all-to-all", "send-recv"])
def test_least_times(collective: str, in_network: bool) -> None:
    link = Link(name="link", bandwidth=3e9, latency=2e-6)
    told = [
        lower_bound(collective, ranks, size, link, fan=fan, in_network=in_network)
        for ranks, size, fan in product(
            (1, 2, 3, 4, 8, 9, 16, 17, 27, 64, 125), (0.0, 1.0, 1e6), (1, 2, 3, 4, 7)
        )
    ]
    check(FILE, f"least {collective} {in_network}", sums(told) + sums(np.log1p(told)))


@pytest.mark.parametrize(("name", "changes"), [
    ("dgx-a100-80gb:3", {"nics": 2}), ("dgx-h100:5", {"nics": 4}), ("superpod-a100:2su", {}),
    ("dgx-a100-80gb:21", {"nics": 1}),
])  # fmt: skip
def test_trees_in_switches(name: str, changes: dict[str, Any]) -> None:
    cluster = load_cluster(name, changes)
    fabric = fabric_of(cluster)
    tree = aggregation_tree(fabric, cluster)
    links = aggregation_links(tree, 2e11, 2e10)
    built = aggregation_table(tree)
    told: dict[str, Any] = {
        "capacity": sums(links.capacity),
        "latency": sums(links.latency),
        "switches": tree.switches,
    }
    told |= {column: sums(getattr(built, column)) for column in COLUMNS}
    told["routes"] = [sums(each) for each in links.routes(built.source[:4000], built.destination[:4000])]
    check(FILE, f"aggregation {name}", told)


@pytest.mark.parametrize("name", ["dgx-h100:2", "dgx-h100:5", "dgx-b200:3"])
def test_trees_of_nvswitches(name: str) -> None:
    cluster = load_cluster(name)
    built, links = switch_trees(cluster, 2e11, 2e10)
    told: dict[str, Any] = {"capacity": sums(links.capacity), "latency": sums(links.latency)}
    small = switch_tree_table(cluster.nodes, 2)
    for each in (built, small):
        told[f"{each.ranks}"] = [sums(getattr(each, column)) for column in COLUMNS]
    told["routes"] = [sums(each) for each in links.routes(built.source, built.destination)]
    for algorithm, protocol in (("ring", "LL"), ("ring", "LL128"), ("tree", "Simple"), ("nvls", "Simple")):
        fabric = nccl_fabric(
            fabric_of(cluster),
            cluster,
            "all_reduce",
            algorithm,
            protocol,
            ranks=cluster.gpus,
            ranks_per_node=8,
        )
        told[f"{algorithm} {protocol}"] = sums(fabric.capacity)
    check(FILE, f"nvswitches {name}", told)
