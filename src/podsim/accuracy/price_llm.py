"""Rows of a training table predicted together: those of one model, cluster and software are one array of plans.

Axes: R rows; X parts of a step, P plans of a batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.accuracy.measured_runs import (
    NotExpressible,
    TrainingRun,
    cell_text,
    is_described,
    read_training_run,
)
from podsim.accuracy.own_rows import own_training_run
from podsim.accuracy.score import Priced
from podsim.accuracy.tables import Rows
from podsim.errors import PodsimError
from podsim.hardware.cluster import Cluster
from podsim.hardware.parts import PRECISIONS
from podsim.training.batch import prepare, step_cost
from podsim.training.layers import layer_table
from podsim.training.memory import held_memory, memory_kind_bytes
from podsim.training.plan import Plan
from podsim.training.plan_values import ARRAY_FIELDS
from podsim.training.predict import flops_per_token
from podsim.training.software import Software, load_software
from podsim.training.step import SPLIT
from podsim.workload.graph import Model

FIRST_STAGE = "first stage"
"""the scope of a row that counts the layers of the first stage only"""
HOST_PARTS = ("launch", "host")
"""parts of a step in which the GPU waits for the host"""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Rows that one call prices."""

    model: Model
    cluster: Cluster
    plan: Plan
    """array fields, one value per row"""
    layer_only: bool
    index: NDArray[np.intp]
    """positions of its rows among all"""


@dataclass(frozen=True, kw_only=True)
class RowCosts:
    """What is predicted of R rows."""

    seconds_R: NDArray[np.float64]
    """s of a step, or of one layer forward and backward where only that was measured"""
    memory_R: NDArray[np.float64]
    """B on the fullest stage"""
    host_R: NDArray[np.float64]
    """share of a step in which the GPU waits for the host"""


def training_run(row: Mapping[str, str]) -> TrainingRun:
    """The run of a row; NotExpressible with the reason."""
    if cell_text(row, "reason"):
        raise NotExpressible(row["reason"])
    try:
        return read_training_run(row) if is_described(row) else own_training_run(row)
    except PodsimError as error:
        raise NotExpressible(str(error)) from error


def training_runs(rows: Sequence[Mapping[str, str]]) -> tuple[list[tuple[int, TrainingRun]], dict[int, str]]:
    """(position, nouns) of the rows that podsim can express, and the reason for each of the others."""
    found, reasons = [], {}
    for position, row in enumerate(rows):
        try:
            found.append((position, training_run(row)))
        except NotExpressible as problem:
            reasons[position] = str(problem)
    return found, reasons


def make_batches(found: Sequence[TrainingRun]) -> list[Batch]:
    """The rows grouped so that each group differs in the numeric fields of its plans only."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for position, one in enumerate(found):
        plan = one.plan
        key = (id(one.model), id(one.cluster), plan.software, plan.precision, plan.optimizer_precision)
        groups.setdefault((*key, plan.sequence, one.layer_only), []).append(position)
    batches = []
    for members in groups.values():
        first = found[members[0]]
        columns: dict[str, Any] = {
            name: np.array([getattr(found[i].plan, name) for i in members]) for name in ARRAY_FIELDS
        }
        batches.append(
            Batch(
                model=first.model,
                cluster=first.cluster,
                plan=first.plan.having(columns),
                layer_only=first.layer_only,
                index=np.array(members),
            )
        )
    return batches


def row_costs(batches: Sequence[Batch], software: Software | None = None) -> RowCosts:
    """Seconds and bytes of every row; `software` replaces the catalog's entry of every plan."""
    count = sum(batch.index.size for batch in batches)
    seconds_R, memory_R, host_R = np.empty(count), np.empty(count), np.empty(count)
    waiting = [SPLIT.index(part) for part in HOST_PARTS]
    for batch in batches:
        cost = step_cost(batch.model, batch.cluster, batch.plan, software=software)
        seconds_R[batch.index] = _layer_seconds(batch, software) if batch.layer_only else cost.seconds
        memory_R[batch.index] = cost.memory
        host_R[batch.index] = cost.parts[waiting].sum(axis=0) / cost.seconds
    return RowCosts(seconds_R=seconds_R, memory_R=memory_R, host_R=host_R)


def row_seconds(batches: Sequence[Batch], software: Software | None = None) -> NDArray[np.float64]:
    """Seconds of every row (R,)."""
    return row_costs(batches, software).seconds_R


def _layer_seconds(batch: Batch, software: Software | None) -> NDArray[np.float64]:
    """Seconds of one layer forward and backward, its recomputation included (R,)."""
    plan = batch.plan.arrays()
    era = software or load_software(plan.software, batch.cluster.gpu)
    table_YXBK = layer_table(batch.model, batch.cluster, plan, era)
    seconds_YK = table_YXBK[:, :, 1].sum(axis=1)
    again_K = np.asarray(plan.recompute, dtype=int)
    return np.asarray(seconds_YK[0] + seconds_YK[1 + again_K, np.arange(again_K.size)])


