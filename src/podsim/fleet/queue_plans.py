"""Jobs of a trace with a model and plan instead of a length, which `predict` gives.

A row with `model`, `plan` (such as "tp=8 dp=4 batch=64") and `steps` gets its GPUs, its seconds, and its speed on more
nodes and under more leaves.  `gpus` sets the number of GPUs: fewer replicas than in the plan, with the same batch.
`mig` sets the instance.  A job with more GPUs than the cluster keeps that number and gets no length: the queue names
it and runs the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any, TypeAlias

from podsim.errors import PodsimError, TableError, unknown_name
from podsim.fleet.csv_rows import PACES, Row
from podsim.fleet.elastic import DOUBLINGS
from podsim.fleet.planned import placed_step_seconds, reduce_replicas
from podsim.fleet.queue_state import NOTCHES
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.options.plan_options import PlanOptions
from podsim.options.question import options_of
from podsim.training.plan import Plan, read_plan
from podsim.workload.model import Model

_KINDS = {name: known.kind for name, known in options_of(PlanOptions).items()}
_WHOLE = tuple(name for name, kind in _KINDS.items() if kind is int)
_TEXT = tuple(
    name for name, kind in _KINDS.items() if kind is str and name not in ("model", "on", "overrides")
)
_SHOWN = 5
_RIGID = " ".join(["0"] * NOTCHES)
Planned: TypeAlias = tuple[int, tuple[float, float, float], str]
"""(GPUs, s of a step by distance class, text of the speeds at each size)"""
_NEVER = (0.0, 1.0, 1.0)
"""s. The step times of a job that the machine can never run."""


def read_cell(cell: str) -> dict[str, Any]:
    """The options of podsim.predict in a text such as "tp=8 dp=4 batch=64 zero=1". Raises PodsimError."""
    options: dict[str, Any] = {}
    for part in re.split(r"[\s,;]+", cell.strip()):
        key, equals, value = part.partition("=")
        if not part:
            continue
        if not equals or key not in (*_WHOLE, *_TEXT):
            raise PodsimError(
                f"plan: {unknown_name('option', key[:40], (*_WHOLE, *_TEXT))}; as tp=8 dp=4 batch=64"
            )
        if key in _WHOLE and not value.isdigit():
            raise PodsimError(f"plan: {key}={value[:20]!r} must be a whole number")
        options[key] = int(value) if key in _WHOLE else value
    return options


def make_plan_filler(on: str, taper: float, *, elastic: bool = False) -> Callable[[list[Row]], list[Row]]:
    """A function that completes rows with a model, on a cluster whose leaf uplinks have a share `taper` of bandwidth.

    `elastic`: also with their speeds on other numbers of GPUs.
    """

    def fill(rows: list[Row]) -> list[Row]:
        if "model" not in rows[0] or "steps" not in rows[0]:
            if taper != 1:
                raise PodsimError(
                    f"taper={taper:g}: it affects jobs with a model and steps only, and the trace has none"
                )
            return rows
        if re.fullmatch(r"[\d\sxX]+", on):
            raise PodsimError(
                f"on={on}: the jobs have a model and plan; name their cluster, such as dgx-a100-80gb:8"
            )
        known: dict[tuple[str, ...], Planned] = {}
        made, wrong = [], []
        for number, row in enumerate(rows):
            if not row["model"]:
                made.append({**row, PACES: _RIGID} if elastic else row)
                continue
            try:
                made.append(_fill_row(row, on, taper, known, elastic=elastic))
            except PodsimError as error:
                wrong.append(f"row {number + 1}: {error}")
        if wrong:
            more = f"; and {len(wrong) - _SHOWN:,} more" if len(wrong) > _SHOWN else ""
            raise TableError("; ".join(wrong[:_SHOWN]) + more)
        return made

    return fill


def _fill_row(
    row: Row, on: str, taper: float, known: dict[tuple[str, ...], Planned], *, elastic: bool
) -> Row:
    """The row of a job, with its GPUs, seconds and speeds."""
    model, plan, count, mig = key = tuple(
        row.get(name, "").strip() for name in ("model", "plan", "gpus", "mig")
    )
    steps = row["steps"].strip()
    if not steps.isdigit() or int(steps) < 1:
        raise PodsimError(f"steps={steps[:20]!r} must be a whole number of at least 1")
    if key not in known:
        known[key] = _plan_step(model, plan, count, mig, on, taper, elastic=elastic)
    gpus, (best, more, far), paces = known[key]
    return {
        **row, "gpus": str(gpus), "seconds": repr(best * int(steps)), "across_nodes": repr(_speed_ratio(best, more)),
        "across_leaves": repr(_speed_ratio(best, far)),
        **({PACES: paces} if elastic else {}),
    }  # fmt: skip


def _speed_ratio(best: float, other: float) -> float:
    return min(best / other, 1.0) if best else 1.0


def _named_gpus(options: dict[str, Any]) -> int:
    """The number of GPUs in the options of a plan; 0 if they leave it to the row or the cluster."""
    if "gpus" in options:
        return int(options["gpus"])
    return int(prod(options.get(name, 1) for name in ("tp", "pp", "cp", "dp"))) if "dp" in options else 0


def _shrink_options(options: dict[str, Any], gpus: int) -> dict[str, Any]:
    """The options with as many replicas as `gpus` hold, and the same batch."""
    block = int(prod(options.get(name, 1) for name in ("tp", "pp", "cp")))
    if gpus % block:
        raise PodsimError(f"{gpus} GPUs: one replica takes {block}; a multiple of it would work")
    return {name: value for name, value in options.items() if name not in ("gpus", "dp")} | {"gpus": gpus}


def _plan_step(
    model: str, plan: str, gpus: str, mig: str, on: str, taper: float, *, elastic: bool
) -> Planned:
    """(GPUs, seconds of a step on one node, on several, under several leaves, speeds) of a model under a plan."""
    if gpus and not (gpus.isdigit() and int(gpus)):
        raise PodsimError(f"gpus={gpus[:20]!r} must be a whole number of at least 1")
    machine = load_cluster(on)
    where = f"{machine.gpu.name}/{mig}" if mig else on
    options = read_cell(plan)
    named = _named_gpus(options)
    asked = int(gpus) if gpus else named
    if asked > machine.gpus and not mig:
        return asked, _NEVER, _RIGID
    if not {"gpus", "dp"} & set(options):
        options["gpus"] = 1 if mig or not gpus else int(gpus)
    elif gpus and named > machine.gpus:  # fewer replicas of the plan may fit
        options = _shrink_options(options, int(gpus))
    setting = read_plan(PlanOptions(model=model, on=where, **options))
    chosen = setting.plan
    if gpus and int(gpus) != int(chosen.gpus):
        chosen = reduce_replicas(chosen, int(gpus))
    cluster = load_cluster(where)
    steps = placed_step_seconds(setting.model, cluster, chosen, taper=taper)
    paces = _size_speeds(setting.model, cluster, chosen, steps[0]) if elastic and not mig else _RIGID
    return int(chosen.gpus), steps, paces


def _size_speeds(model: Model, cluster: Cluster, plan: Plan, step: float) -> str:
    """Text of the speeds of a plan at each size, by its data-parallel replicas; 0 where the plan cannot run."""
    speeds = []
    for doublings in DOUBLINGS.tolist():
        replicas, left = divmod(int(plan.dp) * 2**doublings, 1)
        try:
            other = replace(plan, dp=int(replicas))
            speed = 0.0 if left else step / placed_step_seconds(model, cluster, other, taper=1.0)[0]
        except PodsimError:
            speed = 0.0
        speeds.append(repr(speed))
    return " ".join(speeds)
