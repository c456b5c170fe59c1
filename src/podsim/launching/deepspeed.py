"""DeepSpeed's JSON: a plan as its configuration, and read back.

The file names batch, ZeRO stage and precision; degrees of tensor and pipeline parallelism stand in it since 0.16, the
sequence and the attention kernel are the training script's. Source: deepspeed 0.19, runtime/config.py, zero/config.py.
"""

from __future__ import annotations

import json
from typing import Any

import podsim.foreign_files as foreign
from podsim.errors import PodsimError
from podsim.launching.deepspeed_other import read_others
from podsim.launching.job import GIVE_GPUS, Context, Job, Reading, effective
from podsim.launching.tool_limits import Limits
from podsim.training.plan import Plan
from podsim.training.plan_values import Recompute
from podsim.workload.specification import shown

_MODELLED = (
    "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "zero_optimization", "bf16",
    "fp16", "tensor_parallel", "pipeline", "activation_checkpointing", "bfloat16", "podsim",
)  # fmt: skip


LIMITS = Limits(
    title="DeepSpeed",
    software=("megatron-core", "megatron-*", "nemo-*", "llm-foundry-*", "pytorch-*", "dle-pytorch*"),
    can={
        "expert_tp": (0,),
        "schedule": ("1f1b",), "recompute": ("none", "full"), "recompute_layers": (0,), "shard": (0,),
        "precision": ("bf16", "fp16", "fp32"), "optimizer_precision": ("fp32",),
    },
    rules=(
        (lambda plan, model: int(plan.cp) > 1,
         "cp={cp}: it divides sequences by all-to-all (Ulysses), a plan by a ring; cp may be 1"),
        (lambda plan, model: int(plan.ep) > 1, "ep={ep}: expert groups are made in the training script; ep may be 1"),
        (lambda plan, model: bool(plan.sequence_parallel), "sequence_parallel: its tensor parallelism has none"),
        (lambda plan, model: bool(plan.overlap_tp), "overlap_tp: its tensor parallelism overlaps nothing"),
        (lambda plan, model: int(plan.pp) > 1 and int(plan.zero) > 1,
         "zero={zero} with pp={pp}: its pipeline takes zero 0 or 1"),
        (lambda plan, model: int(plan.dp) * int(plan.cp) > 1 and int(plan.zero) in (1, 2) and bool(plan.overlap_param),
         "overlap_param with zero={zero}: it gathers weights after the step; overlap_param needs zero=3"),
    ),
)  # fmt: skip


def config(job: Job) -> dict[str, Any]:
    """The configuration."""
    plan = effective(job.plan, job.model)
    zero = int(plan.zero)
    sharding: dict[str, Any] = {"stage": zero, "overlap_comm": bool(plan.overlap_grad)}
    if zero == 3:
        sharding["stage3_prefetch_bucket_size"] = 50_000_000 if plan.overlap_param else 0
    configuration: dict[str, Any] = {
        "train_batch_size": int(plan.global_batch),
        "train_micro_batch_size_per_gpu": int(plan.micro_batch),
        "gradient_accumulation_steps": int(plan.micro_batches),
        "zero_optimization": sharding,
        "bf16": {"enabled": plan.precision == "bf16"},
        "fp16": {"enabled": plan.precision == "fp16"},
    }
    if int(plan.tp) > 1:
        configuration["tensor_parallel"] = {"autotp_size": int(plan.tp)}
    if int(plan.pp) > 1:
        configuration["pipeline"] = {"stages": int(plan.pp)}
    if plan.recompute == Recompute.FULL:
        configuration["activation_checkpointing"] = {
            "partition_activations": False,
            "number_checkpoints": job.model.layer_count,
        }
    return configuration


def notes(job: Job) -> list[str]:
    """What the file does not say."""
    return [
        f"the training script sets the sequence ({job.plan.length(job.model)} tokens) and "
        f"{'fused' if job.plan.flash else 'unfused'} attention, and calls the checkpointing that the file sets up",
        f"started with: deepspeed --num_nodes {job.nodes} --num_gpus {job.per_node} SCRIPT --deepspeed_config FILE",
    ]


def text(job: Job) -> str:
    """The JSON file."""
    return json.dumps(config(job), indent=2) + "\n"


