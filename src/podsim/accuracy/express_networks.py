"""A row of the tables of vision, language, speech and recommendation training, or of MLPerf, as a run of a network."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from podsim.accuracy.express_machine import machine, node_of
from podsim.accuracy.express_row import NotExpressible, whole
from podsim.accuracy.runs import Run, run_of
from podsim.errors import PodsimError
from podsim.hardware.cluster import Cluster


@dataclass(frozen=True, kw_only=True)
class NetworkRun:
    """A row as podsim's nouns: replicas of a captured network."""

    network: str
    batch: int
    """samples that a GPU computes at once"""
    accumulate: int
    """micro-batches of a step"""
    items: float
    """what the row's unit counts in one sample"""
    precision: str
    fuse: str
    channels_first: bool
    optimizer: str
    software: str
    cluster: Cluster
    gpus: int


_PRECISIONS = {
    "FP16/mixed": "fp16",
    "FP16": "fp16",
    "AMP": "fp16",
    "TF32": "tf32",
    "FP32": "fp32",
    "BF16": "bf16",
}


def express_network(table: str, row: Mapping[str, str]) -> NetworkRun:
    """The row of a table ("vision" or "mlperf") as a run; NotExpressible with the reason."""
    if row.get("task", "train") != "train":
        raise NotExpressible("inference is not modelled")
    run = run_of(table, row)
    if run is None:
        name = row.get("model", row.get("benchmark", "")).split("/")[-1]
        raise NotExpressible(
            f"no run of podsim.accuracy.runs covers {row.get('framework', '')[:40]} training of {name[:60]}; a model may "
            "also be a name of `podsim show networks`"
        )
    if run.skip:
        raise NotExpressible(run.skip)
    gpus = whole(row, "n_gpus" if table == "vision" else "n_accelerators")
    precision = _precision(row)
    batch, accumulate = _batch(run, row, precision)
    try:
        cluster = _cluster(row, gpus)
    except PodsimError as error:
        raise NotExpressible(str(error)) from error
    return NetworkRun(
        network=run.network, batch=batch, accumulate=accumulate, items=run.items, precision=precision,
        fuse=run.fuse, channels_first=precision in run.channels_first,
        optimizer=run.optimizer, software=run.software, cluster=cluster, gpus=gpus,
    )  # fmt: skip


def _precision(row: Mapping[str, str]) -> str:
    """MLPerf's submissions on these GPUs all compute in fp16; the table has no column for it."""
    said = row.get("precision", "FP16/mixed")
    if said not in _PRECISIONS:
        raise NotExpressible(f"precision={said!r} is not one of {', '.join(_PRECISIONS)}")
    return _PRECISIONS[said]


def _batch(run: Run, row: Mapping[str, str], precision: str) -> tuple[int, int]:
    """(samples that a GPU computes at once, micro-batches of a step)."""
    said = re.search(r"accum=(\d+)", row.get("notes", ""))
    text = said[1] if said else row.get("grad_accum", "")
    accumulate = int(text) if text.isdigit() else run.accumulate
    column = "batch_per_gpu" if "batch_per_gpu" in row else "batch_per_accel"
    cell = row.get(column, "").strip()
    if not cell or run.batch_is == "given":
        own = run.batch.get(precision) if isinstance(run.batch, Mapping) else run.batch
        if own is None:
            raise NotExpressible(
                f"{column} is not given" if not cell else f"{column}={cell[:40]!r} is not understood"
            )
        return round(own), accumulate
    try:
        batch = float(cell)
    except ValueError:
        raise NotExpressible(f"{column}={cell[:40]!r} is not a number") from None
    samples = batch / {"step": accumulate, "tokens": run.length}.get(run.batch_is, 1.0)
    if column == "batch_per_accel":  # MLPerf divides the batch of a whole step by the accelerators
        samples /= accumulate
    if samples < 0.5:
        raise NotExpressible(f"{column}={cell} is less than one sample on a GPU")
    return round(samples), accumulate


def _cluster(row: Mapping[str, str], gpus: int) -> Cluster:
    gpu = row.get("gpu", row.get("accelerator", ""))
    system = row.get("node_type", row.get("system", ""))
    node = node_of(gpu, system)
    if node is None:
        raise NotExpressible(
            f"no node of the catalog has GPUs like {gpu!r}" if gpu else "the GPU is not given"
        )
    return machine(node, gpus).subset(gpus)
