"""Settings of collectives that do not go together are refused, with what would work."""

from __future__ import annotations

import pytest

import podsim
from podsim.errors import PodsimError


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
