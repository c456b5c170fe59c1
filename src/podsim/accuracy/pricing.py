"""Predictions for the rows of a table of any kind.

priced = price(load("torchtitan"))
priced.predictions["TT-0013"]        # s
priced.reasons                         # why podsim cannot predict the other rows
"""

from __future__ import annotations

from typing import Final

from podsim.accuracy.score import Priced, compare
from podsim.accuracy.tables import Rows
from podsim.answers.answer import call
from podsim.answers.comparison import Comparison

_NETWORKS: Final = "price_networks:price_networks"
_PRICING: Final = {
    "llm": "price_llm:price_llm", "kernels": "price_kernels:price_kernels", "engines": "price_engines:price_engines",
    "collectives": "price_collectives:price_collectives", "losses": "price_learning:price_losses",
    "batch-steps": "price_learning:price_batches", "formats": "price_learning:price_formats",
    "minutes": "price_minutes:price_minutes", "convergence": "price_minutes:price_convergence",
}  # fmt: skip
"""The module and function that predict the rows of each kind of table, loaded when needed."""


def price(rows: Rows, *, cross_validate: bool = True) -> Priced:
    """Predictions of a table's own quantity (`rows.what`) for its rows.

    `cross_validate`: fits to the other folds (needs scipy) predict products on GPUs with many measured sizes, and
    all-reduces in a node of A100. If false, the packaged constants predict them, which were fitted to some of them.
    """
    kind = "minutes" if (rows.kind, rows.what) == ("mlperf", "seconds to train") else rows.kind
    options = {"cross_validate": cross_validate} if kind in ("kernels", "collectives") else {}
    priced: Priced = call(f"accuracy.{_PRICING.get(kind, _NETWORKS)}", rows, **options)
    return priced


def compare_rows(rows: Rows, *, cross_validate: bool = True) -> Comparison:
    """Comparison, with scores, of the rows of one table in its own quantity."""
    return compare(rows, price(rows, cross_validate=cross_validate))
