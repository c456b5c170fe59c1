"""Stripes: space, work, damage; worked by hand and counted over every choice of servers."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.errors import StorageError
from podsim.storage.catalog import load_storage
from podsim.storage.fail import fail_row
from podsim.storage.storage_parts import Stripe
from podsim.storage.stripe import damage, kept_bytes, lost_share, net_capacity, read_work, write_work

NARROW = {"stripe.data": "5", "stripe.spares": "1"}
"""one server's space kept free, and stripes of the seven others"""


def test_net_capacity_of_the_documentation() -> None:
    """10 TB raw on 5 + 2 spare domains is not given; its figures: 10 TB, two spares of ten, 3+2: 4.32 TB."""
    system, _ = load_storage(
        "weka-ra", {"servers": "10", "stripe.data": "3", "stripe.spares": "2", "capacity": "10 TB"}
    )
    assert net_capacity(system) == pytest.approx(4.32e12)


def test_net_capacity_of_the_reference_architecture() -> None:
    """856.8 TB raw (15.3 TB drives): 385.6 TB of 4+2 with two spare servers, 481.9 TB of 5+2 with one."""
    system, _ = load_storage("weka-ra", {"capacity": "856.8 TB"})
    assert net_capacity(system) == pytest.approx(385.6e12, rel=1e-3)
    system, _ = load_storage("weka-ra", {"capacity": "856.8 TB", **NARROW})
    assert net_capacity(system) == pytest.approx(481.95e12, rel=1e-3)


def test_work_by_hand() -> None:
    stripe = Stripe(data=5, parity=2, spares=1, usable=0.9)
    assert write_work(stripe) == pytest.approx((1 + 2 * 7 / 5, 3))
    assert write_work(None) == (1.0, 1.0)
    assert read_work(stripe, 8, 0) == 1.0
    assert read_work(stripe, 8, 1) == pytest.approx(1.5)
    assert read_work(stripe, 8, 2) == pytest.approx(2.0)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_lost_share_is_what_counting_gives(data: st.DataObject) -> None:
    width = data.draw(st.integers(2, 6))
    servers = data.draw(st.integers(width, 9))
    failed = data.draw(st.integers(0, servers))
    blocks = data.draw(st.integers(0, width))
    stripe = Stripe(data=width - 1, parity=1, spares=0, usable=1.0)
    hit = sum(sum(s < failed for s in chosen) >= blocks for chosen in combinations(range(servers), width))
    assert lost_share(stripe, servers, failed, blocks) == pytest.approx(hit / comb(servers, width))


def test_one_and_two_servers_lost_read_on_and_three_lose_data() -> None:
    """4+2: a lost block is read as four others; six servers still hold a stripe."""
    system, clients = load_storage("weka-ra:4")
    rows = [fail_row(system, clients, failed, 0.5) for failed in range(4)]
    assert [row.reads for row in rows] == [True, True, True, False]
    work = [1.0 + failed / 8 * 3 for failed in range(4)]
    assert [row.read for row in rows] == pytest.approx([64e9, 56e9 / work[1], 48e9 / work[2], 40e9 / work[3]])
    assert [row.read_best for row in rows[:3]] == pytest.approx([64e9, 56e9, 48e9])
    assert rows[3].lost == pytest.approx(comb(5, 3) / comb(8, 6))
    assert "data loss: 35.7%" in rows[3].verdict
    assert rows[2].rebuild_seconds > rows[2].exposed_seconds > 0.0
    assert rows[2].rebuild_seconds > 2 * rows[1].rebuild_seconds > 0.0
    assert rows[2].exposed == pytest.approx(comb(6, 4) / comb(8, 6))


def test_stripes_as_wide_as_the_servers_that_are_kept_are_not_rebuilt_after_two() -> None:
    system, clients = load_storage("weka-ra:4", NARROW)
    rows = [fail_row(system, clients, failed, 0.5) for failed in range(4)]
    assert rows[1].read == pytest.approx(56e9 / 1.5)
    assert rows[1].rebuild_seconds > 0.0
    assert rows[2].rebuild_seconds == 0.0
    assert "too few to rebuild" in rows[2].verdict
    assert "data loss: 62.5%" in rows[3].verdict


def test_four_parity_blocks_promise_two_servers() -> None:
    """The documentation: N+4 survives four drives or two servers."""
    system, clients = load_storage("weka-ra-n4:4")
    assert system.stripe is not None
    assert system.stripe.survives == 2
    assert "beyond what its protection promises" in fail_row(system, clients, 3, 0.5).verdict
    assert fail_row(system, clients, 8, 0.5).verdict == "no server is left"
    assert [damage(system, failed).exposed for failed in (0, 1, 3, 5)] == [0.0] * 4
    assert damage(system, 4).exposed > 0.0


def test_rebuild_by_hand() -> None:
    """Half of the net space in use is 6/4 of that on eight servers; each lost byte is read as four and written once, by
    the seven that are left, at 8 GB/s."""
    system, _ = load_storage("weka-ra")
    hurt = damage(system, 1)
    assert hurt.rebuild == pytest.approx(860.16e12 * 6 / 8 * 4 / 6 * 0.9 * 0.5 * 6 / 4 / 8)
    assert fail_row(system, 4, 1, 0.5).rebuild_seconds == pytest.approx(5 * hurt.rebuild / (7 * 8e9))
    assert system.server.ssd is not None
    drive = replace(system.server.ssd, read_bandwidth=1e9, write_bandwidth=0.5e9)
    slow = replace(system, server=replace(system.server, ssds=2, ssd=drive))  # reads and writes at 1 GB/s
    assert fail_row(slow, 4, 1, 0.5).rebuild_seconds == pytest.approx(5 * hurt.rebuild / (7 * 1e9))


@pytest.mark.parametrize("fill", [0.0, 0.5, 1.0])
def test_what_is_rebuilt_fits_the_servers_that_are_left(fill: float) -> None:
    """A full system keeps the space of its spare servers, and what the file system needs, free."""
    system, _ = load_storage("weka-ra")
    assert kept_bytes(system, fill) <= system.capacity * (1 - 1 / system.servers)
    assert damage(system, 1, fill=fill).rebuild == pytest.approx(kept_bytes(system, fill) / 8)


def test_a_wide_enough_cluster_rebuilds_after_two() -> None:
    system, clients = load_storage("weka-ra:4", {"servers": "12"})
    row = fail_row(system, clients, 2, 0.5)
    assert row.rebuild_seconds > row.exposed_seconds > 0.0
    assert "no further server may fail" in row.verdict


@pytest.mark.parametrize(
    ("failed", "fill", "says"), [(9, 0.5, "has 8"), (-1, 0.5, "0 to 8"), (1, 1.5, "fill=1.5")]
)
def test_damage_refuses(failed: int, fill: float, says: str) -> None:
    system, _ = load_storage("weka-ra")
    with pytest.raises(StorageError, match=says):
        damage(system, failed, fill=fill)


def test_unknown_protection_is_told() -> None:
    with pytest.raises(StorageError, match="protection is not known"):
        damage(load_storage("nfs-a400")[0], 1)
