"""Each rank and each pair of ranks against its peers: the slow one is named with its machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from podsim.acceptance.thresholds import THRESHOLDS, Figure, check
from podsim.answers.acceptance import Check
from podsim.answers.lab import MeasuredRanks

_SLOW = 0.8
"""share of its peers' bandwidth below which a pair is slow"""


def rank_checks(run: MeasuredRanks) -> Iterator[Check]:
    """The slowest rank's products, and of pairs inside and between machines the rank whose pairs are slowest.

    A rank is slow if most of its pairs are; a pair is slow alone if its ranks are not.
    """
    how = f"podsim measure ranks, {run.backend}, {len(run.products)} ranks"
    slowest = min(range(len(run.products)), key=run.products.__getitem__)
    figure = Figure(
        group="ranks", name="products, slowest rank", unit="FLOP/s", how=how, basis="the median of all ranks"
    )
    yield check(
        figure, THRESHOLDS["ranks"], measured=run.products[slowest], expected=median(run.products),
        why=f"rank {slowest} on {run.hosts[slowest]}",
    )  # fmt: skip
    home: Sequence[object] = [rank // run.local for rank in range(len(run.hosts))] if run.local else run.hosts
    for inside, kind in ((True, "inside a machine"), (False, "between machines")):
        rows = [row for row in run.rows if (home[row.source] == home[row.destination]) == inside]
        if not rows:
            continue
        usual = median(row.bandwidth for row in rows)
        of = {
            rank: [row.bandwidth for row in rows if rank in (row.source, row.destination)]
            for rank in range(len(run.hosts))
        }
        means = {rank: median(rates) for rank, rates in of.items() if rates}
        worst = min(means, key=means.__getitem__)
        pair = min(rows, key=lambda row: row.bandwidth)
        who, measured = f"rank {worst} on {run.hosts[worst]}", means[worst]
        is_rank = measured < _SLOW * usual
        if not is_rank:
            who = " and ".join(
                f"rank {rank} on {run.hosts[rank]}" for rank in (pair.source, pair.destination)
            )
            measured = pair.bandwidth
        figure = Figure(group="ranks", name=f"pairs {kind}, slowest", unit="B/s", how=how,
                        basis="the median of all such pairs")  # fmt: skip
        why = f"most pairs of {who}" if is_rank else who
        yield check(figure, THRESHOLDS["pairs"], measured=measured, expected=usual, why=why)
