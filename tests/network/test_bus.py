"""The share of a ring: nccl-tests' factors, both spellings of names, and the seconds of an all-reduce."""

from __future__ import annotations

import pytest

from podsim.errors import PodsimError
from podsim.network.bus import bus_factor, ring_all_reduce_seconds, ring_share


def test_names_have_hyphens_or_underscores() -> None:
    assert float(bus_factor("all-to-all", 4)) == float(bus_factor("all_to_all", 4)) == 0.75
    assert float(bus_factor("gather", 4)) == ring_share(4) == 0.75


def test_an_unknown_collective_is_refused() -> None:
    with pytest.raises(PodsimError, match="all_sing"):
        bus_factor("all_sing", 8)


def test_an_all_reduce_round_a_ring_takes_its_steps() -> None:
    """Each of 2 (n - 1) steps sends one part of n."""
    steps, part = 2 * (8 - 1), 1e9 / 8
    assert ring_all_reduce_seconds(1e9, 8, 25e9, 2e-6) == pytest.approx(steps * (part / 25e9 + 2e-6))
    assert ring_all_reduce_seconds(1e9, 1, 25e9, 2e-6) == 0.0
