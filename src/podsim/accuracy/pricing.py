"""What podsim predicts of the rows of a table, whatever its kind.

priced = price(load("korthikanti"))
priced.predictions["KORT-0003"]        # s
priced.reasons                         # rows that podsim cannot express, and why
"""

from __future__ import annotations

from podsim.accuracy.price_collectives import price_collectives
from podsim.accuracy.price_kernels import price_kernels
from podsim.accuracy.price_llm import price_llm
from podsim.accuracy.price_networks import price_networks
from podsim.accuracy.score import Priced, compare_priced
from podsim.accuracy.tables import Rows
from podsim.results.comparison import Comparison


def price(rows: Rows, *, cross_validate: bool = True) -> Priced:
    """Predictions of a table's own quantity (`rows.what`) for its rows, whatever its kind.

    `cross_validate`: products on a GPU whose grid was measured, and all-reduces in a node of A100, are predicted by a
    fit to the other folds (needs scipy); false takes the packaged constants, which were fitted to some of these rows.
    """
    if rows.kind == "llm":
        return price_llm(rows)
    if rows.kind == "kernels":
        return price_kernels(rows, cross_validate=cross_validate)
    if rows.kind == "collectives":
        return price_collectives(rows, cross_validate=cross_validate)
    return price_networks(rows)


def compare_rows(rows: Rows, *, cross_validate: bool = True) -> Comparison:
    """Comparison, with scores, of the rows of one table in its own quantity."""
    return compare_priced(rows, price(rows, cross_validate=cross_validate))
