"""Nodes, adapters and settings of collectives in words that no collected table has."""

from __future__ import annotations

import pytest
from reference.curate_collectives import collective_cells
from reference.machine_words import read_adapters

from podsim.accuracy.price_collectives import Call, read_call

ROW = {
    "id": "1", "role": "test", "source": "a log", "system": "a cluster", "gpu": "A100-SXM4-40GB", "nodes": "2",
    "gpus": "8", "collective": "all_reduce", "size_bytes": "1048576", "time_us": "99", "confirmed": "yes",
}  # fmt: skip


def read(**cells: str) -> Call:
    row = {**ROW, **cells}
    call = read_call({**row, **collective_cells(row)})
    assert isinstance(call, Call), call
    return call


@pytest.mark.parametrize(
    ("text", "count", "rate"),
    [
        ("4x HPE Slingshot 11 200 Gb/s per node", "4", "200"), ("4x Slingshot-11 NICs (200 Gb/s each)", "4", "200"),
        ("4x Slingshot NICs, 800 Gb/s per node", "4", "200"), ("4 x 25 GB/s Slingshot per node", "4", "200"),
        ("four ConnectX-6 HDR adapters per node", "4", "200"), ("8 NDR400 HCAs", "8", "400"),
        ("400 Gb/s NDR ×8", "8", "400"), ("8×400G NDR", "8", "400"), ("NDR 400G x8", "8", "400"),  # noqa: RUF001
        ("3.2 Tb/s per node EFA", "32", "100"), ("EFA 400 Gbps", "4", "100"), ("8x ConnectX-7", "8", "400"),
        ("8 rails of 200 Gb/s RoCE", "8", "200"), ("1x HDR100", "1", "100"), ("4x CX-7 NDR200 per node", "4", "200"),
        ("8x 400 Gb/s InfiniBand (3.2 Tb/s per node)", "8", "400"), ("8x CX-7 400 GbE RoCEv2, PCIe Gen5 x16", "8", "400"),
        ("InfiniBand NDR, 1 NIC per GPU", "8", "400"), ("NVLink 900 GB/s, 8x NDR", "8", "400"),
        ("1600 Gb/s per node", "8", "200"), ("8x 50 GB/s InfiniBand", "8", "400"),
    ],
)  # fmt: skip
def test_adapters(text: str, count: str, rate: str) -> None:
    found = read_adapters(text, 8)
    assert (found["network.nics"], found["network.bandwidth"]) == (count, f"{rate} Gb/s")


@pytest.mark.parametrize(
    ("cells", "each", "adapters"),
    [
        ({"nics": "4x HPE Slingshot 11 200 Gb/s per node"}, 4, 4),  # a node of four, with its own adapters
        ({"nics": "2x HDR200 IB", "nodes": "8", "gpus": "32"}, 4, 2),
        ({"nics": "8x HDR200 IB"}, 8, 8),  # half of a server of eight
        ({"nics": "4x HDR200 IB", "gpus": "16"}, 8, 4),
        ({"nics": "4x Slingshot 11", "gpu": "GH200 120GB"}, 4, 4),
    ],
)
def test_a_node_has_the_gpus_and_adapters_that_ran(cells: dict[str, str], each: int, adapters: int) -> None:
    cluster = read(**cells).cluster
    assert (cluster.gpus_per_node, cluster.nics) == (each, adapters)


@pytest.mark.parametrize(
    ("nodes", "gpus", "racks", "members"),
    [
        ("18", "72", 1, 72),
        ("16", "64", 1, 64),
        ("36", "144", 2, 72),
        ("32", "128", 2, 64),
        ("360", "1440", 20, 72),
    ],
)
def test_trays_are_racks(nodes: str, gpus: str, racks: int, members: int) -> None:
    rack = {"system": "GB200 NVL72", "gpu": "GB200", "nics": "4x 400 Gb/s per tray", "notes": "IMEX is up"}
    call = read(**rack, nodes=nodes, gpus=gpus)
    assert (call.nodes, -(-call.gpus // call.nodes), call.cluster.nics, call.trays) == (
        racks,
        members,
        72,
        None,
    )
    apart = read(**{**rack, "notes": ""}, nodes=nodes, gpus=gpus).trays
    assert apart is not None
    assert (apart.nodes, apart.gpus_per_node, apart.nics) == (int(nodes), 4, 4)


@pytest.mark.parametrize(
    ("cells", "network"),
    [
        ({"system": "GCP a3-megagpu-8g", "gpu": "H100", "nics": "8x 200 Gb/s"}, "tcpxo"),
        ({"system": "GCP a3-highgpu-8g", "gpu": "H100", "nics": "4x 200 Gb/s"}, "tcpx"),
        ({"system": "AWS p5.48xlarge", "gpu": "H100", "nics": "not stated"}, "efa-v2"),
        ({"system": "OCI BM.GPU.H100.8", "gpu": "H100", "nics": "16x 200 Gb/s"}, "roce"),
        ({"system": "Azure ND H100 v5", "gpu": "H100", "nics": "not stated"}, "infiniband"),
    ],
)
def test_machines_of_clouds_have_their_networks(cells: dict[str, str], network: str) -> None:
    call = read(**cells, gpus="16")
    assert call.settings.assumed(call.cluster).network == network


def test_collnet_in_the_environment_ran_and_a_v100_server_of_a_cloud_has_no_gpudirect() -> None:
    assert collective_cells({**ROW, "settings": "NCCL_ALGO=CollNet;NCCL_COLLNET_ENABLE=1"})["sharp"] == "yes"
    cloud = {"system": "Azure ND40rs_v2", "gpu": "V100-SXM2-32GB", "gpus": "16", "nics": "1x EDR IB"}
    assert read(**cloud).settings.gpudirect is False


@pytest.mark.parametrize(
    ("text", "launch"),
    [
        ("torchrun --nproc-per-node=8", "process"), ("mpirun -np 16, -g 1", "process"), ("srun", "process"),
        ("mpirun, -g 8", "single"), ("all_reduce_perf -t 8 -g 1", "thread"), ("", ""),
    ],
)  # fmt: skip
def test_launches(text: str, launch: str) -> None:
    assert collective_cells({**ROW, "launch": text})["launch"] == launch


@pytest.mark.parametrize(
    ("notes", "sharp"), [("SHARP enabled", "permitted"), ("no SHARP", ""), ("run with SHARP", "permitted")]
)
def test_a_remark_on_sharp_permits_it(notes: str, sharp: str) -> None:
    assert collective_cells({**ROW, "notes": notes})["sharp"] == sharp
