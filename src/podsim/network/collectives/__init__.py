"""Collectives as tables of transfers: algorithms, proofs and costs."""

from podsim.network.collectives.algorithms import ALGORITHMS, Algorithm
from podsim.network.collectives.cost import Summary, summary
from podsim.network.collectives.prove import check, prove
from podsim.network.collectives.table import EVERYWHERE, Table, expand, make_table, split

__all__ = [
    "ALGORITHMS", "EVERYWHERE", "Algorithm", "Summary", "Table", "check", "expand", "make_table", "prove", "split",
    "summary",
]  # fmt: skip
