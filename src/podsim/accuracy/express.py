"""A row of a training table as a model, a cluster and a plan; or the reason why it cannot be one.

Everything comes from the row's own columns, so a user's file with the same columns is read the same way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from podsim.accuracy.express_machine import machine, network_of, node_of
from podsim.accuracy.express_model import model_of
from podsim.accuracy.express_open import settle
from podsim.accuracy.express_row import NotExpressible, stated, whole
from podsim.errors import PodsimError
from podsim.hardware.cluster import Cluster
from podsim.training.inputs import batch_of
from podsim.training.plan import Plan
from podsim.training.software import Software, load_software, software_names
from podsim.training.step import step_cost
from podsim.workload.graph import Model


@dataclass(frozen=True, kw_only=True)
class Expressed:
    """A row as podsim's nouns."""

    model: Model
    cluster: Cluster
    plan: Plan
    layer_only: bool = False
    """the measurement is of one layer's forward and backward, not of a step"""
    chosen: str = ""
    """settings that the row leaves open and podsim chose, worded; "" where the row states its micro-batch"""
    implied: str = ""
    """settings that the row does not state, but could not have run without, worded"""


_ADAM = 16.0
"""B of weights, gradients and moments of a parameter, about"""
_FRAMEWORKS = (
    (r"megatron-deepspeed", "megatron-deepspeed"),
    (r"nemo", "nemo-2022"),
    (r"megatron-core", "megatron-core"),
    (r"megatron-lm \(?(jan 2021|2020)", "megatron-2020"),
    (r"megatron-lm", "megatron-{year}"),
    (r"llm-foundry", "llm-foundry-2023"),
    (r"torchtitan", "torchtitan-2024"),
    (r"internevo", "internevo-2024"),
)


def express(row: Mapping[str, str]) -> Expressed:
    """The row as nouns; NotExpressible with the reason."""
    layer_only = "LAYER micro-benchmark" in row.get("notes", "")
    try:
        cluster = _cluster(row)
        model = model_of(row, layer_only=layer_only)
        plan, chosen = _plan(row, model, cluster, layer_only)
        plan, implied = _fitting(row, plan, model, cluster) if not (layer_only or chosen) else (plan, "")
        problems = plan.problems(model, cluster)
    except PodsimError as error:
        raise NotExpressible(str(error)) from error
    if problems:
        raise NotExpressible("; ".join(problems))
    return Expressed(
        model=model, cluster=cluster, plan=plan, layer_only=layer_only, chosen=chosen, implied=implied
    )


def _cluster(row: Mapping[str, str]) -> Cluster:
    gpu = stated(row, "gpu")
    node = node_of(gpu, stated(row, "node_type"), stated(row, "gpu_mem_gb"))
    if node is None:
        raise NotExpressible(f"gpu={gpu!r} has no node in the catalog")
    each = machine(node, 1).gpus_per_node
    network = network_of(stated(row, "interconnect"), each)
    return machine(node, whole(row, "n_gpus"), tuple(network.items()))


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


def software_of(row: Mapping[str, str]) -> str:
    """Catalog name of the framework era that the row's framework and year columns name."""
    framework = stated(row, "framework").lower()
    if not framework:
        return Plan.software
    if framework in software_names():
        return framework
    year = (row.get("year") or "2022").strip()[:4]
    name = next((n for pattern, n in _FRAMEWORKS if re.search(pattern, framework)), None)
    if name is None:
        raise NotExpressible(
            f"framework={stated(row, 'framework')!r} has no entry in the software catalog (podsim show software)"
        )
    if name == "nemo-2022" and year >= "2024":
        name = "megatron-core"
    if "{year}" in name:
        name = "megatron-core" if year >= "2024" else name.format(year=min(max(year, "2021"), "2022"))
    if name == "megatron-2021" and "no scatter/gather" in row.get("notes", ""):
        name = "megatron-2021-whole-sends"
    strategy = row.get("zero_stage_or_fsdp", "")
    if name == "torchtitan-2024" and strategy.strip() != "FSDP":
        rowwise = "rowwise" in row.get("precision", "")
        name = "torchtitan-2024-rowwise" if rowwise else "torchtitan-2024-compile"
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


