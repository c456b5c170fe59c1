"""Figures 4, 5 and 12 of the DGX A100 white paper: BERT-Large trained in TF32 on A100 against FP32 on V100.

The paper states neither batch nor length of sequences, so both are a range: phase 1 with 128 tokens and phase 2 with
512; micro-batches from a quarter of what fits the V100's memory up to that, each as a step and accumulated to the step of
the scripts (65,536 and 32,768 sequences on 8 GPUs).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from podsim.accuracy.price_networks import NetworkCosts, NetworkRun
from podsim.answers.served import Figure, FigureRow
from podsim.graphs.graph_memory import graph_memory
from podsim.graphs.networks import load_network
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.training.software import load_software

_LEAST = 0.25
"""share of the largest batch that fits, from which batches count"""
_STEP = {128: 8192, 512: 4096}
"""sequences of a GPU in a step of the scripts, by tokens"""


class Setting(NamedTuple):
    """One pair of bars: the same batch and length on both machines."""

    tokens: int
    batch: int
    accumulate: int
    """count. The micro-batches of a step."""
    old: float
    """1/s. The sequences of the older machine."""
    new: float
    """1/s. The sequences of the newer machine."""

    @property
    def ratio(self) -> float:
        """factor. The newer machine over the older."""
        return self.new / self.old


def training_figure(printed: Mapping[str, Any]) -> Figure:
    """The bars of one figure, for each batch and length that the paper may have used."""
    settings = tuple(_settings(printed))
    ratios = [setting.ratio for setting in settings]
    rates = [setting.new for setting in settings], [setting.old for setting in settings]
    nearest = min(settings, key=lambda setting: abs(setting.ratio / printed["relative"] - 1))
    reproduced = [
        f"TF32 without a change of code is {min(ratios):.1f} to {max(ratios):.1f} times FP32 on the V100 "
        f"(printed: {printed['words']}), most with large batches"
    ]
    missed = [
        "batch and length, which the paper does not state: each row is a micro-batch and its count in a step"
    ]
    for name, each, value in zip(("DGX A100", "DGX-1"), rates, printed.get("rates", ()), strict=False):
        is_inside = min(each) <= value <= max(each)
        (reproduced if is_inside else missed).append(
            f"{name}: {min(each):,.0f} to {max(each):,.0f} sequences/s (printed: {value:,.0f})"
        )
    return Figure(
        title=printed["title"], unit="1/s", base="FP32 on a DGX-1 V100, same batch", source=printed["source"],
        rows=tuple(_row(setting, printed, is_nearest=setting is nearest) for setting in settings),
        reproduced=tuple(reproduced), not_reproduced=tuple(missed),
    )  # fmt: skip


def _row(setting: Setting, printed: Mapping[str, Any], *, is_nearest: bool) -> FigureRow:
    return FigureRow(
        name=f"{setting.tokens} tokens, {setting.batch} a GPU x {setting.accumulate}",
        how=f"TF32; FP32 on V100 {setting.old:,.0f}/s",
        predicted=setting.new, relative=setting.ratio,
        printed=float(printed["relative"]) if is_nearest else None, confirmed=printed["confirmed"],
    )  # fmt: skip


def _settings(printed: Mapping[str, Any]) -> Iterator[Setting]:
    """Every pair of bars: batches are powers of two that fit the V100."""
    costs = NetworkCosts()
    old, new = (load_cluster(name) for name in ("dgx-1-v100-32gb:1", "dgx-a100-40gb:1"))
    for tokens in printed["tokens"]:
        most = _largest_batch(old, tokens, printed["software"])
        batches = [2**power for power in range(11) if _LEAST * most <= 2**power <= most]
        for batch, accumulate in ((size, count) for size in batches for count in (1, _STEP[tokens] // size)):
            run = _run(new, tokens, batch, accumulate, printed)
            rates = [costs.rate(each) for each in (replace(run, cluster=old, precision="fp32"), run)]
            yield Setting(tokens, batch, accumulate, *rates)


def _largest_batch(cluster: Cluster, tokens: int, software: str) -> int:
    known = load_software(software, cluster.gpu, "fp32")
    graph = load_network(f"bert-large-{tokens}", 1)
    return max(
        1, graph_memory(graph, cluster.gpu, "fp32", known, optimizer="lamb", gpus=cluster.gpus).largest_batch
    )


def _run(
    cluster: Cluster, tokens: int, batch: int, accumulate: int, printed: Mapping[str, Any]
) -> NetworkRun:
    return NetworkRun(
        network=f"bert-large-{tokens}", batch=batch, accumulate=accumulate, items=1.0, precision="tf32",
        fuse=printed["fuse"], channels_first=False, optimizer="lamb", software=printed["software"], cluster=cluster,
        gpus=cluster.gpus,
    )  # fmt: skip
