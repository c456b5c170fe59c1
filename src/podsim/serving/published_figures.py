"""Published figures of a machine, made again bar by bar: each bar has one setting, which white_paper.toml states."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from podsim.accuracy.price_networks import NetworkCosts, read_network_run
from podsim.answers.served import Figure, FigureRow
from podsim.hardware.catalog import load_gpu
from podsim.options.serving_options import ServeOptions
from podsim.packaged import packaged_toml
from podsim.serving.network_batches import serve_batches


def read_panels() -> tuple[dict[str, Any], ...]:
    """The panels of all figures, as the table states them."""
    return tuple(packaged_toml("serving/white_paper.toml")["panel"])


def panel_answer(panel: Mapping[str, Any]) -> Figure:
    """One panel with its bars predicted, each over the first."""
    bars, costs = panel["bars"], NetworkCosts()
    answers = [_bar_answer(bar, costs) for bar in bars]
    base = answers[0][0]
    rows = tuple(
        FigureRow(
            name=bar["name"], how=how, predicted=predicted, relative=predicted / base,
            printed=bar.get("printed"), printed_value=bar.get("rate"),
        )
        for bar, (predicted, how) in zip(bars, answers, strict=True)
    )  # fmt: skip
    return Figure(
        title=panel["title"], unit=panel.get("unit", "1/s"), base=bars[0]["name"], source=panel["source"],
        rows=rows, notes=tuple(panel.get("notes", ())),
    )  # fmt: skip


def _bar_answer(bar: Mapping[str, Any], costs: NetworkCosts) -> tuple[float, str]:
    """(the predicted value of a bar in SI, its setting in words)."""
    if run := bar.get("run"):
        return costs.rate(read_network_run(run)), f"{run['network']} on {run['cluster']}: {run['plan']}"
    if options := bar.get("serve"):
        served = serve_batches(ServeOptions(**options))
        return served.total, "serve " + " ".join(f"{key}={value}" for key, value in options.items())
    if peak := bar.get("peak"):
        gpu, is_sparse = load_gpu(peak["gpu"]), peak.get("sparse", False)
        rates = gpu.sparse_peaks if is_sparse else gpu.peaks
        words = f"{peak['count']} {gpu.name}, {peak['precision']}{', 2:4 sparse' if is_sparse else ''}"
        return peak["count"] * rates[peak["precision"]], words
    factors = bar["factors"]
    return math.prod(factors), " x ".join(f"{factor:g}" for factor in factors)
