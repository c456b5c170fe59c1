"""Rows of training in their source's words -> network, cluster and plan, and what a row leaves open.

A row that does not state its micro-batch gets the fastest plan that fits of those it allows. Whoever publishes a rate has
tuned for it, so the best plan is the likeliest. What the row states stays.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from podsim.accuracy.measured_runs import (
    NotExpressible,
    TrainingRun,
    cell_text,
    read_cluster,
    read_count,
    read_model,
    usable_memory,
    write_settings,
)
from podsim.accuracy.price_llm import training_run as described_run
from podsim.accuracy.tables import find_kind
from podsim.errors import NoFitError, PodsimError
from podsim.hardware.cluster import Cluster
from podsim.training.batch import step_cost
from podsim.training.frameworks import framework_software
from podsim.training.job_inputs import batch_of
from podsim.training.plan import Plan
from podsim.training.search import search
from podsim.training.software import Software, load_software, usable_bytes
from podsim.units import format_quantity
from podsim.workload.model import Model
from reference.csv_rows import each_row
from reference.machine_words import cluster_settings, find_node, model_settings, read_adapters, size_remark
from reference.negations import plain_degrees
from reference.raw_cells import settled
from reference.row_remarks import Remarks, counted_cells, read_remarks

COLUMNS = ("network", "cluster", "plan", "scope", "chosen", "implied", "reason")
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
_YES = ("yes", "true", "1", "on")
LAYER = "layer"
"""The scope of a row that measured one layer."""
_PRECISIONS = (
    (r"mx-?fp8|fp8-?mx", "mxfp8"),
    (r"nv-?fp4|\bfp4\b", "nvfp4"),
    (r"fp8|float8|e4m3", "fp8"),
    (r"bf16|bfloat16", "bf16"),
    (r"fp16|float16|\bhalf\b", "fp16"),
    (r"tf32", "tf32"),
    (r"fp32|float32", "fp32"),
)
_RECOMPUTE = (
    (r"full|yes|true|uniform|block", "full"),
    (r"selective|core|attention|mlp|layernorm", "selective"),
    (r"none|no\b|false|off|$", "none"),
)


def curated(rows: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """The canonical rows of rows of llm_training."""
    columns = [column for column in find_kind("llm").columns if column != "tables"]
    return each_row(rows, columns, _cells)


def _cells(row: Mapping[str, str]) -> dict[str, str]:
    """The cells of a row: of one that states its plan in podsim's words they stay."""
    if cell_text(row, "plan"):
        return {}
    cells = settled(plain_degrees(row), "llm")
    return {**cells, **counted_cells(cells), **canonical(cells)}


def canonical(row: Mapping[str, str]) -> dict[str, str]:
    """The canonical columns of a row: its network, cluster and plan, or the reason why it has none."""
    blank = dict.fromkeys(COLUMNS, "")
    try:
        stated = stated_row(row)
        cells, run = stated.cells, own_training_run(stated)
    except (PodsimError, NotExpressible) as problem:
        return blank | {"reason": str(problem)}
    return blank | {
        "network": cells["network"], "cluster": cells["cluster"], "plan": plan_settings(run.plan),
        "scope": cells.get("scope", ""), "chosen": run.chosen, "implied": run.implied,
    }  # fmt: skip


def plan_settings(plan: Plan) -> str:
    """The settings of a plan that are not the defaults, as text in the order of their names."""
    default = Plan().describe()
    return write_settings(
        "",
        {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in sorted(plan.describe().items())
            if value != default.get(name)
        },
    )


def training_run(row: Mapping[str, str]) -> TrainingRun:
    """The run of a row in podsim's words or its own; NotExpressible with the reason."""
    if cell_text(row, "plan") or cell_text(row, "reason"):
        return described_run(row)
    try:
        return own_training_run(stated_row(row))
    except PodsimError as error:
        raise NotExpressible(str(error)) from error


def own_training_run(stated: Remarks) -> TrainingRun:
    """The run that a row describes in its own words; NotExpressible with the reason."""
    cells = stated.cells
    model = read_model(cells["network"])
    cluster = read_cluster(cells["cluster"]).subset(read_count(cells, "n_gpus"))
    plan, chosen, implied = _plan_of(stated, model, cluster)
    if problems := plan.problems(model, cluster):
        raise NotExpressible("; ".join(problems))
    is_open = cell_text(cells, "dec_layers") not in ("", "0") and not cell_text(cells, "dec_seq_len")
    remarks = [chosen, implied, size_remark(model, cell_text(cells, "params_b"))]
    remarks += ["assumed: a decoder of as many tokens as the encoder"] * is_open
    if cell_text(cells, "open_mtp") and not cell_text(cells, "mtp"):
        remarks.append(_range_of_mtp(cells["network"], cluster, plan))
    remarks += [f"assumed: {model.training}"] * (cell_text(cells, "train").lower() in ("lora", "qlora"))
    return TrainingRun(
        model=model, cluster=cluster, plan=plan, layer_only=cells.get("scope") == LAYER, chosen=chosen,
        implied="; ".join(filter(None, remarks[1:])),
    )  # fmt: skip


