"""`podsim flows`: the rates of flows that cross a fabric at once, by the rule with which switches choose routes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from podsim.answers.sweep import RoutedFlows, RoutingRow
from podsim.errors import PodsimError
from podsim.hardware.cluster import Cluster
from podsim.hardware.cluster_names import enough_nodes
from podsim.hardware.fabrics import Fabric, Routing, fabric_of
from podsim.hardware.machine_input import given_cluster
from podsim.hardware.overrides import ROUTINGS
from podsim.network.flow import max_min_rates
from podsim.options.machine_options import FlowsOptions
from podsim.options.question import question

_MOST_SEEDS = 10_000
_MOST_FLOWS = 4_000_000
"""Flows of all hashes together."""


@question(
    FlowsOptions,
    activity="routing the flows",
)
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
        tries = list(_rates(fabric, source, target, [Routing(choice=choice, seed=n) for n in seeds]))
        rows.append(_row(fabric, choice, tries, choice == cluster.route_choice))
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
    if problems:
        raise PodsimError("; ".join(problems))


def _rates(
    fabric: Fabric, source: NDArray[np.int64], target: NDArray[np.int64], routings: list[Routing]
) -> Iterator[tuple[NDArray[np.float64], int, int]]:
    """(B/s of the flows that leave their rank, the link with most flows for its rate, its flows), by routing."""
    for routing in routings:
        indptr, links = fabric.routed(routing).routes(source, target)
        rates = max_min_rates((indptr, links), fabric.capacity)
        users = np.bincount(links, minlength=fabric.links)
        share = np.divide(users, fabric.capacity, out=np.zeros(fabric.links), where=fabric.capacity > 0)
        fullest = int(share.argmax())
        yield rates[np.isfinite(rates)], fullest, int(users[fullest])


def _row(
    fabric: Fabric, choice: str, tries: list[tuple[NDArray[np.float64], int, int]], is_usual: bool
) -> RoutingRow:
    """The row of a rule: the slowest flows of its tries, and the fullest link of the worst one."""
    worst = np.array([rates.min(initial=np.inf) for rates, _, _ in tries])
    _, link, count = tries[int(worst.argmin())]
    return RoutingRow(
        routing=choice, is_usual=is_usual, tries=len(tries), worst=float(np.median(worst)),
        least=float(worst.min()), most=float(worst.max()),
        mean=float(np.mean([rates.mean() for rates, _, _ in tries])), link=fabric.link_name(link), link_flows=count,
    )  # fmt: skip
