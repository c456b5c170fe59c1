"""torchtitan: a plan as its TOML file, or as options of its command line, and read back.

Source: torchtitan 0.2.2, torchtitan/config/job_config.py (the last release with TOML files) and distributed/.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import podsim.foreign_files as foreign
from podsim.errors import PodsimError
from podsim.launching.job import Context, Job, Reading, effective, era_problem
from podsim.launching.titan_read import FLAVORS, read_tables
from podsim.training.plan import Plan
from podsim.training.plan_values import Recompute, Schedule

ERAS = ("torchtitan-2024-compile", "torchtitan-2024", "torchtitan-2024-rowwise")
_LONGEST = 4_000
"""characters of a line: the parser needs time as the square of the parts of a dotted key"""
_SCHEDULES = {
    Schedule.GPIPE: "GPipe",
    Schedule.ONE_F_ONE_B: "1F1B",
    Schedule.INTERLEAVED: "Interleaved1F1B",
}


def cannot(job: Job) -> list[str]:
    """The parts of a legal plan that torchtitan cannot run."""
    plan = effective(job.plan, job.model)
    dp, cp, zero, shard = int(plan.dp), int(plan.cp), int(plan.zero), int(plan.shard)
    others = int(plan.tp) * int(plan.pp) * cp
    chunks, layers = int(plan.pp) * int(plan.virtual_stages), job.model.layer_count
    compiled = plan.software != "torchtitan-2024"
    moved = dp * cp > 1
    rules = (
        (
            job.model.name not in FLAVORS,
            f"{job.model.name} is none of its models; it has {', '.join(FLAVORS)}",
        ),
        (
            int(plan.tp) > 1 and not plan.sequence_parallel,
            f"tp={plan.tp} without sequence_parallel: its tensor parallelism always has both",
        ),
        (
            plan.schedule == Schedule.GPIPE and int(plan.pp) == 1,
            "schedule=gpipe with pp=1: without a pipeline it runs micro-batches one by one; schedule may be 1f1b",
        ),
        (
            zero > 0 and (shard or dp * cp) == 1,
            f"zero={zero} over one rank: it shards over two or more; zero may be 0",
        ),
        (zero == 1, "zero=1: it shards gradients and weights as well; zero may be 0, 2, 3"),
        (zero == 0 and cp > 1, f"zero=0 with cp={cp}: context-parallel ranks shard weights; zero may be 2, 3"),
        (
            zero == 0 and dp > 1 and others > 1,
            f"zero=0 with dp={dp} beside other parallelism: plain data parallelism stands alone; zero may be 3",
        ),
        (shard > 0 and shard % cp != 0, f"shard={shard} is no multiple of cp={cp}, whose ranks always shard"),
        (moved and not plan.overlap_grad, "overlap_grad off: it always overlaps gradients"),
        (moved and zero > 0 and not plan.overlap_param, "overlap_param off: it always gathers weights ahead"),
        (plan.overlap_tp and not compiled, f"overlap_tp with {plan.software}: asynchronous TP needs torch.compile"),
        (not plan.flash, "flash off: its attention is always fused"),
        (plan.recompute_layers > 0, f"recompute_layers={plan.recompute_layers}: it recomputes all layers or none"),
        (
            plan.precision not in ("bf16", "fp32", "fp8"),
            f"precision={plan.precision}: it trains in bf16, fp32, fp8",
        ),
        (
            plan.software == "torchtitan-2024-rowwise" and plan.precision != "fp8",
            f"software=torchtitan-2024-rowwise with precision={plan.precision}: row-wise scaling is of fp8",
        ),
        (
            plan.optimizer_precision != "fp32",
            f"optimizer_precision={plan.optimizer_precision}: its moments are in fp32",
        ),
        (
            int(plan.virtual_stages) > 2 and -(-layers // -(-layers // chunks)) != chunks,
            f"pp x virtual_stages = {chunks} chunks of {layers} layers: it counts layers of a chunk, and no number of "
            "them gives as many chunks; use a divisor of the layers, or virtual_stages=2",
        ),
    )  # fmt: skip
    return [text for broken, text in rules if broken] + era_problem(plan, "torchtitan", ERAS)


def tables(job: Job) -> dict[str, dict[str, Any]]:
    """Tables of the TOML file, without those that stay at torchtitan's defaults."""
    plan = effective(job.plan, job.model)
    name, flavor = FLAVORS[job.model.name]
    local = int(plan.micro_batch) * (int(plan.micro_batches) if int(plan.pp) > 1 else 1)
    model: dict[str, Any] = {
        "name": name,
        "flavor": flavor,
        "hf_assets_path": f"./assets/hf/{job.model.name}",
    }
    if plan.precision == "fp8":
        model["converters"] = ["quantize.linear.float8"]
    mode = {Recompute.NONE: "none", Recompute.SELECTIVE: "selective", Recompute.FULL: "full"}[
        Recompute(int(plan.recompute))
    ]
    configuration: dict[str, dict[str, Any]] = {
        "job": {"dump_folder": "./outputs", "description": f"{job.model.name} on {job.cluster.gpus} GPUs"},
        "model": model,
        "training": {
            "local_batch_size": local, "global_batch_size": int(plan.global_batch), "seq_len": int(plan.sequence),
            "steps": 100, "dataset": "c4", "mixed_precision_param": "float32" if plan.precision == "fp32" else "bfloat16",
        },
        "parallelism": _parallelism(plan, job.model.layer_count),
        "activation_checkpoint": {"mode": mode} | ({"selective_ac_option": "op"} if mode == "selective" else {}),
        "compile": {"enable": plan.software != "torchtitan-2024"},
    }  # fmt: skip
    if plan.precision == "fp8":
        recipe = "rowwise" if plan.software == "torchtitan-2024-rowwise" else "tensorwise"
        configuration["quantize.linear.float8"] = {"recipe_name": recipe, "filter_fqns": ["output"]}
    return configuration


