"""Small questions that only pages ask: names, levers of a machine, measured runs, drawings, rounds of a collective."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import Any

from podsim.accuracy.bands import residuals
from podsim.errors import PodsimError, check_name
from podsim.hardware.cluster import load_cluster
from podsim.network.collectives import ALGORITHMS, expand, summary
from podsim.options.question import NoOptions, option, overrides_option, question
from podsim.questions.machine.fabric import fabric
from podsim.questions.registry import ask
from podsim.report.fabric_svg import fabric_svg
from podsim.report.plain_data import plain_value


@question(NoOptions)
def catalog_names(options: NoOptions) -> dict[str, Any]:
    """Models and clusters with what a list shows of them."""
    return {"models": ask("models"), "clusters": ask("clusters")}


@dataclass(frozen=True, kw_only=True)
class LeverOptions:
    """A machine."""

    on: str = option("dgx-h100", "Cluster: dgx-a100-80gb:64, selene.", argument=True)


@question(LeverOptions)
def machine_levers(options: LeverOptions) -> dict[str, Any]:
    """The bandwidths (B/s) and the memory (B) of a machine by the keys that override them."""
    cluster = load_cluster(options.on)
    return {
        "name": cluster.name, "gpus": cluster.gpus,
        "levers": {
            "network.bandwidth": cluster.network.bandwidth, "nvlink.bandwidth": cluster.nvlink.bandwidth,
            "gpu.memory": cluster.gpu.memory, "gpu.memory_bandwidth": cluster.gpu.memory_bandwidth,
        },
    }  # fmt: skip


@question(NoOptions)
def measured_runs(options: NoOptions) -> dict[str, Any]:
    """A row for each run: measured and predicted utilisation, and the error of the predicted time, as shares."""
    rows = [
        {
            "id": run.id, "role": run.role, "source": run.source, "architecture": run.features.architecture,
            "software": run.software, "kind": run.features.kind,
            "gpus": run.gpus, "parameters": run.parameters, "tp": run.tp, "pp": run.pp, "measured": run.utilisation,
            "predicted": run.utilisation * exp(run.log_ratio), "error": exp(-run.log_ratio) - 1,
        }
        for run in residuals()
    ]  # fmt: skip
    return {"rows": rows}


@dataclass(frozen=True, kw_only=True)
class DrawingOptions:
    """What is drawn."""

    on: str = option("dgx-h100", "A cluster, or a fabric by name, as weka-a100.", argument=True)
    overrides: Any = overrides_option("network.bandwidth=100Gb/s")


@question(DrawingOptions)
def fabric_drawing(options: DrawingOptions) -> dict[str, Any]:
    """The data of `podsim show --fabric --json`, with the drawing as `svg`. Raises PodsimError for an unknown name."""
    drawing = fabric(str(options.on), overrides=options.overrides)
    return {**plain_value(drawing), "svg": fabric_svg(drawing)}


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
