"""What a user's row describes in the columns that docs/predict.md lists, and what it leaves open.

A row that does not state its micro-batch gets the fastest plan that fits of those it allows. Whoever publishes a rate has
tuned for it, so the best plan is the likeliest. What the row states stays.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from podsim.accuracy.measured_runs import (
    NotExpressible,
    TrainingRun,
    cell_text,
    read_cluster,
    read_count,
    read_model,
)
from podsim.accuracy.own_words import cluster_settings, find_node, model_settings, read_adapters
from podsim.errors import NoFitError
from podsim.hardware.cluster import Cluster
from podsim.training.batch import step_cost
from podsim.training.frameworks import framework_software
from podsim.training.plan import Plan, batch_of
from podsim.training.search import search
from podsim.training.software import load_software
from podsim.units import format_quantity
from podsim.workload.model import Model

_ADAM = 16.0
"""B of weights, gradients and moments of a parameter, about"""
# a plan's field -> the column that states it
_COLUMNS = {
    "tp": "tp",
    "pp": "pp",
    "virtual_stages": "virtual_pp",
    "cp": "cp",
    "ep": "ep",
    "sequence_parallel": "seq_parallel",
    "zero": "zero_stage_or_fsdp",
    "recompute": "recompute",
}
_ALWAYS = {"cp": 1, "ep": 1}
"""what a blank column means where a run that had it would say so"""


def own_training_run(row: Mapping[str, str]) -> TrainingRun:
    """A row that describes its run in the columns that docs/predict.md lists; NotExpressible with the reason."""
    cluster, model = _cluster_of(row), _model_of(row)
    plan, chosen, implied = _plan_of(row, model, cluster)
    if problems := plan.problems(model, cluster):
        raise NotExpressible("; ".join(problems))
    return TrainingRun(model=model, cluster=cluster, plan=plan, chosen=chosen, implied=implied)


def _cluster_of(row: Mapping[str, str]) -> Cluster:
    """The cluster of a row: that of its column `cluster`, else whole nodes with its GPUs and adapters."""
    if cell_text(row, "cluster"):
        return read_cluster(row["cluster"])
    gpu = cell_text(row, "gpu")
    system = f"{cell_text(row, 'node_type')} {cell_text(row, 'interconnect')}"
    node = find_node(gpu, system, cell_text(row, "gpu_mem_gb"))
    if node is None:
        raise NotExpressible(f"gpu={gpu!r} has no node in the catalog")
    network = read_adapters(cell_text(row, "interconnect"), read_cluster(f"{node}:1").gpus_per_node)
    return read_cluster(cluster_settings(node, read_count(row, "n_gpus"), network))


def _model_of(row: Mapping[str, str]) -> Model:
    """The model of a row: that of its column `network`, else one of its name, dimensions and size."""
    return read_model(cell_text(row, "network") or model_settings(row))


def _plan_of(row: Mapping[str, str], model: Model, cluster: Cluster) -> tuple[Plan, str, str]:
    """(the plan, the settings that podsim chose, those that the row implies)."""
    gpus = read_count(row, "n_gpus")
    tp, pp, cp = (read_count(row, name, 1) for name in ("tp", "pp", "cp"))
    dp = read_count(row, "dp", max(1, gpus // (tp * pp * cp)))
    software = load_software(_software(row), cluster.gpu)
    zero, shard = _zero(row.get("zero_stage_or_fsdp", ""))
    virtual = read_count(row, "virtual_pp", 1)
    micro_batch = read_count(row, "micro_batch") if cell_text(row, "micro_batch") else 0
    plan = Plan(
        tp=tp,
        pp=pp,
        virtual_stages=virtual,
        dp=dp,
        cp=cp,
        ep=read_count(row, "ep", 1),
        micro_batch=micro_batch or 1,
        global_batch=read_count(row, "global_batch", _any_batch(row, dp)),
        sequence_parallel=cell_text(row, "seq_parallel").lower() == "yes" and tp > 1,
        zero=zero,
        shard=shard if zero else 0,
        recompute=_recompute(row.get("recompute", "")),
        schedule="interleaved" if virtual > 1 else "1f1b",
        flash="flash" not in software.lacks,
        overlap_tp=software.overlaps_tp and tp > 1,
        overlap_grad="overlap_grad" in software.can_overlap,
        overlap_param="overlap_param" in software.can_overlap,
        precision=_precision(cell_text(row, "precision") or Plan.precision),
        software=software.name,
        sequence=read_count(row, "seq_len"),
    )
    taken: list[str] = []
    defaults: dict[str, object] = {"framework": plan.software, "precision": plan.precision}
    if micro_batch:
        defaults = {"global_batch": plan.global_batch, **defaults}
    else:
        plan, taken = _fastest_plan(plan, row, model, cluster)
    taken += [f"{name}={value}" for name, value in defaults.items() if not cell_text(row, name)]
    if taken:
        return plan, f"chosen: {', '.join(taken)}", ""
    if cell_text(row, "zero_stage_or_fsdp"):
        return plan, "", ""
    plan, implied = _with_zero_if_needed(plan, model, cluster)
    return plan, "", implied


def _precision(text: str) -> str:
    lower = text.lower()
    for name in ("fp8", "bf16", "fp16", "tf32", "fp32"):
        if name in lower:
            return name
    raise NotExpressible(f"precision={text!r} is not known")


def _recompute(text: str) -> str:
    lower = text.strip().lower()
    for name in ("full", "selective", "none"):
        if lower.startswith(name):
            return name
    if not lower:
        return "none"
    raise NotExpressible(f"recompute={text!r} is not known")


def _software(row: Mapping[str, str]) -> str:
    """The entry of the software catalog that a row's framework and year mean."""
    framework, year = cell_text(row, "framework"), cell_text(row, "year")[:4]
    if not framework:
        return Plan.software
    name = framework_software(framework, int(year) if year.isdigit() else None)
    if name is None:
        raise NotExpressible(
            f"framework={framework!r} has no entry in the software catalog (podsim show software)"
        )
    return name


