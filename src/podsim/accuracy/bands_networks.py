"""The error band of a captured graph's step, from the residuals of similar published runs.

A run resembles a graph if the GPU's architecture and the precision agree. As far as enough rows remain, four more
features agree: the network, the kind of kernels with most of the time, the framework, and the size (one GPU, one node
or several). Percentiles and roles are as in podsim.accuracy.bands. scripts/record.py writes the packaged residuals
(`residuals_networks.csv`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from podsim.accuracy.bands import ENOUGH
from podsim.answers.prediction import Band
from podsim.answers.quantiles import quantile
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
    software: str
    """The software entry."""
    gpus: str
    """The size: one GPU, one node or several nodes."""


@dataclass(frozen=True, kw_only=True)
class NetworkResidual:
    """One published run and the error of its prediction."""

    id: str
    role: str
    features: NetworkFeatures
    log_ratio: float
    """factor. The logarithm of measured / predicted time."""


_LOW, _HIGH = 0.1, 0.9
_ALWAYS = ("architecture", "precision")
_STEPS = (
    ("network", "gpus"), ("network",), ("work", "software", "gpus"), ("work", "gpus"), ("software", "gpus"), ("gpus",),
    ("work",), (),
)  # fmt: skip
"""The features that must agree besides architecture and precision, from the closest match to the loosest."""


def features_of_graph(
    graph: OpGraph, costs: OpCosts, *, architecture: str, precision: str, network: str, software: str, gpus: int,
    node: int,
) -> NetworkFeatures:  # fmt: skip
    """Features of a step; `node` is the GPUs of a node."""
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
        work=max(spent, key=lambda name: spent[name]), software=software,
        gpus="one GPU" if gpus == 1 else "one node" if gpus <= node else "several nodes",
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


def band_of_graph(wanted: NetworkFeatures, rows: Sequence[NetworkResidual] = ()) -> tuple[Band | None, str]:
    """(band, "") of a step like this, or (None, why there is none); `rows` replace the packaged residuals."""
    return _band_from(wanted, tuple(rows)) if rows else _packaged_band(wanted)


@lru_cache(maxsize=1024)
def _packaged_band(wanted: NetworkFeatures) -> tuple[Band | None, str]:
    return _band_from(wanted, network_residuals())


def _band_from(wanted: NetworkFeatures, rows: Sequence[NetworkResidual]) -> tuple[Band | None, str]:
    similar, agreeing = closest_rows(wanted, rows, [_ALWAYS + names for names in _STEPS])
    if not similar:
        return None, (
            f"fewer than {ENOUGH} published runs of captured networks are in {wanted.precision} on GPUs of the "
            f"family {wanted.architecture}"
        )
    low, high = band_limits(similar)
    networks = Counter(row.features.network for row in similar).most_common()
    counts = ", ".join(f"{count} {name}" for name, count in networks[:4])
    more = f", {sum(count for _, count in networks[4:])} others" if len(networks) > 4 else ""
    words = [
        f"{wanted.architecture} GPUs",
        *(getattr(wanted, name) for name in agreeing if name != "architecture"),
    ]
    fitted = sum(row.role == "calibrate" for row in similar)
    seen = f"constants were fitted to {fitted} of them" if fitted else "none was fitted to"
    return Band(
        low=low, high=high, rows=len(similar),
        basis=f"{len(similar)} published runs ({counts}{more}): {', '.join(dict.fromkeys(words))}; {seen}",
    ), ""  # fmt: skip


def closest_rows(
    wanted: NetworkFeatures, rows: Sequence[NetworkResidual], steps: Sequence[tuple[str, ...]]
) -> tuple[list[NetworkResidual], tuple[str, ...]]:
    """(rows that agree in the features of the first step with enough rows, these features); [] if there are none.

    Rows marked `test` count alone where there are enough of them.
    """
    for agree in steps:
        key = [getattr(wanted, name) for name in agree]
        alike = [row for row in rows if [getattr(row.features, name) for name in agree] == key]
        tests = [row for row in alike if row.role == "test"]
        for chosen in (tests, alike):
            if len(chosen) >= ENOUGH:
                return chosen, agree
    return [], ()


def band_limits(rows: Sequence[NetworkResidual]) -> tuple[float, float]:
    """(low, high) of a band: shares below and above the predicted time."""
    ratios = np.exp([row.log_ratio for row in rows]) - 1.0
    return _quantile(ratios, _LOW), _quantile(ratios, _HIGH)


def _quantile(ratios: NDArray[np.float64], level: float) -> float:
    """The level's quantile of a new row, from n known ones: rank level x (n + 1), within the range seen."""
    count = ratios.size
    rank = (level * (count + 1) - 1) / (count - 1)
    return quantile(ratios, min(max(rank, 0.0), 1.0))
