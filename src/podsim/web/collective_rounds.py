"""An all-reduce round by round, as a picture moves it: which rank sends which chunk to whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from podsim.errors import PodsimError, check_name
from podsim.network.collectives import ALGORITHMS, expand, summary
from podsim.options.question import option, question

MOST_RANKS = 16


@dataclass(frozen=True, kw_only=True)
class RoundsOptions:
    """A collective to look at."""

    algorithm: str = option(
        "ring", "A way to do an all-reduce: ring, hierarchical, double tree, in-network, …"
    )
    ranks: int = option(8, "Ranks that take part, 2 to 16.")


@question(RoundsOptions)
def collective_rounds(options: RoundsOptions) -> dict[str, Any]:
    """The rounds of an all-reduce: for each its transfers [source, destination, first chunk, chunks, whether it adds].

    `sent` is the share of the buffer that the busiest rank sends. PodsimError for an unknown algorithm, or a number of
    ranks that it or a picture cannot have.
    """
    known = {table.name: table for table in ALGORITHMS if table.collective == "all-reduce"}
    check_name("algorithm", options.algorithm, known)
    if not 2 <= options.ranks <= MOST_RANKS:
        raise PodsimError(f"ranks={options.ranks}: a picture has 2 to {MOST_RANKS} ranks")
    table = known[options.algorithm].build(options.ranks)
    rows, _ = expand(table)
    figures = summary(table)
    rounds: dict[int, list[list[int]]] = {}
    for step, *transfer in zip(
        rows.step.tolist(), rows.source.tolist(), rows.destination.tolist(), rows.chunk.tolist(), rows.count.tolist(),
        rows.reduce.astype(int).tolist(), strict=True,
    ):  # fmt: skip
        rounds.setdefault(step, []).append(transfer)
    return {
        "algorithm": table.name, "algorithms": sorted(known), "ranks": table.ranks, "switches": table.switches,
        "chunks": table.chunks, "rounds": [rounds[step] for step in sorted(rounds)], "transfers": figures.transfers,
        "sent": figures.sent_most, "peak": figures.peak, "fan_in": figures.fan_in,
    }  # fmt: skip