def price_llm(rows: Rows) -> Priced:
    """Predictions of seconds per step, bytes, or a rate, for the rows of a training table."""
    texts = [row.fields for row in rows]
    found, reasons = training_runs(texts)
    places = [position for position, _ in found]
    batches = make_batches([one for _, one in found])
    if rows.what == "bytes":
        values, notes = price_memory(batches, [cell_text(texts[p], "scope") for p in places])
        ideals: NDArray[np.float64] | None = None
    else:
        values, ideals = quantity_values(rows.what, batches, row_seconds(batches))
        if rows.what == "FLOP/s per GPU":
            values *= [_recomputed(one, texts[p]) for p, one in found]
        notes = [_note(one, texts[p]) for p, one in found]
    ids = [row.id for row in rows]
    return Priced(
        predictions={ids[p]: float(v) for p, v in zip(places, values, strict=True)},
        reasons={ids[p]: why for p, why in reasons.items()},
        ideals={} if ideals is None else {ids[p]: float(v) for p, v in zip(places, ideals, strict=True)},
        notes={ids[p]: note for p, note in zip(places, notes, strict=True) if note},
    )


def _work(batches: Sequence[Batch], count: int) -> tuple[NDArray[np.float64], ...]:
    """(FLOPs of the model in a step, tokens in a step, GPUs, FLOP/s of a GPU), each of shape (R,)."""
    flops_R, tokens_R, gpus_R, peak_R = (np.empty(count) for _ in range(4))
    for batch in batches:
        plan, length = batch.plan, batch.plan.length(batch.model)
        forward = batch.model.forward_flops(length)
        once = sum(forward.values())
        if batch.layer_only:
            once = (once - forward["logits"]) / batch.model.layer_count
        tokens = np.asarray(plan.global_batch, dtype=float) * length
        flops_R[batch.index] = 3.0 * once * tokens
        tokens_R[batch.index] = tokens
        gpus_R[batch.index] = np.asarray(plan.gpus)
        peak_R[batch.index] = batch.cluster.gpu.peaks[PRECISIONS[plan.precision].matmul]
    return flops_R, tokens_R, gpus_R, peak_R


def quantity_values(
    what: str, batches: Sequence[Batch], seconds_R: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(predicted, at full peak) of a quantity; FLOPs are the model's, attention in full, no recomputation."""
    flops_R, tokens_R, gpus_R, peak_R = _work(batches, seconds_R.size)
    least_R = flops_R / (gpus_R * peak_R)
    if what == "tokens/s per GPU":
        return tokens_R / seconds_R / gpus_R, tokens_R / least_R / gpus_R
    if what == "FLOP/s per GPU":
        return flops_R / seconds_R / gpus_R, peak_R
    return seconds_R, least_R


def _recomputed(one: TrainingRun, row: Mapping[str, str]) -> float:
    """FLOPs with recomputation over the model's, for a row that publishes its rate as HFU, not as MFU; else 1."""
    if cell_text(row, "mfu") or not cell_text(row, "hfu"):
        return 1.0
    flops = flops_per_token(one.model, one.plan)
    return flops["hardware"] / flops["model"]


def _note(one: TrainingRun, row: Mapping[str, str]) -> str:
    """What a row's prediction is of, where that is not a whole step, and the utilisation its source published."""
    told = ["one layer, forward and backward"] if one.layer_only else []
    told += [text for text in (one.chosen, one.implied) if text]
    for column in ("mfu", "hfu"):
        if row.get(column):
            told.append(f"published {column.upper()} {float(row[column]):.1%}, by the source's own count")
    return "; ".join(told)


def price_memory(batches: Sequence[Batch], scopes: Sequence[str]) -> tuple[NDArray[np.float64], list[str]]:
    """(B of each row, note of each row), shape (R,), like held against like.

    Korthikanti et al. (Figure 1) count the first stage's layers: parameters, gradients and optimizer at 18 B per
    parameter, and activations; neither embedding, logits, buffers nor what the framework itself takes. Rows of the scope
    "first stage" are held against just that. torchtitan logs what the allocator reserved: the peak of the
    fullest stage, without what lies beside the allocator (context, libraries, communicators).
    """
    bytes_R = row_costs(batches).memory_R
    told = ["peak of the fullest stage"] * len(scopes)
    for batch in batches:
        software = load_software(batch.plan.software, batch.cluster.gpu)
        if software.runtime == "torch":
            bytes_R[batch.index] -= software.memory_floor
            for position in batch.index.tolist():
                told[position] = "bytes that the allocator of the fullest stage reserves"
        layers_P = _first_layers(batch)
        for position, value in zip(batch.index.tolist(), layers_P, strict=True):
            if scopes[position] == FIRST_STAGE:
                bytes_R[position] = value
                told[position] = "layers of the first stage: parameters, gradients, optimizer, activations"
    return bytes_R, told


def _first_layers(batch: Batch) -> NDArray[np.float64]:
    """B of weights, gradients, optimizer and activations of the layers of the first stage, plan by plan."""
    ready = prepare(batch.model, batch.cluster, batch.plan)
    plan, every = ready.plan.wide(), slice(None)
    stages = ready.stages.of(every)
    layers = stages.blocks.copy()
    layers[:, [0, -1]] = 0
    held = held_memory(
        plan,
        ready.software,
        replace(stages, blocks=layers),
        ready.weights.of(every),
        ready.activations.of(every),
    )
    total = np.asarray(sum(memory_kind_bytes(plan, ready.software, held)[:4]))
    first = np.where(stages.count > 0, stages.first, np.inf).argmin(axis=0)
    return np.asarray(total[first, np.arange(first.size)])