def _plan(row: Mapping[str, str], model: Model, cluster: Cluster, layer_only: bool) -> tuple[Plan, str]:
    """(the plan, which of its settings podsim chose)."""
    gpus = whole(row, "n_gpus")
    tp, pp, cp = (whole(row, name, 1) for name in ("tp", "pp", "cp"))
    dp = whole(row, "dp", max(1, gpus // (tp * pp * cp)))
    software = load_software(software_of(row), cluster.gpu)
    zero, shard = _zero(row.get("zero_stage_or_fsdp", ""))
    virtual = whole(row, "virtual_pp", 1)
    if "Interleaved" in row.get("zero_stage_or_fsdp", ""):
        virtual = max(virtual, 2)
    notes = row.get("notes", "") + row.get("zero_stage_or_fsdp", "")
    global_batch = whole(row, "global_batch", _any_batch(row, dp))
    micro = _micro_batch(row, global_batch, dp, pp)
    sequence_parallel = row.get("seq_parallel", "").strip().lower() == "yes"
    titan = software.name.startswith("torchtitan") and tp > 1
    if layer_only:
        dp, global_batch = 1, whole(row, "micro_batch")
    plan = Plan(
        tp=tp,
        pp=pp,
        virtual_stages=virtual,
        dp=dp,
        cp=cp,
        ep=whole(row, "ep", 1),
        micro_batch=micro or 1,
        global_batch=global_batch,
        sequence_parallel=(sequence_parallel or titan) and tp > 1,
        zero=zero,
        shard=shard if zero else 0,
        recompute=_recompute(row.get("recompute", "")),
        schedule="interleaved" if virtual > 1 else "1f1b",
        flash=_flash(row, software),
        overlap_grad="overlap_grad" in software.can_overlap,
        overlap_param="overlap_param" in software.can_overlap,
        overlap_tp=bool(re.search(r"async ?tp", notes, re.IGNORECASE)) and tp > 1,
        precision=_precision(stated(row, "precision") or Plan.precision),
        software=software.name,
        sequence=whole(row, "seq_len"),
    )
    told: dict[str, object] = {"framework": plan.software, "precision": plan.precision}
    taken: list[str] = []
    if micro is None:
        plan, taken = settle(plan, row, model, cluster)
    else:
        told = {"global_batch": global_batch, **told}
    taken += [f"{name}={value}" for name, value in told.items() if not stated(row, name)]
    return plan, "" if layer_only or not taken else f"chosen: {', '.join(taken)}"


def _fitting(row: Mapping[str, str], plan: Plan, model: Model, cluster: Cluster) -> tuple[Plan, str]:
    """(the plan, what was implied): ZeRO 1 where a row says nothing of ZeRO, and would not have run without."""
    # what a driver reports, 80 GiB of an "80 GB" GPU, and what the law of memory may be wrong by
    room = 1.08 * cluster.gpu.memory / 1e9 * 2.0**30
    least = _ADAM * model.parameters / (int(plan.tp) * int(plan.pp) * int(plan.ep))
    if stated(row, "zero_stage_or_fsdp") or int(plan.dp) * int(plan.cp) < 2 or least < 0.25 * room:
        return plan, ""
    if "zero-1" in load_software(plan.software, cluster.gpu).lacks or plan.problems(model, cluster):
        return plan, ""
    if float(step_cost(model, cluster, plan).memory_P[0]) <= room:
        return plan, ""
    return plan.having({"zero": 1}), "implied: zero=1, without which it does not fit"


def _any_batch(row: Mapping[str, str], dp: int) -> int | None:
    """The batch that `podsim plan` takes by default, for a row that gives a rate, which hardly hangs on it; else None."""
    if stated(row, "step_time_s") or stated(row, "tokens_per_s"):
        return None
    sequences, _ = batch_of(None, whole(row, "seq_len"))
    return -(-sequences // dp) * dp


def _flash(row: Mapping[str, str], software: Software) -> bool:
    return "without FlashAttention" not in row.get("framework", "") and "flash" not in software.lacks


def _micro_batch(row: Mapping[str, str], global_batch: int, dp: int, pp: int) -> int | None:
    """The row's micro-batch, or the one of its gradient accumulation notes; None if it says nothing."""
    if stated(row, "micro_batch"):
        return whole(row, "micro_batch")
    notes = row.get("notes", "")
    if match := re.search(r"grad_accum=(\d+)|micro_num=(\d+)", notes):
        steps = int(match[1] or match[2])
        return max(1, global_batch // (dp * steps))
    if "torchtitan" in row.get("framework", "") and pp > 1:  # its default: as many micro-batches as stages
        return max(1, global_batch // (dp * pp))
    return 1 if "local batch" in notes else None
