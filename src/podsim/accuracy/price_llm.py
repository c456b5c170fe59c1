"""Predictions for rows of a table of language models. Rows of one model, cluster and software are one array of plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.accuracy.measured_reach import stated_band
from podsim.accuracy.measured_runs import (
    TrainingRun,
    cell_text,
    described_run,
    described_runs,
    read_training_run,
    usable_memory,
)
from podsim.accuracy.own_plans import own_plan_note
from podsim.accuracy.score import Priced
from podsim.accuracy.tables import Rows
from podsim.axes import Floats
from podsim.hardware.cluster import Cluster
from podsim.hardware.parts import PRECISIONS
from podsim.training.batch import prepare, step_cost
from podsim.training.layers import layer_table
from podsim.training.layout import Stages
from podsim.training.memory import memory_kind_bytes
from podsim.training.plan import Plan
from podsim.training.plan_values import ARRAY_FIELDS, Recompute
from podsim.training.predict import flops_per_token
from podsim.training.software import Software, load_software
from podsim.units import format_quantity
from podsim.workload.model import Model

FIRST_STAGE = "first stage"
"""The scope of a row that counts the layers of the first stage only."""
_SHARED = tuple(field.name for field in fields(Plan) if field.name not in ARRAY_FIELDS)
"""The fields that all plans of an array have alike."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Rows that one call prices."""

    model: Model
    cluster: Cluster
    plan: Plan
    """The plans of the rows: each numeric field is an array with a value for each row."""
    layer_only: bool
    """Whether one layer was measured, not a step."""
    index: NDArray[np.intp]
    """The positions of the rows among all rows."""


@dataclass(frozen=True, kw_only=True)
class RowCosts:
    """Predictions for rows, an array element for each."""

    seconds: Floats
    """s. The time of a step, or of one layer forward and backward where only that was measured."""
    memory: Floats
    """B. The memory of a GPU on the fullest stage."""


def training_run(row: Mapping[str, str]) -> TrainingRun:
    """The run of a row; NotExpressible with the reason."""
    return described_run(row, read_training_run)


def training_runs(rows: Sequence[Mapping[str, str]]) -> tuple[list[tuple[int, TrainingRun]], dict[int, str]]:
    """(position, run) of the rows that podsim can express, and the reason for each of the others by position."""
    runs, reasons = described_runs(enumerate(rows), read_training_run)
    return list(runs.items()), reasons


