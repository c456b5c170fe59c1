"""The ways of network traffic through a server, against hand arithmetic and published runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podsim.errors import ClusterError
from podsim.hardware.catalog import names
from podsim.hardware.cluster import load_cluster
from podsim.hardware.fabrics import node_of
from podsim.hardware.fabrics.host_ways import host_way
from podsim.hardware.machine_input import given_cluster
from podsim.hardware.sheet import sheet

SERVERS = [
    name
    for name in names("system")
    if (system := load_cluster(name).system).pcie and system.torus is None and system.gpu.pcie_lanes
]


@pytest.mark.parametrize("way", ["no-gpudirect", "wrong-numa"])
def test_two_gpus_and_two_adapters_share_a_switch(way: str) -> None:
    """By hand: 2 GPUs send and 2 adapters receive over the same way up of a switch: 24.4 GB/s of copies / 4."""
    found = host_way(load_cluster("dgx-a100:2"), way)
    assert found.rate == pytest.approx(24.4e9 / 4)
    assert found.limit == "pcie0>cpu0"


def test_only_the_wrong_adapter_takes_the_link_between_sockets() -> None:
    cluster = load_cluster("dgx-a100:2")
    cables = node_of(cluster).cables

    def kinds(way: str) -> list[str]:
        return [cables[link // 2].kind for link in host_way(cluster, way).out[0]]

    assert kinds("no-gpudirect") == ["pcie"] * 4
    assert kinds("wrong-numa") == ["pcie", "pcie", "socket", "pcie", "pcie"]


def test_old_servers_reach_the_pass_mark_without_gpudirect() -> None:
    """Published: 78 of 100 Gb/s of one adapter on V100 servers (azurehpc-health-checks, NDv2); within 5 %."""
    cluster = given_cluster("dgx-1-v100:2", {"network.nics": "1"})
    assert host_way(cluster, "no-gpudirect").rate * 8 == pytest.approx(78e9, rel=0.05)


def test_peer_traffic_by_the_root_port_is_bounded() -> None:
    """Published: 9.84 GB/s of one adapter whose switch sends peer traffic up (nccl-tests 112); 25 % off at most."""
    cluster = given_cluster("dgx-a100:2", {"network.nics": "1", "gpus_per_node": "1"})
    rate = host_way(cluster, "no-gpudirect").rate
    assert 9.84e9 <= rate <= 9.84e9 / 0.75


def test_slow_memory_is_passed_four_times_for_each_adapter() -> None:
    """By hand: 2 processors of 64 GB/s carry 8 adapters' bytes four times: 128 / 4 / 8 = 4 GB/s each."""
    cluster = load_cluster("dgx-a100:2")
    assert cluster.system.cpu is not None
    slow = replace(cluster.system, cpu=replace(cluster.system.cpu, memory_bandwidth=64e9))
    found = host_way(replace(cluster, system=slow), "no-gpudirect")
    assert (found.rate, found.limit) == (4e9, "memory")
    assert host_way(replace(cluster, system=slow), "wrong-numa").limit == "pcie0>cpu0"


def test_the_wrong_adapter_is_half_the_server_away() -> None:
    """Eight adapters, two to a switch and four to a socket: GPU g takes adapter g + 4, or g - 4."""
    cluster = load_cluster("dgx-a100:2")
    node = node_of(cluster)
    ends = [node.parts[node.link_ends[out[-1]][1]].name for out in host_way(cluster, "wrong-numa").out]
    assert ends == [f"nic{(gpu + 4) % 8}" for gpu in range(8)]


def test_a_server_whose_adapters_stand_at_one_socket_has_no_wrong_one() -> None:
    with pytest.raises(ClusterError, match="no adapter stands at another socket"):
        host_way(given_cluster("dgx-1-v100:2", {"network.nics": "1"}), "wrong-numa")


@pytest.mark.parametrize("name", SERVERS)
def test_the_slot_of_a_gpu_is_one_number_in_the_sheet_and_the_graph(name: str) -> None:
    cluster = load_cluster(name)
    node = node_of(cluster)
    slots = {cable.bandwidth for cable in node.cables if cable.kind == "pcie" and cable.one.startswith("gpu")}
    assert slots == {sheet(name).row("PCI Express per GPU, one direction").value}
    stored = sum(
        cable.bandwidth for cable in node.cables if cable.one.startswith("storage") and "card" in cable.other
    )
    if stored:
        assert stored == sheet(name).row("storage network, one direction").value
        assert stored <= sheet(name).row("storage adapters, one direction").value


def test_four_passes_over_the_memory_of_both_processors_bound_what_goes_by_it() -> None:
    """Two processors of 40 GB/s each, and eight adapters whose bytes pass memory four times: 80 / 4 / 8 GB/s."""
    cluster = load_cluster("dgx-a100:2")
    assert cluster.system.cpu is not None
    cpu = replace(cluster.system.cpu, memory_bandwidth=40e9)
    slow = replace(cluster, system=replace(cluster.system, cpu=cpu))
    way = host_way(slow, "no-gpudirect")
    assert (way.rate, way.limit) == (pytest.approx(2.5e9), "memory")
    assert host_way(slow, "wrong-numa").limit != "memory"  # which passes none
