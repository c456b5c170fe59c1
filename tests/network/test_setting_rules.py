"""Settings of collectives that do not go together are refused, with what would work."""

from __future__ import annotations

import pytest

import podsim
from podsim.errors import PodsimError
from podsim.hardware.cluster import load_cluster
from podsim.network.collective_settings import CollectiveSettings, setting_words
from podsim.network.setting_rules import Run, check_settings


@pytest.mark.parametrize(
    ("on", "options", "message"),
    [
        ("dgx-a100:2", {"proto": "ll128", "network": "sockets"}, "simple or ll works"),
        ("dgx-a100:2", {"gdr": True, "network": "sockets"}, "--network roce"),
        ("dgx-a100:2", {"sharp": True, "network": "roce"}, "only InfiniBand's Quantum switches"),
        ("dgx-a100:1", {"sharp": True}, "2 nodes or more"),
        ("dgx-a100:2", {"algo": "nvls"}, "NVSwitches of Hopper"),
        ("dgx-h100:1", {"algo": "nvlstree"}, "--algo nvls runs inside"),
        ("dgx-a100:2", {"algo": "in-network", "sharp": False}, "give --sharp"),
        ("dgx-a100:2", {"algo": "in-network", "proto": "ll"}, "leave --proto out"),
        ("dgx-a100:2", {"algo": "hierarchical", "launch": "thread"}, "is a table"),
        ("dgx-a100:2", {"network": "token-ring"}, "network 'token-ring'"),
        ("dgx-a100:2", {"nics": "many"}, "4x100Gb/s"),
    ],
)
def test_wrong_settings(on: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(PodsimError, match=message):
        podsim.collective("all-reduce", on=on, sizes="1M", **options)


@pytest.mark.parametrize(
    ("nodes", "collective", "settings"),
    [
        (1, "all_reduce", {"protocol": "ll128", "network": "sockets"}),
        (2, "all_reduce", {"protocol": "ll128", "network": "infiniband"}),
        (2, "all_reduce", {"protocol": "ll,ll128", "network": "sockets"}),
        (2, "all_reduce", {"sharp": True, "network": "infiniband"}),
        (2, "all_reduce", {"network": "roce", "gpudirect": True}),
        (2, "all_reduce", {"algorithm": "nvlstree", "release": "2.18"}),
        (1, "all_reduce", {"algorithm": "nvls", "release": "2.18"}),
        (2, "all_gather", {"algorithm": "ring,tree"}),
        (2, "all_gather", {"algorithm": "pat", "release": "2.23"}),
    ],
    ids=str,
)
def test_what_goes_together(nodes: int, collective: str, settings: dict[str, object]) -> None:
    size = {"gpus_per_node": "1"} if settings.get("algorithm") == "pat" else None
    cluster = load_cluster(f"dgx-h100:{nodes}", size)
    given = CollectiveSettings(**settings)  # type: ignore[arg-type]
    check_settings(Run(collective=collective, nodes=nodes, cluster=cluster, settings=given))


@pytest.mark.parametrize(
    ("nodes", "collective", "settings", "message"),
    [
        (
            2,
            "all_reduce",
            {"protocol": "ll128", "network": "roce", "gpudirect": False},
            "LL128 needs adapters",
        ),
        (2, "all_gather", {"algorithm": "tree"}, "all-reduces alone"),
        (2, "all_gather", {"algorithm": "pat", "release": "2.23"}, "one GPU a node"),
        (1, "all_reduce", {"algorithm": "nvls", "release": "2.17"}, "NCCL 2.18 or later"),
    ],
    ids=str,
)
def test_what_does_not(nodes: int, collective: str, settings: dict[str, object], message: str) -> None:
    given = CollectiveSettings(**settings)  # type: ignore[arg-type]
    with pytest.raises(PodsimError, match=message):
        check_settings(
            Run(collective=collective, nodes=nodes, cluster=load_cluster("dgx-h100:2"), settings=given)
        )


def test_rates_of_adapters() -> None:
    with pytest.raises(PodsimError, match="a rate above 0"):
        CollectiveSettings(nic_bandwidth=0.0)
    words = setting_words(CollectiveSettings(nic_bandwidth=25e9, nics=4, sharp=False))
    assert words == {"nic_bandwidth": "200 Gb/s", "nics": "4", "sharp": "no"}


def test_nobody_reduces_in_switches_unless_it_is_said() -> None:
    settings = CollectiveSettings().assumed(load_cluster("dgx-a100:2"))
    assert (settings.sharp, settings.tuned) == (False, False)