def make_batches(runs: Sequence[TrainingRun]) -> list[Batch]:
    """Groups of runs that differ only in the numeric fields of their plans."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for position, run in enumerate(runs):
        shared = tuple(getattr(run.plan, name) for name in _SHARED)
        groups.setdefault((id(run.model), id(run.cluster), shared, run.layer_only), []).append(position)
    batches = []
    for members in groups.values():
        first = runs[members[0]]
        columns: dict[str, Any] = {
            name: np.array([getattr(runs[i].plan, name) for i in members]) for name in ARRAY_FIELDS
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
    """Seconds and bytes of every row; `software` replaces the catalog entry of every plan."""
    count = sum(batch.index.size for batch in batches)
    seconds, memory = np.empty(count), np.empty(count)
    for batch in batches:
        cost = step_cost(batch.model, batch.cluster, batch.plan, software=software)
        seconds[batch.index] = _layer_seconds(batch, software) if batch.layer_only else cost.seconds
        memory[batch.index] = cost.memory
    return RowCosts(seconds=seconds, memory=memory)


def row_seconds(batches: Sequence[Batch], software: Software | None = None) -> Floats:
    """Seconds of every row."""
    return row_costs(batches, software).seconds


def _layer_seconds(batch: Batch, software: Software | None) -> Floats:
    """Seconds of one layer forward and backward with its recomputation, for each row."""
    plan = batch.plan.arrays()
    software = software or load_software(plan.software, batch.cluster.gpu, plan.precision)
    by_pass = layer_table(batch.model, batch.cluster, plan, software)[:, :, 1].sum(axis=1)
    recompute = np.asarray(plan.recompute, dtype=int)
    return np.asarray(by_pass[0] + by_pass[1 + recompute, np.arange(recompute.size)])


def price_llm(rows: Rows) -> Priced:
    """Predictions of seconds per step, bytes, or a rate, for the rows of a training table."""
    texts = [row.fields for row in rows]
    runs, reasons = training_runs(texts)
    ids = [rows.rows[position].id for position, _ in runs]
    batches = make_batches([run for _, run in runs])
    ideals, bands = np.empty(0), {}
    if rows.what == "bytes":
        values, notes = _memory_bytes(batches, [cell_text(texts[position], "scope") for position, _ in runs])
    else:
        costs = row_costs(batches)
        values, ideals = quantity_values(rows.what, batches, costs.seconds)
        if rows.what == "FLOP/s per GPU":
            values *= [_recomputation_factor(run, texts[position]) for position, run in runs]
        notes = [
            _note(run, texts[position], memory)
            for (position, run), memory in zip(runs, costs.memory.tolist(), strict=True)
        ]
        bands = _bands(rows.what, ids, [run for _, run in runs], values, costs.seconds)
        if rows.with_own_plans:
            own = [
                own_plan_note(run, m, bands[id])
                for id, (_, run), m in zip(ids, runs, costs.memory.tolist(), strict=True)
            ]
            notes = ["; ".join(filter(None, texts)) for texts in zip(own, notes, strict=True)]
    return Priced(
        predictions=dict(zip(ids, values.tolist(), strict=True)),
        reasons={rows.rows[position].id: reason for position, reason in reasons.items()},
        ideals={} if rows.what == "bytes" else dict(zip(ids, ideals.tolist(), strict=True)),
        notes={id: note for id, note in zip(ids, notes, strict=True) if note},
        bands=bands,
    )


def _bands(
    what: str, ids: Sequence[str], runs: Sequence[TrainingRun], values: Floats, seconds: Floats
) -> dict[str, tuple[float, float]]:
    """(low, high) of the error band of each run's quantity, by id; a layer has none."""
    bands = {}
    for id, run, value, step in zip(ids, runs, values.tolist(), seconds.tolist(), strict=True):
        if not run.layer_only:
            band, _ = stated_band(run.model, run.cluster, run.plan, step)
            low, high = 1 + band.low, 1 + band.high
            is_time = what == "seconds per step"
            bands[id] = (value * low, value * high) if is_time else (value / high, value / low)
    return bands


def _work(batches: Sequence[Batch], count: int) -> tuple[Floats, ...]:
    """(FLOPs of the model in a step, tokens in a step, GPUs, FLOP/s of a GPU) of every row."""
    flops, tokens, gpus, peak = (np.empty(count) for _ in range(4))
    for batch in batches:
        plan, length = batch.plan, batch.plan.length(batch.model)
        forward = batch.model.forward_flops(length)
        once = sum(forward.values())
        if batch.layer_only:
            once = (once - forward["logits"]) / batch.model.layer_count
        tokens[batch.index] = np.asarray(plan.global_batch, dtype=float) * length
        flops[batch.index] = 3.0 * once * tokens[batch.index]
        gpus[batch.index] = np.asarray(plan.gpus)
        peak[batch.index] = batch.cluster.gpu.peaks[PRECISIONS[plan.precision].matmul]
    return flops, tokens, gpus, peak


def quantity_values(what: str, batches: Sequence[Batch], seconds: Floats) -> tuple[Floats, Floats]:
    """(predicted, at full peak) of a quantity; FLOPs are the model's, attention in full, no recomputation."""
    flops, tokens, gpus, peak = _work(batches, seconds.size)
    least = flops / (gpus * peak)
    if what == "tokens/s per GPU":
        return tokens / seconds / gpus, tokens / least / gpus
    if what == "FLOP/s per GPU":
        return flops / seconds / gpus, peak
    return seconds, least


