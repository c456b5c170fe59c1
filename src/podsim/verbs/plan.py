"""`podsim plan`: the best ways to train a model on a cluster, found among every legal plan, with the reason for each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from podsim.errors import PlanError, PodsimError
from podsim.prediction import ParetoPoint, PlanResult, Ranked

if TYPE_CHECKING:
    from podsim.hardware.cluster import Cluster
    from podsim.prediction import Prediction
    from podsim.training.plan import Plan
    from podsim.training.search import Found, Space
    from podsim.workload.graph import Model

__all__ = ["OBJECTIVES", "plan"]

OBJECTIVES = ("time", "memory")
_LAYOUT = ("tp", "pp", "cp", "ep", "dp")


def plan(
    model: str,
    *,
    on: str,
    gpus: int | None = None,
    batch: int | None = None,
    sequence: int | None = None,
    precision: str = "bf16",
    optimizer_precision: str = "fp32",
    software: str = "megatron-core",
    objective: str = "time",
    top: int = 5,
    limit: Mapping[str, tuple[int, ...]] | None = None,
    overrides: Mapping[str, str] | None = None,
    detail: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> PlanResult:
    """Search every legal plan of a model on a cluster; rank the best layouts, each with its reason.

    `limit` restricts fields to values, as {"tp": (4, 8), "zero": (1,)}; everything else is searched.  The ranking
    shows one plan for each layout (tp, pp, cp, ep, dp).  Raises PlanError when nothing is legal or nothing fits,
    saying by how much.  The other arguments are those of `predict`.
    """
    from podsim.training.plan import Plan
    from podsim.training.search import search
    from podsim.verbs.inputs import batch_of, read_inputs

    if objective not in OBJECTIVES:
        raise PodsimError(f"objective={objective!r} may be {', '.join(OBJECTIVES)}")
    if not 1 <= top <= 1000:
        raise PodsimError(f"top={top}: between 1 and 1000 plans can be shown")
    network, cluster, count = read_inputs(model, on, gpus, sequence, overrides)
    sequences, default = batch_of(batch, network.sequence)
    fixed = Plan(
        global_batch=sequences, precision=precision, optimizer_precision=optimizer_precision, software=software,
        sequence=network.sequence, flash=cluster.gpu.compute_capability >= 7.5,
    )  # fmt: skip
    wrong = fixed.problems(network, cluster)
    if wrong:
        raise PlanError(wrong)
    started = time.perf_counter()
    found = search(network, cluster, fixed, gpus=count, wanted=_space(limit), progress=progress)
    taken = time.perf_counter() - started
    if found.order.size == 0:
        raise PlanError([_does_not_fit(found, cluster, count)])
    return PlanResult(
        model=network.name,
        cluster=cluster.name,
        gpus=count,
        batch=sequences,
        sequence=network.sequence,
        ranked=_ranking(network, cluster, found, objective, top, detail, default),
        pareto=tuple(
            ParetoPoint(step_time=found.seconds(i), memory=found.memory(i), plan=found.plan(i).describe())
            for i in found.pareto.tolist()
        ),
        evaluated=found.evaluated,
        fitting=int(found.order.size),
        cut=found.cut,
        seconds=taken,
        complete=found.complete,
        arguments={
            "model": model, "on": on, "gpus": count, "batch": sequences, "sequence": network.sequence,
            "precision": precision, "optimizer_precision": optimizer_precision, "software": software,
            "objective": objective, "top": top, "limit": {k: list(v) for k, v in (limit or {}).items()},
            "overrides": dict(overrides or {}),
        },
    )  # fmt: skip


def _space(limit: Mapping[str, tuple[int, ...]] | None) -> Space:
    from dataclasses import fields

    from podsim.errors import unknown_name
    from podsim.training.search import Space

    known = [field.name for field in fields(Space)]
    for name in limit or {}:
        if name not in known:
            raise PodsimError(unknown_name("field of a plan", name, known))
    return Space(**{name: tuple(values) for name, values in (limit or {}).items()})


def _does_not_fit(found: Found, cluster: Cluster, gpus: int) -> str:
    from podsim.units import format_quantity

    least = int(found.memory_C.argmin())
    need = format_quantity(float(found.memory_C[least]), "B")
    room = format_quantity(cluster.gpu.memory, "B")
    shown = found.combinations.take(least).describe()
    layout = ", ".join(f"{name}={shown[name]}" for name in (*_LAYOUT, "micro_batch", "zero", "recompute"))
    return (
        f"none of {found.evaluated:,} plans on {gpus} GPUs fits: the smallest needs {need} of {room} a GPU ({layout}); "
        "more GPUs, GPUs with more memory or a shorter sequence would help"
    )


def _ranking(
    model: Model, cluster: Cluster, found: Found, objective: str, top: int, detail: str, default: bool
) -> tuple[Ranked, ...]:
    """The best plan of each layout, in order, predicted in full."""
    from podsim.verbs.predict import describe

    order = found.order if objective == "time" else found.pareto[::-1]
    chosen: list[Plan] = []
    seen: set[tuple[int, ...]] = set()
    for position in order.tolist():
        candidate = found.plan(position)
        layout = tuple(int(getattr(candidate, name)) for name in _LAYOUT)
        if layout not in seen:
            seen.add(layout)
            chosen.append(candidate)
        if len(chosen) == top:
            break
    predictions = [
        describe(model, cluster, one, detail=detail if place == 0 else "", default_batch=default)
        for place, one in enumerate(chosen)
    ]
    return tuple(
        Ranked(rank=place + 1, prediction=one, reason=_reason(one, predictions[0], place))
        for place, one in enumerate(predictions)
    )


def _reason(one: Prediction, best: Prediction, place: int) -> str:
    """Why a plan stands where it does: against the first, or for the first its bottleneck."""
    if place == 0:
        return one.bottleneck
    slower = one.step_time / best.step_time - 1
    deltas = sorted(((one.parts[name] - best.parts[name], name) for name in one.parts), key=lambda d: -abs(d[0]))
    told = [f"{delta / best.step_time:+.1%} {name}" for delta, name in deltas[:3] if abs(delta) > 1e-3 * best.step_time]
    room = one.memory / best.memory - 1
    return f"{slower:+.1%} against the first ({', '.join(told) or 'nearly the same'}), {room:+.0%} memory"
