"""The link between sockets: one number in the data sheet and in the fabric; NCCL's own count stays where it ranks."""

from __future__ import annotations

import pytest

from podsim.hardware.catalog import names
from podsim.hardware.cluster import load_cluster
from podsim.hardware.fabrics import fabric_of
from podsim.hardware.sheet import sheet
from podsim.network.nccl import wires_of

TWO_SOCKETS = [
    name for name in names("system")
    if (system := load_cluster(name).system).cpus == 2 and system.trays == 1 and system.cpu is not None
]  # fmt: skip


@pytest.mark.parametrize("name", TWO_SOCKETS)
def test_the_sheet_and_the_fabric_have_one_number(name: str) -> None:
    cluster = load_cluster(name)
    shown = [
        row.value
        for section in sheet(name).sections
        for row in section.rows
        if "between sockets" in row.label
    ]
    fabric = fabric_of(cluster)
    links = {float(fabric.capacity[link]) for link in fabric.links_of_kind("socket")}
    assert links == set(shown) == {cluster.system.cpu.socket_rate}


def test_an_epyc_7742_has_four_links_of_sixteen_lanes() -> None:
    """By hand: 4 links x 16 lanes x 16 GT/s / 8 bits; NCCL's graph search counts on 16 GB/s."""
    server = load_cluster("a100-pcie-server")
    assert server.system.cpu.socket_rate == 4 * 16 * 16e9 / 8
    assert wires_of(server).socket == 16e9
