"""`podsim flows`: the rates of flows that cross a fabric at once, by the rule with which switches choose routes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from typing import Any

import numpy as np

from podsim.answers.answer import Answer, View
from podsim.errors import raise_all
from podsim.hardware.cluster import Cluster
from podsim.hardware.cluster_names import enough_nodes
from podsim.hardware.fabrics import Routing, fabric_of
from podsim.hardware.machine_input import given_cluster
from podsim.hardware.overrides import ROUTINGS
from podsim.network.routed_flows import RoutingRow, routing_row
from podsim.options.question import option, overrides_option, question

_MOST_SEEDS = 10_000
_MOST_FLOWS = 4_000_000
"""Flows of all hashes together."""


@dataclass(frozen=True, kw_only=True)
class FlowsOptions:
    """Flows that cross a fabric at once, and how their routes are chosen."""

    on: Any = option(
        MISSING,
        "Cluster: superpod-a100:2su, selene, or a TOML file.",
        complete="clusters",
        example="superpod-a100:2su",
    )
    ranks: int | None = option(None, "GPUs that send; default all.")
    shift: int | None = option(
        None, "Rank i sends to rank i + SHIFT, around the end; default half of the ranks."
    )
    random: int | None = option(
        None, "Instead, every rank sends to a rank drawn by this seed, and receives once."
    )
    seeds: int = option(100, "Hashes that are tried where routes are hashed.")
    overrides: Mapping[str, str] | None = overrides_option("fabric.routing=ecmp, network.bandwidth=100Gb/s")


@dataclass(frozen=True, kw_only=True)
class RoutedFlows(Answer, view=View(rows="rows")):
    """Flows that cross a fabric at once, by rule of routing (* the fabric's own): max-min rates at line rate."""

    machine: str
    ranks: int
    """The number of GPUs, each with one flow."""
    pattern: str
    """The destinations, in words."""
    rows: tuple[RoutingRow, ...]


@question(FlowsOptions, activity="routing the flows")
def flows(options: FlowsOptions) -> RoutedFlows:
    """The max-min rates of flows that start at once, a row for each rule of routing, at line rate.

    Each of `ranks` GPUs sends one flow: to the rank `shift` further on, or to one that the seed `random` draws. Hashed
    routes are tried with `seeds` hashes. Raises PodsimError for counts that the cluster does not have.
    """
    cluster = given_cluster(options.on, options.overrides)
    if isinstance(options.on, str) and options.ranks is not None:
        cluster = given_cluster(
            enough_nodes(options.on, options.ranks, cluster.gpus_per_node), options.overrides
        )
    ranks = cluster.gpus if options.ranks is None else options.ranks
    _check_counts(options, cluster, ranks)
    source = np.arange(ranks)
    shift = max(ranks // 2, 1) if options.shift is None else options.shift
    target = (source + shift) % ranks
    if options.random is not None:
        target = np.random.default_rng(options.random).permutation(ranks)
    fabric = fabric_of(cluster)
    rows = []
    for choice in ROUTINGS:
        seeds = range(options.seeds) if choice == "ecmp" else range(cluster.seed, cluster.seed + 1)
        routings = [Routing(choice=choice, seed=seed) for seed in seeds]
        is_usual = choice == cluster.route_choice
        rows.append(routing_row(fabric, (source, target), routings, is_usual=is_usual))
    pattern = (
        f"rank i to rank i + {shift}" if options.random is None else f"a permutation, seed {options.random}"
    )
    return RoutedFlows(machine=cluster.name, ranks=ranks, pattern=pattern, rows=tuple(rows))


def _check_counts(options: FlowsOptions, cluster: Cluster, ranks: int) -> None:
    """Raise PodsimError for counts that the cluster does not have, with all problems."""
    problems = []
    if not 2 <= ranks <= cluster.gpus:
        problems.append(f"ranks={ranks}: {cluster.name} has GPUs for 2 to {cluster.gpus:,}")
    if options.shift is not None and (options.random is not None or not 0 < options.shift < ranks):
        problems.append(
            f"shift={options.shift}: 1 to {max(ranks - 1, 1)} ranks further on, and not with --random"
        )
    if options.random is not None and options.random < 0:
        problems.append(f"random={options.random}: a seed is 0 or more")
    if not 1 <= options.seeds <= _MOST_SEEDS or options.seeds * ranks > _MOST_FLOWS:
        most = min(_MOST_SEEDS, _MOST_FLOWS // max(ranks, 1))
        problems.append(f"seeds={options.seeds}: 1 to {most:,} for {ranks:,} ranks")
    raise_all(problems)
