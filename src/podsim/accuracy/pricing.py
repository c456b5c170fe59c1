"""The packaged measurements and what podsim predicts of them, table by table.

priced = price(load("korthikanti"))
priced.predictions["KORT-0003"]        # s
priced.reasons                         # rows that podsim cannot express, and why
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from podsim.accuracy.measured_tables import Rows
from podsim.accuracy.tables import load


@dataclass(frozen=True, kw_only=True)
class Priced:
    """What podsim says of the rows of a table; every row has a prediction or a reason."""

    predictions: Mapping[str, float]
    """id -> value in SI, of the quantity asked for"""
    reasons: Mapping[str, str]
    """id -> why there is none"""
    ideals: Mapping[str, float] = field(default_factory=dict)
    """id -> the value at full peak, where that has a meaning"""
    notes: Mapping[str, str] = field(default_factory=dict)
    """id -> what a reader should know of the prediction"""
    groups: Mapping[str, str] = field(default_factory=dict)
    """id -> class in the breakdown; empty takes the columns of the table"""


def training_rows() -> list[Mapping[str, str]]:
    """Rows of the packaged tables of training, as text by column."""
    return [row.fields for kind in ("llm", "vision", "mlperf") for row in load(kind).rows]


def price(rows: Rows, *, cross_validate: bool = True) -> Priced:
    """Predictions of a table's own quantity (`rows.what`) for its rows, whatever its kind.

    `cross_validate`: products on a GPU whose grid was measured, and all-reduces in a node of A100, are predicted by a
    fit to the other folds (needs scipy); false takes the packaged constants, which were fitted to some of these rows.
    """
    if rows.kind == "llm":
        from podsim.accuracy.price_llm import price_llm

        return price_llm(rows)
    if rows.kind == "kernels":
        from podsim.accuracy.price_kernels import price_kernels

        return price_kernels(rows, cross_validate=cross_validate)
    if rows.kind == "collectives":
        from podsim.accuracy.price_collectives import price_collectives

        return price_collectives(rows, cross_validate=cross_validate)
    from podsim.accuracy.price_networks import price_networks

    return price_networks(rows)
