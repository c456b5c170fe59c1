"""Rows of llm_training in their sources' words -> documented columns -> canonical columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from podsim.accuracy.measured_runs import (
    NotExpressible,
    TrainingRun,
    cell_text,
    read_cluster,
    read_count,
    write_settings,
)
from podsim.accuracy.own_rows import own_training_run
from podsim.accuracy.own_words import cluster_settings, find_node, model_settings, read_adapters
from podsim.errors import PodsimError
from podsim.training.frameworks import framework_software
from podsim.training.plan import Plan
from podsim.training.software import load_software

COLUMNS = ("network", "cluster", "plan", "scope", "chosen", "implied", "reason")
FIRST_STAGE = "first-stage memory"
"""The remark in the notes of a row that counts the layers of the first stage only."""


def canonical(row: Mapping[str, str]) -> dict[str, str]:
    """The canonical columns of a row: its network, cluster and plan, or the reason why it has none."""
    blank = dict.fromkeys(COLUMNS, "")
    layer_only = "LAYER micro-benchmark" in row["notes"]
    try:
        documented = _documented_cells(row, layer_only)
        run = _with_unlisted_settings(own_training_run(documented), row, layer_only)
        if problems := run.plan.problems(run.model, run.cluster):
            raise NotExpressible("; ".join(problems))
    except (PodsimError, NotExpressible) as problem:
        return blank | {"reason": str(problem)}
    scope = "layer" if layer_only else "first stage" if FIRST_STAGE in row["notes"] else ""
    return blank | {
        "network": documented["network"], "cluster": documented["cluster"], "plan": plan_settings(run.plan),
        "scope": scope, "chosen": run.chosen, "implied": run.implied,
    }  # fmt: skip


def plan_settings(plan: Plan) -> str:
    """The settings of a plan that are not the defaults, as text in the order of their names."""
    default = Plan().describe()
    return write_settings(
        "",
        {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in sorted(plan.describe().items())
            if value != default[name]
        },
    )


def _documented_cells(row: Mapping[str, str], layer_only: bool) -> dict[str, str]:
    """The row in the words of the documented columns."""
    gpu = cell_text(row, "gpu")
    system = f"{cell_text(row, 'node_type')} {cell_text(row, 'interconnect')}"
    node = find_node(gpu, system, cell_text(row, "gpu_mem_gb"))
    if node is None:
        raise NotExpressible(f"gpu={gpu!r} has no node in the catalog")
    wires = read_adapters(cell_text(row, "interconnect"), read_cluster(f"{node}:1").gpus_per_node)
    documented = {**row, "cluster": cluster_settings(node, read_count(row, "n_gpus"), wires)}
    if layer_only:
        documented |= {"params_b": "", "vocab": cell_text(row, "vocab") or "51200", "dp": "1"}
        documented |= {"global_batch": row["micro_batch"]}
    documented["network"] = model_settings(documented)
    documented["framework"] = _software(row)
    software = load_software(documented["framework"], read_cluster(documented["cluster"]).gpu)
    strategy = row["zero_stage_or_fsdp"]
    if "Interleaved" in strategy:
        documented["virtual_pp"] = str(max(read_count(row, "virtual_pp", 1), 2))
    if software.name.startswith("torchtitan"):
        documented["seq_parallel"] = "yes"
    if not cell_text(row, "micro_batch"):
        documented["micro_batch"] = _micro_batch(documented)
    return documented


def _with_unlisted_settings(run: TrainingRun, row: Mapping[str, str], layer_only: bool) -> TrainingRun:
    """The run with settings that no documented column states: asynchronous tensor parallelism, unfused attention."""
    changes: dict[str, object] = {}
    if re.search(r"async ?tp", row["notes"] + row["zero_stage_or_fsdp"], re.IGNORECASE) and run.plan.tp > 1:
        changes["overlap_tp"] = True
    if "without FlashAttention" in row["framework"]:
        changes["flash"] = False
    if layer_only:
        run = replace(run, chosen="", implied="")
    return replace(run, plan=run.plan.having(changes), layer_only=layer_only)


def _software(row: Mapping[str, str]) -> str:
    """The software entry that the row's framework and year name."""
    framework, year = cell_text(row, "framework"), cell_text(row, "year")[:4]
    name = framework_software(framework, int(year) if year.isdigit() else 2022)
    if name is None:
        raise NotExpressible(
            f"framework={framework!r} has no entry in the software catalog (podsim show software)"
        )
    if name == "megatron-2021" and "no scatter/gather" in row["notes"]:
        return "megatron-2021-whole-sends"
    if name == "torchtitan-2024" and row["zero_stage_or_fsdp"].strip() != "FSDP":
        return "torchtitan-2024-rowwise" if "rowwise" in row["precision"] else "torchtitan-2024-compile"
    return name


def _micro_batch(row: Mapping[str, str]) -> str:
    """The micro-batch that a row's notes or its framework's defaults give; "" if nothing does."""
    tp, pp, cp = (read_count(row, name, 1) for name in ("tp", "pp", "cp"))
    dp = read_count(row, "dp", max(1, read_count(row, "n_gpus") // (tp * pp * cp)))
    if match := re.search(r"grad_accum=(\d+)|micro_num=(\d+)", row["notes"]):
        return str(max(1, read_count(row, "global_batch") // (dp * int(match[1] or match[2]))))
    if "torchtitan" in row["framework"] and pp > 1:  # its default: as many micro-batches as stages
        return str(max(1, read_count(row, "global_batch") // (dp * pp)))
    return "1" if "local batch" in row["notes"] else ""


def memory(row: Mapping[str, str]) -> str:
    """GB of memory_gb: Korthikanti et al. and torchtitan (max_reserved_gib of its metrics.py) count in GiB."""
    text = row["memory_gb"]
    binary = "GiB" in row["notes"] or row["source"].startswith("torchtitan")
    return repr(float(text) * 2.0**30 / 1e9) if text and binary else text
