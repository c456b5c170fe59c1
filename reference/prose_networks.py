"""Rows of vision_nlp_rec_training and mlperf_training in their sources' words -> canonical columns."""

from __future__ import annotations

import re
from collections.abc import Mapping

from podsim.accuracy.measured_runs import NotExpressible, read_cluster, read_count, write_settings
from podsim.accuracy.own_words import cluster_settings, find_node
from podsim.errors import PodsimError
from reference.training_runs import Run, find_run

COLUMNS = ("network", "cluster", "plan", "reason")
_PRECISIONS = {
    "FP16/mixed": "fp16", "FP16": "fp16", "AMP": "fp16", "TF32": "tf32", "FP32": "fp32", "BF16": "bf16",
}  # fmt: skip


def canonical(table: str, row: Mapping[str, str]) -> dict[str, str]:
    """The canonical columns of a row of the table "vision" or "mlperf"; a reason where nothing can be predicted."""
    blank = dict.fromkeys(COLUMNS, "")
    try:
        return blank | _run_cells(table, row)
    except (PodsimError, NotExpressible) as problem:
        return blank | {"reason": str(problem)}


def _run_cells(table: str, row: Mapping[str, str]) -> dict[str, str]:
    if row.get("task", "train") != "train":
        raise NotExpressible("inference is not modelled")
    run = find_run(table, row)
    if run is None:
        raise NotExpressible(f"no entry of reference/runs covers {row['framework']} training")
    if run.skip:
        raise NotExpressible(run.skip)
    gpus = read_count(row, "n_gpus" if table == "vision" else "n_accelerators")
    precision = _precision(row)
    batch, accumulate = _batch(run, row, precision)
    cluster = _cluster(row, gpus)
    read_cluster(cluster).subset(gpus)
    plan = {
        "gpus": gpus, "batch": batch, "accumulate": accumulate, "items": f"{run.items:g}", "precision": precision,
        "fuse": run.fuse, "channels_first": str(precision in run.channels_first).lower(),
        "optimizer": run.optimizer, "software": run.software,
    }  # fmt: skip
    return {"network": run.network, "cluster": cluster, "plan": write_settings("", plan)}


def _precision(row: Mapping[str, str]) -> str:
    """MLPerf's submissions on these GPUs all compute in fp16; the table has no column for it."""
    text = row.get("precision", "FP16/mixed")
    if text not in _PRECISIONS:
        raise NotExpressible(f"precision={text!r} is not one of {', '.join(_PRECISIONS)}")
    return _PRECISIONS[text]


def _batch(run: Run, row: Mapping[str, str], precision: str) -> tuple[int, int]:
    """(samples that a GPU computes at once, micro-batches of a step)."""
    accumulation = re.search(r"accum=(\d+)", row["notes"])
    text = accumulation[1] if accumulation else row.get("grad_accum", "")
    accumulate = int(text) if text.isdigit() else run.accumulate
    column = "batch_per_gpu" if "batch_per_gpu" in row else "batch_per_accel"
    cell = row[column].strip()
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


def _cluster(row: Mapping[str, str], gpus: int) -> str:
    gpu = row.get("gpu", row.get("accelerator", ""))
    node = find_node(gpu, row.get("node_type", row.get("system", "")))
    if node is None:
        raise NotExpressible(
            f"no node of the catalog has GPUs like {gpu!r}" if gpu else "the GPU is not given"
        )
    return cluster_settings(node, gpus, {})
