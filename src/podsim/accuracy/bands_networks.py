"""The error band of a captured graph's step, from published runs that no constant was fitted to: rows marked `test`.

So no error or coverage of these bands on such rows is a test. Runs of the same network on the same GPU family in the same
precision count; with too few of them, runs with the same kind of kernels; then all. Each network has one weight.
scripts/record.py writes the packaged residuals (`residuals_networks.csv`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from functools import lru_cache
from math import expm1

import numpy as np

from podsim.accuracy.bands import ENOUGH, unmeasured_band, weighted_limits
from podsim.answers.prediction import Band
from podsim.graphs.graph_cost import OpCosts
from podsim.graphs.networks import networks
from podsim.graphs.op_graph import OpGraph
from podsim.packaged import packaged_csv

FILE = "residuals_networks.csv"


@dataclass(frozen=True, kw_only=True)
class NetworkFeatures:
    """The features in which similar runs of captured networks agree."""

    architecture: str
    precision: str
    """The precision: 16 bits, tf32 or fp32."""
    network: str
    """The network of the catalog; empty for a user's module."""
    work: str
    """The kind with most of the kernels' time: convolutions, products, recurrent layers or bytes."""


@dataclass(frozen=True, kw_only=True)
class NetworkResidual:
    """One published run and the error of its prediction."""

    id: str
    role: str
    features: NetworkFeatures
    log_ratio: float
    """factor. The logarithm of measured / predicted time."""


_TAIL = 0.1
"""share of the weight below a band, and above it"""
_ALWAYS = ("architecture", "precision")
_STEPS = ((*_ALWAYS, "network"), (*_ALWAYS, "work"), _ALWAYS, ())
"""The features that agree, from the closest match to the loosest."""


def features_of_graph(
    graph: OpGraph, costs: OpCosts, *, architecture: str, precision: str, network: str
) -> NetworkFeatures:
    """Features of a step."""
    spent: dict[str, float] = {}
    kinds = {
        "conv": "convolutions",
        "gemm": "products",
        "attention": "products",
        "recurrent": "recurrent layers",
    }
    for kind, there, back in zip(
        graph.kind_names, costs.forward.tolist(), costs.backward.tolist(), strict=True
    ):
        name = kinds.get(kind, "bytes")
        spent[name] = spent.get(name, 0.0) + there + back
    return NetworkFeatures(
        architecture=architecture.lower(), precision=_width(precision), network=network,
        work=max(spent, key=lambda name: spent[name]),
    )  # fmt: skip


def _width(precision: str) -> str:
    """The width of a precision: bf16 and fp16 are alike."""
    return "16 bits" if precision in ("bf16", "fp16") else precision


_SAME = 0.001
"""share by which parameters of one network may differ: words that pad a vocabulary"""


def runs_of_network(parameters: float, architecture: str, precision: str) -> str:
    """The published runs of a network with so many parameters as a captured graph, in words; "" if there are none."""
    rows = Counter(
        row.features.network for row in network_residuals()
        if (row.features.architecture, row.features.precision) == (architecture.lower(), _width(precision))
        and abs(networks()[row.features.network].parameters / parameters - 1) < _SAME
    )  # fmt: skip
    if not rows:
        return ""
    counts = ", ".join(f"{count} of {name}" for name, count in rows.most_common())
    return (
        f"runs of this network on {architecture} in {precision} were compared as a captured graph only ({counts}): "
        "predict takes that name, and gives their error band"
    )


@lru_cache(maxsize=1)
def network_residuals() -> tuple[NetworkResidual, ...]:
    """The packaged residuals."""
    names = [field.name for field in fields(NetworkFeatures)]
    return tuple(
        NetworkResidual(
            id=row["id"], role=row["role"], features=NetworkFeatures(**{name: row[name] for name in names}),
            log_ratio=float(row["log_ratio"]),
        )
        for row in packaged_csv(f"accuracy/{FILE}")
    )  # fmt: skip


@lru_cache(maxsize=1024)
def band_of_graph(wanted: NetworkFeatures, rows: tuple[NetworkResidual, ...] = ()) -> Band:
    """The band of a step like this; `rows` replace the packaged residuals."""
    rows = rows or network_residuals()
    unfitted = [row for row in rows if row.role == "test"]
    for agree in _STEPS:
        key = [getattr(wanted, name) for name in agree]
        similar = [row for row in unfitted if [getattr(row.features, name) for name in agree] == key]
        if len(similar) >= ENOUGH:
            break
    known = Counter(row.features.network for row in similar)
    weights = np.array([1.0 / known[row.features.network] for row in similar])
    low, high = weighted_limits(np.array([row.log_ratio for row in similar]), weights, _TAIL)
    words = dict.fromkeys(key) or [f"any, as too few are of {wanted.architecture} GPUs in {wanted.precision}"]
    most = known.most_common()
    counts = ", ".join(f"{count} {name}" for name, count in most[:4])
    more = f", {sum(count for _, count in most[4:])} others" if len(most) > 4 else ""
    basis = f"{len(similar)} published runs ({counts}{more}): {', '.join(words)}; none was fitted to"
    band = Band(low=expm1(low), high=expm1(high), rows=len(similar), basis=basis)
    has_family = any(row.features.architecture == wanted.architecture for row in rows)
    return band if has_family else unmeasured_band(band)
