"""Flows that cross a fabric at once, under a rule of routing: their rates, and the fullest link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from podsim.answers.fields import shown
from podsim.axes import Floats, Ints
from podsim.hardware.fabrics import Fabric, Routing
from podsim.network.flow import max_min_rates


@dataclass(frozen=True, kw_only=True)
class RoutingRow:
    """Flows that start at once, under one rule of routing."""

    routing: str = shown(of_row=lambda row: row.routing + " *" * row.is_usual)
    """The rule: adaptive, ecmp, destination, static."""
    is_usual: bool = shown(is_hidden=True)
    """Whether the fabric routes so."""
    tries: int = shown("hashes", drop=3)
    """The number of hashes; 1 where nothing is drawn."""
    worst: float = shown("worst flow")
    """B/s. The slowest flow; over several hashes the median of their slowest flows."""
    least: float = shown("worst hash", drop=1)
    """B/s. The slowest flow of the worst hash."""
    most: float = shown("best hash", drop=2)
    """B/s. The slowest flow of the best hash."""
    mean: float = shown("mean flow")
    """B/s. The mean of all flows."""
    link: str = shown("fullest link")
    """The fullest link of the worst hash, by name."""
    link_flows: int = shown("flows on it")
    """The number of flows on that link."""


def routing_row(
    fabric: Fabric, flows: tuple[Ints, Ints], routings: Sequence[Routing], *, is_usual: bool
) -> RoutingRow:
    """The row of a rule of routing, each of `routings` a hash of it; `flows` are the ranks that send and receive.

    It has the slowest flows of the hashes, and the fullest link of the worst one.
    """
    tries = [_rates(fabric, flows, routing) for routing in routings]
    worst = np.array([rates.min(initial=np.inf) for rates, _, _ in tries])
    _, link, count = tries[int(worst.argmin())]
    return RoutingRow(
        routing=routings[0].choice, is_usual=is_usual, tries=len(tries), worst=float(np.median(worst)),
        least=float(worst.min()), most=float(worst.max()),
        mean=float(np.mean([rates.mean() for rates, _, _ in tries])), link=fabric.link_name(link), link_flows=count,
    )  # fmt: skip


def _rates(fabric: Fabric, flows: tuple[Ints, Ints], routing: Routing) -> tuple[Floats, int, int]:
    """(B/s of the flows that leave their rank, the link with most flows for its rate, its flows)."""
    indptr, links = fabric.routed(routing).routes(*flows)
    rates = max_min_rates((indptr, links), fabric.capacity)
    users = np.bincount(links, minlength=fabric.links)
    share = np.divide(users, fabric.capacity, out=np.zeros(fabric.links), where=fabric.capacity > 0)
    fullest = int(share.argmax())
    return rates[np.isfinite(rates)], fullest, int(users[fullest])