def read_json(source: str, context: Context) -> Reading | None:
    """The plan of a configuration; None where nothing can be built. PodsimError if it is no JSON object.

    One of the three batch values may be missing, or "auto" with the others given; the number of GPUs follows, or is
    held against what they say.
    """
    raw, problems, gpus = _parsed(source), context.problems, context.gpus
    known = len(problems)
    zero = _zero(raw, problems)
    tp = _size(raw, "tensor_parallel", "autotp_size", problems)
    pp = _size(raw, "pipeline", "stages", problems)
    micro, steps, batch, dp = _batches(
        raw, problems, gpus // (tp * pp) if gpus and gpus % (tp * pp) == 0 else None
    )
    if gpus and gpus % (tp * pp):
        problems.append(f"tp x pp = {tp} x {pp} does not divide the world of {gpus} GPUs")
    elif gpus and dp and tp * pp * dp != gpus:
        problems.append(
            f"train_batch_size = micro x accumulation x data-parallel ranks: {batch} = {micro} x {steps} x {dp} needs "
            f"{tp * pp * dp} GPUs, but {gpus} are given"
        )
    precision = _precision(raw, problems)
    settings = raw.get("zero_optimization", {}) if isinstance(raw.get("zero_optimization", {}), dict) else {}
    grad = settings.get("overlap_comm", zero == 3)
    param = zero == 3 and settings.get("stage3_prefetch_bucket_size", 1) != 0
    left_out = read_others(raw, settings, problems)
    if len(problems) > known or not dp or not micro or not batch:
        return None
    alone = dp == 1
    plan = Plan(
        tp=tp, pp=pp, dp=dp, micro_batch=micro, global_batch=batch, zero=zero,
        recompute=Recompute.FULL if "activation_checkpointing" in raw else Recompute.NONE,
        overlap_grad=grad is True and not alone, overlap_param=param and not alone, precision=precision,
        sequence=context.sequence,
    )  # fmt: skip
    assumed = ["the file names no sequence and no attention kernel: the model's sequence, fused attention"]
    if not any(_whole(raw.get(key)) for key in _BATCH_KEYS):
        assumed.append(
            "no batch is given: 8 sequences of each rank without accumulation, as Hugging Face's Trainer"
        )
    if "activation_checkpointing" in raw:
        assumed.append("activation_checkpointing: every layer is recomputed")
    rest = [str(key) for key in raw if key not in _MODELLED]
    rest += [
        f"zero_optimization.{k}"
        for k in settings
        if k not in ("stage", "overlap_comm", "stage3_prefetch_bucket_size")
    ]
    return Reading(
        tool=context.tool, plan=plan, gpus=tp * pp * dp, assumptions=(*assumed, *left_out.values()),
        ignored=tuple(key for key in rest if key not in left_out),
    )  # fmt: skip


def _parsed(source: str) -> dict[str, Any]:
    raw = foreign.read_json(source, name="a DeepSpeed configuration", error=PodsimError)
    if not isinstance(raw, dict):
        raise PodsimError("not a DeepSpeed configuration: the JSON is no object")
    if not any(key in raw for key in _MODELLED):
        raise PodsimError(f"not a DeepSpeed configuration: it has none of {', '.join(_MODELLED[:4])}")
    return raw


def _whole(value: object) -> bool:
    return type(value) is int and 0 < value < 1 << 40


_BATCH_KEYS = ("train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "train_batch_size")


def _batches(raw: dict[str, Any], problems: list[str], ranks: int | None) -> tuple[int, int, int, int]:
    """(micro-batch, accumulation steps, batch, data-parallel ranks) by batch = micro x steps x ranks; 0 is unknown."""
    values: list[int] = []
    for key in _BATCH_KEYS:
        value = raw.get(key, "auto")
        if value != "auto" and not _whole(value):
            problems.append(f"{key} = {shown(value)} must be a whole number from 1, or auto")
        values.append(value if _whole(value) else 0)
    micro, steps, batch = values
    if ranks and not any(values):
        micro, steps = 8, 1  # what Hugging Face's Trainer fills in for "auto" by default
    if micro and not steps and not batch:
        steps = 1  # DeepSpeed's own default
    if batch and not micro and not steps and ranks:
        steps, micro = 1, batch // ranks
    if batch and micro and steps:
        if batch % (micro * steps):
            problems.append(
                f"train_batch_size = {batch} is not micro x accumulation x ranks: no multiple of {micro} x {steps}"
            )
        return micro, steps, batch, batch // (micro * steps)
    if ranks is None:
        problems.append(
            "train_batch_size, train_micro_batch_size_per_gpu and gradient_accumulation_steps are not all given, and "
            f"so do not say how many GPUs there are; {GIVE_GPUS}"
        )
        return micro, steps, batch, 0
    if not batch:
        return micro, steps or 1, micro * (steps or 1) * ranks, ranks
    factor = micro or steps
    if not factor or batch % (factor * ranks):
        problems.append(
            f"train_batch_size = {batch} is no multiple of {factor or 'nothing'} x {ranks} data-parallel ranks"
        )
        return micro or 1, steps or 1, batch, ranks
    other = batch // (factor * ranks)
    return (micro, other, batch, ranks) if micro else (other, steps, batch, ranks)


def _zero(raw: dict[str, Any], problems: list[str]) -> int:
    settings = raw.get("zero_optimization", {})
    if not isinstance(settings, dict):
        problems.append("zero_optimization must be an object")
        return 0
    stage = settings.get("stage", 0)
    if type(stage) is not int or not 0 <= stage <= 3:
        problems.append(f"zero_optimization.stage = {shown(stage)} may be 0, 1, 2, 3")
        return 0
    if not isinstance(settings.get("overlap_comm", True), bool) and settings.get("overlap_comm") != "auto":
        problems.append(
            f"zero_optimization.overlap_comm = {shown(settings['overlap_comm'])} must be true or false"
        )
    return stage


def _size(raw: dict[str, Any], table: str, key: str, problems: list[str]) -> int:
    settings = raw.get(table, {})
    value = settings.get(key, 1) if isinstance(settings, dict) else settings
    if value in (0, "auto"):
        return 1
    if _whole(value):
        return int(value)
    problems.append(f"{table}.{key} = {shown(value)} must be a whole number from 1")
    return 1


def _precision(raw: dict[str, Any], problems: list[str]) -> str:
    on = []
    for key, name in (("bf16", "bf16"), ("bfloat16", "bf16"), ("fp16", "fp16")):
        settings = raw.get(key, {})
        value = settings.get("enabled", False) if isinstance(settings, dict) else settings
        if not isinstance(value, bool) and value != "auto":
            problems.append(f"{key}.enabled = {shown(value)} must be true or false")
        if value is True or (value == "auto" and name == "bf16"):
            on.append(name)
    if len(set(on)) > 1:
        problems.append("bf16 and fp16 are both enabled; keep one")
    return on[0] if on else "fp32"
