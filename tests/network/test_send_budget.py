"""The link budget of a send-recv between nodes, against hand arithmetic."""

from __future__ import annotations

import pytest

import podsim


def test_the_shares_of_two_dgx_a100_add_up_to_the_line() -> None:
    """By hand: 32 packets of 4,096 B a chunk, 26 B of header each and 16 B once: 131,072 of 131,920 B are data."""
    sweep = podsim.collective("send-recv", on="dgx-a100:2", sizes=2**33)
    budget = sweep.budget
    assert budget is not None
    shares = {each.name: each.rate for each in budget.shares}
    assert (budget.line, budget.adapters) == (25e9, 8)
    assert shares["headers, MTU 4096"] == pytest.approx(25e9 * (1 - 131_072 / 131_920))
    assert shares["PCIe payloads"] == 0.0  # 24.84 GB/s after headers, and PCIe 4 carries 24.9 each way
    assert shares["answered"] == pytest.approx(sweep.rows[-1].algorithm_bandwidth)
    assert sum(shares.values()) == pytest.approx(25e9)
    assert min(shares.values()) >= 0.0


def test_chunks_that_wait_are_a_range_beside_the_budget() -> None:
    """By hand: 128 KiB at 24.5 GB/s take 5.35 us; with 1 us each 20.6 GB/s, with 5.9 us 11.65 GB/s."""
    budget = podsim.collective("send-recv", on="dgx-a100:2", sizes=2**33).budget
    assert budget.chunked == pytest.approx((11.65e9, 20.64e9), rel=1e-3)


def test_a_narrow_slot_takes_its_share() -> None:
    """PCIe 3 carries less than an adapter of 25 GB/s; the law counts its raw 15.75 GB/s."""
    overrides = {"network.bandwidth": "200Gb/s"}
    budget = podsim.collective("send-recv", on="dgx-2:2", sizes=2**33, overrides=overrides).budget
    shares = {each.name: each.rate for each in budget.shares}
    assert shares["PCIe payloads"] == pytest.approx(25e9 * 131_072 / 131_920 - 15.75e9)
    assert min(shares.values()) >= 0.0


@pytest.mark.parametrize("on", ["dgx-a100", "p4d:2", "tpu-v4:8"])
def test_what_stays_in_a_node_or_has_unknown_packets_has_no_budget(on: str) -> None:
    assert podsim.collective("send-recv", on=on, sizes=2**20).budget is None