def _parallelism(plan: Plan, layers: int) -> dict[str, Any]:
    dp, cp, zero = int(plan.dp), int(plan.cp), int(plan.zero)
    inside = 1 if zero == 0 else (int(plan.shard) or dp * cp) // cp
    degrees: dict[str, Any] = {
        "data_parallel_replicate_degree": dp // inside, "data_parallel_shard_degree": inside,
        "fsdp_reshard_after_forward": "never" if zero == 2 else "default",
        "tensor_parallel_degree": int(plan.tp), "enable_async_tensor_parallel": bool(plan.overlap_tp),
        "context_parallel_degree": cp, "expert_parallel_degree": int(plan.ep),
        "expert_tensor_parallel_degree": int(plan.tp) if int(plan.ep) > 1 else 1,
        "pipeline_parallel_degree": int(plan.pp),
    }  # fmt: skip
    if int(plan.pp) > 1:
        degrees |= {
            "pipeline_parallel_schedule": _SCHEDULES[Schedule(int(plan.schedule))],
            "pipeline_parallel_microbatch_size": int(plan.micro_batch),
            "pipeline_parallel_first_stage_less_layers": 0,
            "pipeline_parallel_last_stage_less_layers": 0,
        }
    if int(plan.virtual_stages) > 2:
        degrees["pipeline_parallel_layers_per_stage"] = -(
            -layers // (int(plan.pp) * int(plan.virtual_stages))
        )
    return degrees


def notes(job: Job) -> list[str]:
    """What a user has to look over."""
    return [
        "trains on c4 for 100 steps; model.hf_assets_path must hold the tokenizer, and training.dataset be yours",
        "TOML files and these options are read by torchtitan up to 0.2.2; newer releases take Python functions",
    ]


def toml(job: Job) -> str:
    """The TOML file."""
    lines = []
    for name, table in tables(job).items():
        lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items()), ""]
    return "\n".join(lines)


def overrides(job: Job) -> list[str]:
    """The same as options of torchtitan's command line."""
    words: list[str] = []
    for name, table in tables(job).items():
        for key, value in table.items():
            option = f"--{name}.{key}"
            if isinstance(value, bool):
                words += [option] if value else []
            elif isinstance(value, list):
                words += [option, ",".join(value)]
            else:
                words += [option, str(value)]
    return words


def read_toml(text: str, context: Context) -> Reading | None:
    """The plan of a TOML file; PodsimError if it is none."""
    raw = foreign.read_toml(text, name="the file", error=PodsimError, longest=_LONGEST)
    return read_tables(_flat(raw), context)


def _flat(table: Mapping[str, Any], above: str = "", depth: int = 0) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict) and depth < 6:
            flat |= _flat(value, f"{above}{key}.", depth + 1)
        else:
            flat[f"{above}{key}"] = value
    return flat


def read_overrides(words: Sequence[str], context: Context) -> Reading | None:
    """The plan of torchtitan's command-line options; what its TOML file may say besides is not seen."""
    values: dict[str, Any] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            values[name] = _typed(value) if equals else True
        elif name:
            values[name] = _typed(word)
    return read_tables(values, context)


def _typed(word: str) -> Any:
    if word.isascii() and word.removeprefix("-").isdecimal() and len(word) < 16:
        return int(word)
    return {"true": True, "false": False}.get(word.lower(), word)
