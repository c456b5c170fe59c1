"""Rows of vision_nlp_rec_training and mlperf_training in their sources' words -> network, cluster and plan.

A throughput becomes items per second of all GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from podsim.accuracy.measured_runs import (
    DESCRIBED,
    NotExpressible,
    cell_text,
    described_run,
    read_cluster,
    read_count,
    write_settings,
)
from podsim.accuracy.price_networks import NetworkRun, read_network_run
from podsim.accuracy.reading import read_number
from podsim.accuracy.recipes import MODEL_COLUMNS, Recipe, find_recipe
from podsim.accuracy.tables import find_kind
from podsim.errors import PodsimError
from podsim.graphs.networks import networks
from reference.cell_words import read_batch, read_precision, read_rate_unit
from reference.csv_rows import each_row
from reference.curate_inference import inference_cells
from reference.machine_words import cluster_settings, find_node
from reference.raw_cells import settled
from reference.recipes_of_projects import project_recipes

_PRECISIONS = ("fp16", "bf16", "tf32", "fp32", "fp8")
_MLPERF_PRECISION = "fp16"
"""The precision of MLPerf's submissions where a recipe states none; the table has no column for it."""
_SERVED = re.compile(r"(inference|evaluation) performance|paddle-?trt|paddle-?inference", re.IGNORECASE)
"""what notes say of rows of inference that are filed under training"""
_TOKENS = re.compile(r"Bx(\d+)(?::int64)?$")
"""The shape of an input of tokens."""


