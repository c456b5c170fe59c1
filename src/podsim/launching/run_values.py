"""A plan as the numbers that frameworks have keys for, and back: accumulation steps, degrees of FSDP, processes.

steps       micro-batches of a step, which torch accumulates
local       sequences of a data-parallel rank that one pass of the pipeline takes
replicate   copies of the weights (HSDP); all data-parallel ranks without sharding
shard       data-parallel ranks that divide the weights, without the context ranks, which divide them too
slice_data  copies over slices of a torus (DCN), ici_data those inside each; slice_shard and ici_shard alike
gpus        processes
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podsim.options.plan_options import LayoutFields, TrainedFields
from podsim.options.question import options_of
from podsim.training.plan import Plan

_FIELDS = {**options_of(LayoutFields), **options_of(TrainedFields)}


def run_values(plan: Plan, layers: int) -> dict[str, Any]:
    """The fields of a scalar plan by name, codes spelled out, and the numbers that follow from them."""
    dp, cp, pp, ep = (int(getattr(plan, name)) for name in ("dp", "cp", "pp", "ep"))
    shard = max((int(plan.shard) or dp * cp) // cp, 1) if int(plan.zero) > 1 else 1
    micro, steps, tp = int(plan.micro_batch), int(plan.micro_batches), int(plan.tp)
    local = micro * (steps if pp > 1 else 1)
    return {
        **plan.describe(), "steps": steps, "gpus": int(plan.gpus), "replicate": dp // shard, "shard": shard,
        "zero_one": int(plan.zero) == 1, "expert_shard": max(shard // ep, 1),
        "tensor": 1 if plan.sequence_parallel else tp, "tensor_sequence": tp if plan.sequence_parallel else 1,
        "accumulated": 1 if pp > 1 else steps, "per_gpu": local * dp / int(plan.gpus),
        "local": local, "expert_tensor": int(plan.expert_ranks) if ep > 1 else 1,
        "piped": steps if pp > 1 else -1, "is_piped": pp > 1,
        "chunk_layers": -(-layers // (pp * int(plan.virtual_stages))),
    }  # fmt: skip


def slice_values(values: Mapping[str, Any], slices: int) -> dict[str, int]:
    """The replicas and shards of a run (`run_values`) over slices of a torus, and inside one."""
    over_data = slices if values["replicate"] % slices == 0 else 1
    over_shard = slices // over_data if values["expert_shard"] % slices == 0 else 1
    return {
        "slice_data": over_data, "ici_data": values["replicate"] // over_data,
        "slice_shard": over_shard, "ici_shard": values["expert_shard"] // over_shard,
    }  # fmt: skip


def plan_of(values: Mapping[str, Any]) -> Plan:
    """The plan of such numbers, as far as they are known."""
    known = _degrees(values)
    tp, cp, pp = (known.get(name, 1) for name in ("tp", "cp", "pp"))
    inside = known.get("shard") or 1
    dp = known.get("replicate", 1) * inside
    if "per_gpu" in known:
        local = max(round(known["per_gpu"] * dp * cp * pp * tp / dp), 1)
        steps = known.get("piped", -1) if pp > 1 else known.get("accumulated", 1)
        known |= {"steps": steps, "micro_batch": local // steps if pp > 1 and steps > 0 else local}
    zero = known.get("zero", 0) if (inside if known.get("zero") != 1 else dp) * cp > 1 else 0
    micro, moved = known.get("micro_batch", 1), dp * cp > 1
    fields = {name: value for name, value in known.items() if name in _FIELDS}
    return Plan(**{
        "overlap_grad": moved, "overlap_param": moved and zero > 0, **fields, "dp": dp, "zero": zero,
        "shard": inside * cp if zero > 1 and inside < dp else 0,
        "global_batch": dp * micro * max(known.get("steps", 1), 1),
    })  # fmt: skip


def _degrees(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with tp, shard, replicate and zero, where others say them."""
    known = dict(values)
    by_axes = "tensor" in known  # JAX: a mesh of axes, and a pipeline that runs all forward passes first
    if by_axes:
        parted = known.get("tensor_sequence", 1)
        known |= {"tp": known["tensor"] * parted, "sequence_parallel": parted > 1}
    if "ici_shard" in known:
        known["expert_shard"] = known["ici_shard"] * known.get("slice_shard", 1)
    if "ici_data" in known and (
        "slice_data" in known or "expert_shard" not in known or not known.get("gpus")
    ):
        known["replicate"] = known["ici_data"] * known.get("slice_data", 1)
    if "expert_shard" in known:
        known["shard"] = known["expert_shard"] * known.get("ep", 1)
    left = known.get("gpus", 0) // (known.get("tp", 1) * known.get("cp", 1) * known.get("pp", 1))
    if left and "shard" not in known and ("replicate" in known or by_axes or known.get("zero")):
        known["shard"] = max(left // known.get("replicate", 1), 1)
    if left and "replicate" not in known:
        known["replicate"] = max(left // known.get("shard", 1), 1)
    if by_axes:
        divided = known.get("shard", 1) * known.get("cp", 1) > 1
        known["zero"] = 3 if divided else int(bool(known.get("zero_one")))
        if known.get("pp", 1) > 1:
            known["schedule"] = "breadth-first" if known.get("virtual_stages", 1) > 1 else "gpipe"
    return known