def _range_of_mtp(network: str, cluster: Cluster, plan: Plan) -> str:
    """What is assumed of multi-token prediction, and the range of the step over running one module or none."""
    without, with_one = (
        step_cost(read_model(f"{network} mtp={count}"), cluster, plan).seconds.item() for count in (0, 1)
    )
    return f"assumed: no multi-token prediction, with which a step takes {with_one / without - 1:+.1%}"


def stated_row(row: Mapping[str, str]) -> Remarks:
    """The row with what its prose says, its network and its cluster in podsim's words; NotExpressible without them."""
    remarks = read_remarks(row)
    cells = dict(remarks.cells)
    cells["cluster"] = cell_text(cells, "cluster") or _cluster_settings(cells)
    stated = {name: cell_text(cells, name).lower() for name in ("train", "mtp")}
    variant = {
        name: re.sub(r"(?<=lora)\D+", ":", text) for name, text in stated.items() if text not in ("", "0")
    }
    cells["network"] = cell_text(cells, "network") or write_settings(model_settings(cells), variant)
    return replace(remarks, cells=cells)


def _cluster_settings(row: Mapping[str, str]) -> str:
    """The cluster of a row without the column `cluster`: whole nodes with its GPUs and adapters."""
    gpu = cell_text(row, "gpu")
    system = f"{cell_text(row, 'node_type')} {cell_text(row, 'interconnect')}"
    node = find_node(gpu, system, cell_text(row, "gpu_mem_gb"))
    if node is None:
        raise NotExpressible(f"gpu={gpu!r} has no node in the catalog")
    network = read_adapters(cell_text(row, "interconnect"), read_cluster(f"{node}:1").gpus_per_node)
    return cluster_settings(node, read_count(row, "n_gpus"), network)


def _plan_of(stated: Remarks, model: Model, cluster: Cluster) -> tuple[Plan, str, str]:
    """(the plan, the settings that podsim chose, those that the row implies)."""
    row = stated.cells
    plan, software = _known_plan(stated, cluster)
    micro_batch = _micro_batch(row, int(plan.dp))
    plan = plan.having({"micro_batch": micro_batch or 1, **stated.plan})
    taken: list[str] = []
    defaults: dict[str, object] = {"framework": plan.software, "precision": plan.precision}
    if micro_batch:
        defaults = {"global_batch": plan.global_batch, **defaults}
    else:
        plan, taken = _fastest_plan(plan, row, model, cluster)
    taken += [f"{name}={value}" for name, value in defaults.items() if not cell_text(row, name)]
    chosen = f"chosen: {', '.join(taken)}" if taken and row.get("scope") != LAYER else ""
    if not micro_batch:
        return plan, chosen, ""
    plan, implied = _fitting_plan(plan, row, model, cluster, software)
    return plan, chosen, implied


