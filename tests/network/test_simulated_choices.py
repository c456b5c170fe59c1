"""What NCCL would run, by its law and simulated: on an idle fabric they agree, at every size."""

from __future__ import annotations

import pytest

import podsim

AGREES = 0.02
"""share within which both agree"""


@pytest.mark.parametrize(
    ("on", "collective", "options"),
    [
        ("dgx-a100:2", "all-reduce", {"sharp": True}), ("dgx-h100:4", "all-reduce", {"sharp": True}),
        ("dgx-a100:24", "all-reduce", {"sharp": True}), ("dgx-a100:2", "all-reduce", {}),
        ("dgx-h100:4", "all-reduce", {}), ("dgx-h100", "all-reduce", {}), ("dgx-a100:4", "all-gather", {}),
        ("dgx-b200:2", "reduce-scatter", {}), ("dgx-a100:4", "all-to-all", {}), ("dgx-a100:2", "send-recv", {}),
    ],
)  # fmt: skip
def test_law_and_simulation_agree_on_an_idle_fabric(on, collective, options):
    law, simulated = (
        podsim.collective(collective, on=on, sizes="96K:3G:32", simulate=simulate, **options).rows
        for simulate in (False, True)
    )
    assert [row.algorithm for row in law] == [row.algorithm for row in simulated]
    assert [row.seconds for row in simulated] == pytest.approx([row.seconds for row in law], rel=AGREES)


def test_each_level_of_switches_is_passed_up_and_down():
    """By hand: 20 nodes fill a leaf, more need a spine, 130 ns up and 130 ns down; nothing else grows with nodes."""
    one, same, two = (
        podsim.collective("all-reduce", on=f"dgx-a100:{nodes}", sizes="1G", sharp=True).rows[0].seconds
        for nodes in (2, 20, 24)
    )
    assert one == same
    assert two - one == pytest.approx(2 * 130e-9, rel=1e-6)


def test_a_slow_adapter_slows_the_simulated_reduction():
    whole = podsim.load_cluster("dgx-a100:4")
    asked = {"sizes": "1G", "sharp": True, "simulate": True}
    before, after = (
        podsim.collective("all-reduce", on=cluster, **asked).rows[0].seconds
        for cluster in (whole, whole.degraded("node0/nic2", share=0.5))
    )
    assert 1.5 * before < after <= 2.05 * before
