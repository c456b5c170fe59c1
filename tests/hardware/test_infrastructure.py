"""Networks, racks and cables around scalable units, by the catalog's rules, against published counts."""

from __future__ import annotations

from itertools import pairwise

import pytest

from podsim import fabric
from podsim.hardware.cluster import load_cluster
from podsim.hardware.fabrics.infrastructure import Infrastructure, infrastructure_of, infrastructures


def machine(name: str) -> Infrastructure:
    size = infrastructure_of(load_cluster(name))
    assert size is not None
    return size


def test_selene_is_derived_network_by_network() -> None:
    selene = machine("selene")
    assert [network.name for network in selene.networks] == ["compute", "storage", "in-band", "out-of-band"]
    assert selene.networks[0].switches == 656
    assert selene.networks[1].ends["nodes"] == 560 * 2  # one usable port of each of two cards
    assert selene.infiniband_switches == pytest.approx(850, rel=0.06)  # the slides; the rest stays open
    assert selene.racks["nodes"] == 140
    assert selene.rack_power == 4 * 6500


def test_the_first_pod_is_near_the_press() -> None:
    pod = machine("superpod-a100-40gb:7su")
    assert pod.networks[1].ends["nodes"] == 140  # one storage card a node
    assert pod.infiniband_switches == pytest.approx(170, rel=0.04)
    optical = sum(network.length for network in pod.networks if network.kind == "infiniband")
    assert optical == pytest.approx(15e3, rel=0.25)


def test_sizes_run_from_one_unit_to_all() -> None:
    sizes = infrastructures(load_cluster("superpod-a100:7su"))
    assert [size.units for size in sizes] == [*range(1, 8)]
    assert [size.nodes for size in sizes] == [*range(20, 141, 20)]
    for size, larger in pairwise(sizes):
        assert size.switches < larger.switches
        assert size.length < larger.length


@pytest.mark.parametrize("name", ["superpod-h100:4su", "superpod-b300:2su", "gb200-nvl72:8"])
def test_every_end_has_a_port(name: str) -> None:
    for network in machine(name).networks:
        assert network.cables[0] == sum(network.ends.values())
        assert network.note


@pytest.mark.parametrize("name", ["superpod-a100:2su", "superpod-a100:7su", "selene"])
def test_ports_for_management_follow_the_switches(name: str) -> None:
    """Of seven units and of Selene there are core switches, too."""
    pod = machine(name)
    *before, last = pod.networks
    assert last.ends["switches"] == sum(network.switches for network in before)


def test_machines_without_units_have_none() -> None:
    assert infrastructures(load_cluster("aws-p5:4")) == ()
    assert fabric("aws-p5:4").sizes == ()


@pytest.mark.parametrize(("name", "shape"), [("tpu-v5p", (16, 20, 28)), ("tpu-v4:4x4x8", (4, 4, 8))])
def test_pods_of_chips_are_drawn(name: str, shape: tuple[int, ...]) -> None:
    assert fabric(name).torus == shape