def _known_plan(stated: Remarks, cluster: Cluster) -> tuple[Plan, Software]:
    """What a row states, and defaults for the rest, with a micro-batch of 1."""
    row, gpus = stated.cells, read_count(stated.cells, "n_gpus")
    name = _software(row)
    software = load_software(stated.software.get(name, name), cluster.gpu)
    tp, pp, cp = (read_count(row, name, 1) for name in ("tp", "pp", "cp"))
    dp = read_count(row, "dp", max(1, gpus // (tp * pp * cp)))
    zero, shard = _zero(cell_text(row, "zero_stage_or_fsdp"))
    virtual = read_count(row, "virtual_pp", 1)
    sequence = cell_text(row, "seq_parallel").lower()
    plan = Plan(
        tp=tp, pp=pp, virtual_stages=virtual, dp=dp, cp=cp, ep=read_count(row, "ep", 1),
        global_batch=read_count(row, "global_batch", _any_batch(row, dp)),
        sequence_parallel=tp > 1 and (sequence in _YES or (not sequence and software.overlaps_tp)),
        zero=zero, shard=shard if zero else 0, recompute=_recompute(cell_text(row, "recompute")),
        schedule="interleaved" if virtual > 1 else "1f1b", flash="flash" not in software.lacks,
        overlap_tp=tp > 1 and software.overlaps_tp, overlap_grad="overlap_grad" in software.can_overlap,
        overlap_param="overlap_param" in software.can_overlap,
        precision=_precision(cell_text(row, "precision") or software.precision), software=software.name,
        sequence=read_count(row, "seq_len"),
    )  # fmt: skip
    if tp * pp * cp * dp != gpus:
        raise NotExpressible(f"tp x pp x cp x dp = {tp} x {pp} x {cp} x {dp} is not n_gpus={gpus}")
    return plan, software


def _micro_batch(row: Mapping[str, str], dp: int) -> int:
    """The micro-batch of a row: stated, or its batch over its accumulation steps; 0 if nothing tells."""
    if cell_text(row, "micro_batch"):
        return read_count(row, "micro_batch")
    if not cell_text(row, "accumulation"):
        return 0
    return max(1, read_count(row, "global_batch") // (dp * read_count(row, "accumulation")))


def _precision(text: str) -> str:
    """The precision of a text; of "fp8-cs (fp8-mx)" it is the first."""
    lower = text.lower().partition("(")[0].replace("_", "-")
    for pattern, name in _PRECISIONS:
        if re.search(pattern, lower):
            return name
    raise NotExpressible(f"precision={text!r} is not known")


def _recompute(text: str) -> str:
    lower = text.lower()
    known = next((name for pattern, name in _RECOMPUTE if re.match(pattern, lower)), None)
    if known is None:
        raise NotExpressible(f"recompute={text!r} is not known")
    return known


def _software(row: Mapping[str, str]) -> str:
    """The entry of the software catalog that a row's framework and year mean."""
    framework, year = cell_text(row, "framework"), cell_text(row, "year")[:4]
    if not framework:
        return Plan.software
    name = framework_software(framework, int(year) if year.isdecimal() else None)
    if name is None:
        raise NotExpressible(
            f"framework={framework!r} has no entry in the software catalog (podsim show software)"
        )
    return name


def _zero(text: str) -> tuple[int, int]:
    """(ZeRO stage, ranks it divides over; 0 is all) from a description."""
    upper = text.upper()
    group, stage = (
        re.search(r"(?:GROUP|SHARDS?)\s*[= ]\s*(\d+)", upper),
        re.search(r"ZERO\D{0,7}([0-3])", upper),
    )
    shard = int(group[1]) if group else 0
    if stage:
        return int(stage[1]), shard
    if "SHARD_GRAD_OP" in upper:
        return 2, shard
    if "FSDP" in upper or "FULL_SHARD" in upper or "HSDP" in upper:
        return 3, shard
    return (1, shard) if "DISTRIBUTED" in upper else (0, 0)


def _fitting_plan(
    plan: Plan, row: Mapping[str, str], model: Model, cluster: Cluster, software: Software
) -> tuple[Plan, str]:
    """(the plan, the settings implied): what a row leaves open is as little as makes the plan fit.

    Blank are sequence parallelism, ZeRO and recomputation. A plan that fits in no way stays as it is.
    """
    room = usable_memory(cluster.gpu)

    def fits(changes: Mapping[str, object]) -> bool:
        other = plan.having(changes)
        return (
            not other.problems(model, cluster) and float(step_cost(model, cluster, other).memory[0]) <= room
        )

    least = _ADAM * model.parameters / (int(plan.tp) * int(plan.pp) * int(plan.ep))
    if least < 0.25 * room or plan.problems(model, cluster):
        return plan, ""
    changes = {} if fits({}) else next(filter(fits, _open_settings(plan, row, software)), {})
    if not changes:
        return plan, ""
    layers = -(-model.layer_count // int(plan.pp))
    if "recompute" in changes and "partial" not in software.lacks:  # as few layers as fit; more always do
        few = bisect_left(
            range(1, layers), True, key=lambda count: fits({**changes, "recompute_layers": count})
        )
        changes |= {"recompute_layers": few + 1} if few + 1 < layers else {}
    settings = ", ".join(f"{name}={value}" for name, value in changes.items())
    return plan.having(changes), f"implied: {settings.lower()}, without which it does not fit"


def _open_settings(plan: Plan, row: Mapping[str, str], software: Software) -> list[dict[str, object]]:
    """Changes of the settings that a row leaves open, those of the fewest settings first."""
    several = int(plan.dp) * int(plan.cp) > 1
    single = {
        "sequence_parallel": (True, "seq_parallel", int(plan.tp) > 1 and "sequence" not in software.lacks),
        "zero": (1, "zero_stage_or_fsdp", several and "zero-1" not in software.lacks),
        "recompute": ("full", "recompute", not software.offloads),
    }
    free = [
        (name, value)
        for name, (value, column, can) in single.items()
        if can and not cell_text(row, column) and getattr(plan, name) != value
    ]
    return [dict(some) for count in (1, 2, 3) for some in combinations(free, count)]


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
    if "zero" not in given and cell_text(row, "without_fsdp"):
        given["zero"] = (0, 1, 2)
    if "recompute" in given:
        given["recompute_layers"] = (0,)
    overlap = load_software(known.software, cluster.gpu).overlaps_tp
    wanted = {"flash": (bool(known.flash),), "overlap_tp": (overlap,), **given}
    plans = search(model, cluster.subset(int(known.gpus)), known, wanted=wanted)
    if plans.order.size == 0:
        usable = usable_bytes(cluster.gpu, load_software(known.software, cluster.gpu))
        least, room = (format_quantity(float(b), "B") for b in (plans.memory_bytes.min(), usable))
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