def _recomputation_factor(run: TrainingRun, row: Mapping[str, str]) -> float:
    """FLOPs with recomputation over the model's, for a row that publishes its rate as HFU, not as MFU; else 1."""
    if cell_text(row, "mfu") or not cell_text(row, "hfu"):
        return 1.0
    flops = flops_per_token(run.model, run.plan)
    return flops["hardware"] / flops["model"]


def _offloaded_bytes(run: TrainingRun) -> float:
    """B. The inputs of layers, all that full recomputation keeps, where recipes hold them in the hosts' memory.

    Two layers' inputs stay, one in use and one on its way.
    """
    plan, model = run.plan, run.model
    if not load_software(plan.software, run.cluster.gpu).offloads or plan.recompute != Recompute.FULL:
        return 0.0
    tokens = (
        plan.micro_batch
        * (plan.sequence or model.sequence)
        / (plan.cp * (plan.tp if plan.sequence_parallel else 1))
    )
    return float(2.0 * tokens * model.hidden * max(0, model.layer_count / plan.pp - 2))


def _note(run: TrainingRun, row: Mapping[str, str], memory: float) -> str:
    """What a row's prediction covers if not a step, what podsim chose, and the utilisation that its source published.

    `memory`: B of the fullest stage. A plan that needs more than its GPU has is priced, and said to.
    """
    texts = ["one layer, forward and backward"] if run.layer_only else []
    usable = usable_memory(run.cluster.gpu)
    if memory > usable and not run.layer_only:
        room, inputs = format_quantity(run.cluster.gpu.memory, "B"), _offloaded_bytes(run)
        is_enough = memory - inputs <= usable
        held = (
            f"; {format_quantity(inputs, 'B')} of layers' inputs lie in the hosts' memory"
            if is_enough
            else ""
        )
        texts.append(
            f"{'needs' if is_enough else 'does not fit:'} {format_quantity(memory, 'B')} of {room}{held}"
        )
    texts += [text for text in (run.chosen, run.implied) if text]
    for column in ("mfu", "hfu"):
        if row.get(column):
            texts.append(f"published {column.upper()} {float(row[column]):.1%}, by the source's own count")
    return "; ".join(texts)


def _memory_bytes(batches: Sequence[Batch], scopes: Sequence[str]) -> tuple[Floats, list[str]]:
    """(B of each row, note of each row), counted as each source counts.

    arXiv 2205.05198 (figure 1) counts the layers of the first stage: parameters, gradients and optimizer at 18 B per
    parameter, and activations. It leaves out embedding, logits, buffers and the framework itself; so does the scope
    "first stage". torchtitan logs the memory that the allocator reserved at the peak of the fullest stage, without
    context, libraries and communicators.
    """
    predicted = row_costs(batches).memory
    notes = ["peak of the fullest stage"] * len(scopes)
    for batch in batches:
        software = load_software(batch.plan.software, batch.cluster.gpu)
        if software.runtime == "torch":
            predicted[batch.index] -= software.memory_floor
            for position in batch.index.tolist():
                notes[position] = "bytes that the allocator of the fullest stage reserves"
        for position, value in zip(batch.index.tolist(), _first_stage_bytes(batch), strict=True):
            if scopes[position] == FIRST_STAGE:
                predicted[position] = value
                notes[position] = "layers of the first stage: parameters, gradients, optimizer, activations"
    return predicted, notes


def _first_stage_bytes(batch: Batch) -> Floats:
    """B of weights, gradients, optimizer and activations of the layers of the first stage, plan by plan."""
    ready = prepare(batch.model, batch.cluster, batch.plan)
    plan, every = ready.plan.wide(), slice(None)
    stages = ready.stages.of(every)
    layers = stages.blocks.copy()
    layers[:, [0, -1]] = 0
    own = Stages(blocks=layers, count=stages.count, first=stages.first, last=stages.last)
    kinds = memory_kind_bytes(plan, ready.software, own, ready.weights.of(every), ready.activations.of(every))
    total = np.asarray(sum(kinds[:4]))
    first = np.where(stages.count > 0, stages.first, np.inf).argmin(axis=0)
    return np.asarray(total[first, np.arange(first.size)])
