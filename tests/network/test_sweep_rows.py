"""Sweeps of collectives: tables, NCCL's choices, and the simulation of both."""

from __future__ import annotations

import pytest

import podsim


@pytest.mark.parametrize(
    ("on", "algo", "closeness"),
    [
        ("dgx-h100:2", "nvlstree", 0.5),
        ("dgx-a100:2", "ring", 0.5),
        ("v4-4x4x4", "torus", 0.1),
    ],
)
def test_a_simulation_is_near_its_law(on: str, algo: str, closeness: float) -> None:
    law, played = (
        podsim.collective("all-reduce", on=on, sizes="64M:256M:4", algo=algo, simulate=simulate).rows
        for simulate in (False, True)
    )
    for one, other in zip(law, played, strict=True):
        assert other.seconds == pytest.approx(one.seconds, rel=closeness)
        assert other.seconds != one.seconds
        assert one.count == one.size // 4


def test_a_table_costs_what_its_links_carry() -> None:
    (row,) = podsim.collective("all-gather", on="dgx-a100:1", sizes="800M", algo="ring").rows
    assert row.count == row.size / 4 / 8  # floats of each rank
    assert row.bus_bandwidth == pytest.approx(row.size * 7 / 8 / row.seconds)
    assert row.algorithm_bandwidth == pytest.approx(row.size / row.seconds)


def test_the_rings_of_a_twisted_torus_are_those_of_the_plain_one() -> None:
    plain, twisted = (
        podsim.collective("all-gather", on=name, sizes="64M", simulate=True).rows[0].seconds
        for name in ("v4-4x4x8", "v4-4x4x8-twisted")
    )
    assert twisted == pytest.approx(plain)