def _zero(text: str) -> tuple[int, int]:
    """(ZeRO stage, ranks it divides over; 0 is all) from a description."""
    upper = text.upper()
    group = re.search(r"GROUP=(\d+)", upper)
    shard = int(group[1]) if group else 0
    if "SHARD_GRAD_OP" in upper or "ZERO-2" in upper:
        return 2, shard
    if "FSDP" in upper or "ZERO-3" in upper or "FULL_SHARD" in upper:
        return 3, shard
    return (1, shard) if "ZERO-1" in upper or "DISTRIBUTED" in upper else (0, 0)


def _with_zero_if_needed(plan: Plan, model: Model, cluster: Cluster) -> tuple[Plan, str]:
    """(the plan, the settings implied): ZeRO 1 if a row does not mention ZeRO and does not fit without it."""
    # drivers report 80 GiB of an "80 GB" GPU, and the law of memory is up to 8 % off
    room = 1.08 * cluster.gpu.memory / 1e9 * 2.0**30
    least = _ADAM * model.parameters / (int(plan.tp) * int(plan.pp) * int(plan.ep))
    if int(plan.dp) * int(plan.cp) < 2 or least < 0.25 * room:
        return plan, ""
    if "zero-1" in load_software(plan.software, cluster.gpu).lacks or plan.problems(model, cluster):
        return plan, ""
    if float(step_cost(model, cluster, plan).memory[0]) <= room:
        return plan, ""
    return plan.having({"zero": 1}), "implied: zero=1, without which it does not fit"


def _any_batch(row: Mapping[str, str], dp: int) -> int | None:
    """The batch that `podsim plan` takes by default, for a row that gives a rate alone; else None."""
    if cell_text(row, "step_time_s") or cell_text(row, "tokens_per_s"):
        return None
    sequences, _ = batch_of(None, read_count(row, "seq_len"))
    return -(-sequences // dp) * dp


def _fastest_plan(
    known: Plan, row: Mapping[str, str], model: Model, cluster: Cluster
) -> tuple[Plan, list[str]]:
    """(the fastest plan that a row allows, the settings chosen); NoFitError if none fits, PlanError if none is legal.

    `known` has what the row states, and anything in the fields that it does not.
    """
    given: dict[str, Any] = {}
    for field, column in _COLUMNS.items():
        if cell_text(row, column):
            given[field] = (int(getattr(known, field)),)
        elif field in _ALWAYS:
            given[field] = (_ALWAYS[field],)
    if "recompute" in given:
        given["recompute_layers"] = (0,)
    wanted = {"flash": (bool(known.flash),), **given}
    plans = search(model, cluster, known, gpus=int(known.gpus), wanted=wanted)
    if plans.order.size == 0:
        least, room = (format_quantity(float(b), "B") for b in (plans.memory_bytes.min(), cluster.gpu.memory))
        raise NoFitError(
            [f"micro_batch is not given, and no plan that the row allows fits: {least} of {room}"]
        )
    plan = plans.plan(int(plans.order[0]))
    if cell_text(row, "global_batch"):
        given["global_batch"] = (int(plan.global_batch),)
    return plan, _chosen_settings(plan, given)


def _chosen_settings(plan: Plan, given: Mapping[str, Any]) -> list[str]:
    """The settings of a plan that were not given."""
    settings = plan.describe()
    fields = ("tp", "pp", "dp") if "tp" not in given else ()
    names = [
        *fields,
        "global_batch",
        "micro_batch",
        "virtual_stages",
        "sequence_parallel",
        "zero",
        "recompute",
    ]
    return [f"{name}={settings[name]}" for name in names if name not in given]