def curated(rows: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """The canonical rows of rows of mlperf_training or vision_nlp_rec_training."""
    table = "mlperf" if rows and "benchmark" in rows[0] else "vision"
    columns = [column for column in find_kind(table).columns if column != "tables"]
    return each_row(rows, columns, lambda row: canonical(table, row))


def canonical(table: str, row: Mapping[str, str]) -> dict[str, str]:
    """The canonical cells of a row; of one that states its plan in podsim's words they stay."""
    if cell_text(row, "plan"):
        return {}
    cells = settled(row, table)
    cells |= rate_cells(cells) if table == "vision" else {}
    try:
        return {**cells, "reason": "", **network_cells(table, cells)}
    except (PodsimError, NotExpressible) as problem:
        return {**cells, **dict.fromkeys(DESCRIBED, ""), "reason": str(problem)}


def rate_cells(row: Mapping[str, str]) -> dict[str, str]:
    """The throughput of a row as items per second of all GPUs; {} where it is that already."""
    unit = read_rate_unit(row["unit"]) if row.get("throughput") else None
    if unit is None or (unit.factor == 1.0 and not unit.is_per_gpu):
        return {}
    gpus = float(row.get("n_gpus") or 1.0) if unit.is_per_gpu else 1.0
    return {"throughput": repr(float(row["throughput"]) * unit.factor * gpus), "unit": f"{unit.counts}/s"}


def network_run(table: str, row: Mapping[str, str]) -> NetworkRun:
    """The run of a row in podsim's words or its own; NotExpressible with the reason."""
    if cell_text(row, "plan") or cell_text(row, "reason"):
        return described_run(row, read_network_run)
    try:
        return read_network_run({**row, **network_cells(table, row)})
    except PodsimError as error:
        raise NotExpressible(str(error)) from error


def network_cells(table: str, row: Mapping[str, str]) -> dict[str, str]:
    """The columns network, cluster and plan of a row of the table "vision" or "mlperf".

    Raises NotExpressible or a PodsimError with the reason why nothing can be predicted.
    """
    if not is_training(row):
        return inference_cells(row)
    recipe = find_recipe(table, row, project_recipes())
    if recipe is None:
        raise NotExpressible(_unknown_network(table, row))
    if recipe.skip:
        raise NotExpressible(recipe.skip)
    gpus, precision = _gpus(table, row), _precision(table, row, recipe)
    cluster = _cluster(row, gpus, recipe.gpu)
    if table == "mlperf":
        gpus = _training_gpus(row, gpus)
    batch, accumulate = _batch(recipe, row, gpus, precision)
    read_cluster(cluster).subset(gpus)
    plan = {
        "gpus": gpus, "batch": batch, "accumulate": accumulate, "items": f"{_items(recipe, row):g}",
        "precision": precision, "fuse": recipe.fuse, "channels_first": str(precision in recipe.channels_first).lower(),
        "optimizer": recipe.optimizer, "software": recipe.software,
    }  # fmt: skip
    return {"network": recipe.network, "cluster": cluster, "plan": write_settings("", plan)}


def is_training(row: Mapping[str, str]) -> bool:
    """Whether a row is of training; a blank task is, and no row whose notes say that it is of inference."""
    is_filed = re.search(r"infer|eval|serv|predict|test", cell_text(row, "task").lower())
    return not (is_filed or _SERVED.search(row.get("notes", "")))


def _unknown_network(table: str, row: Mapping[str, str]) -> str:
    model, framework = cell_text(row, MODEL_COLUMNS[table]), cell_text(row, "framework")
    return (
        f"no recipe covers {framework[:40]} training of {model.split('/')[-1][:60]}; "
        "a model may also be a name of `podsim show networks`"
    )


def _gpus(table: str, row: Mapping[str, str]) -> int:
    """The GPUs of a row; a GPU written as "8x A100" states them where the column is blank."""
    column = "n_gpus" if table == "vision" else "n_accelerators"
    text = cell_text(row, column)
    written = re.match(r"(\d+) ?[x*\u00d7] ?(?=\D)", row.get("gpu", row.get("accelerator", "")).strip())
    if not text and written:
        return int(written[1])
    if not text and table == "mlperf" and cell_text(row, "accel_per_node"):
        return read_count(row, "n_nodes", 1) * read_count(row, "accel_per_node")
    return read_count(row, column)


def _training_gpus(row: Mapping[str, str], gpus: int) -> int:
    """The GPUs that train: a submission whose batch has fewer samples than there are GPUs evaluates on the others."""
    batch = read_number(cell_text(row, "global_batch"))
    return int(batch) if batch and 1 <= batch < gpus else gpus


def _precision(table: str, row: Mapping[str, str], recipe: Recipe) -> str:
    text = cell_text(row, "precision") or recipe.precision or (_MLPERF_PRECISION if table == "mlperf" else "")
    if not text:
        raise NotExpressible("the precision is not given")
    name = read_precision(text)
    if name not in _PRECISIONS:
        raise NotExpressible(f"precision={text!r} is not one of {', '.join(_PRECISIONS)}, amp")
    return name


def _items(recipe: Recipe, row: Mapping[str, str]) -> float:
    """The row's units in one sample: 1 if it counts samples, else the tokens or frames of a sample."""
    unit = read_rate_unit(cell_text(row, "unit")) if cell_text(row, "unit") else None
    if unit is None or unit.counts == recipe.counts:
        return recipe.items
    if unit.counts == "samples":
        return 1.0
    if unit.counts == "tokens" and recipe.counts == "samples":
        shapes = [_TOKENS.match(shape) for shape in networks()[recipe.network].inputs]
        if shapes and shapes[0]:
            return float(shapes[0][1])
    raise NotExpressible(
        f"unit={row['unit'][:40]!r} counts {unit.counts}, and how many a sample of {recipe.network} has is not stated"
    )


def _batch(recipe: Recipe, row: Mapping[str, str], gpus: int, precision: str) -> tuple[int, int]:
    """(samples that a GPU computes at once, micro-batches of a step)."""
    accumulation = re.search(r"accum=(\d+)", row.get("notes", ""))
    text = accumulation[1] if accumulation else cell_text(row, "grad_accum")
    accumulate = int(float(text)) if read_number(text) else recipe.accumulate
    column = "batch_per_gpu" if "batch_per_gpu" in row else "batch_per_accel"
    cell = cell_text(row, column)
    if not cell and column == "batch_per_accel" and cell_text(row, "global_batch"):
        cell = f"{row['global_batch']} global"
    stated = read_batch(cell, precision) if cell else None
    if stated is None:
        usual = _unstated_batch(recipe, gpus, precision)
        if usual is None:
            raise NotExpressible(
                f"{column}={cell[:40]!r} is not a number" if cell else f"{column} is not given"
            )
        return usual, accumulate
    batch, is_of_all = stated
    is_of_all = is_of_all or recipe.batch_is == "total"
    # MLPerf divides the batch of a step, with its accumulation, by the accelerators
    is_of_step = recipe.batch_is == "step" or column == "batch_per_accel" or is_of_all
    samples = batch / (gpus if is_of_all else 1) / (accumulate if is_of_step else 1)
    samples /= recipe.length if recipe.batch_is == "tokens" else 1.0
    if column == "batch_per_accel" and gpus < _gpus("mlperf", row):
        samples = 1.0
    if samples < 0.5:
        raise NotExpressible(f"{column}={cell} is less than one sample on a GPU")
    return round(samples), accumulate


def _unstated_batch(recipe: Recipe, gpus: int, precision: str) -> int | None:
    if recipe.total:
        return max(1, round(recipe.total / gpus))
    batch = recipe.batch.get(precision) if isinstance(recipe.batch, Mapping) else recipe.batch
    return None if batch is None else round(batch)


def _cluster(row: Mapping[str, str], gpus: int, usual: str) -> str:
    gpu = cell_text(row, "gpu") or cell_text(row, "accelerator") or usual
    node = find_node(gpu, row.get("node_type", row.get("system", "")))
    if node is None:
        raise NotExpressible(
            f"no node of the catalog has GPUs like {gpu!r}" if gpu else "the GPU is not given"
        )
    each = read_count(row, "accel_per_node", 0) if cell_text(row, "accel_per_node") != "0" else 0
    return cluster_settings(node, gpus, {}, each)
