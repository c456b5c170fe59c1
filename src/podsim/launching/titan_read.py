"""A plan from torchtitan's keys, whether they come from a TOML file or from a command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from podsim.launching.job import ADAM_ALONE, GIVE_GPUS, NO_OFFLOAD, Context, Reading
from podsim.training.plan import Plan
from podsim.training.plan_values import Recompute, Schedule
from podsim.workload.specification import shown

FLAVORS = {
    "llama-3.1-8b": ("llama3", "8B"), "llama-3.1-70b": ("llama3", "70B"), "llama-3.1-405b": ("llama3", "405B"),
    "llama-3-8b": ("llama3", "8B"), "llama-3-70b": ("llama3", "70B"), "deepseek-v3": ("deepseek_v3", "671B"),
    "qwen3-32b": ("qwen3", "32B"), "qwen3-30b-a3b": ("qwen3", "30B-A3B"),
}  # fmt: skip
"""models that both sides know"""
_SCHEDULES = {"GPipe": Schedule.GPIPE, "1F1B": Schedule.ONE_F_ONE_B, "Interleaved1F1B": Schedule.INTERLEAVED}
_MODES = {"none": Recompute.NONE, "selective": Recompute.SELECTIVE, "full": Recompute.FULL}
_AT = "parallelism."
_OLD = {
    "training.batch_size": "training.local_batch_size",
    "training.data_parallel_degree": _AT + "data_parallel_shard_degree",
    "training.compile": "compile.enable",
    "float8.recipe_name": "quantize.linear.float8.recipe_name",
    **{
        f"{table}.{key}": _AT + key
        for table, keys in {
            "training": (
                "data_parallel_replicate_degree", "data_parallel_shard_degree", "tensor_parallel_degree",
                "fsdp_reshard_after_forward", "enable_async_tensor_parallel",
            ),
            "experimental": (
                "context_parallel_degree", "pipeline_parallel_degree", "pipeline_parallel_schedule",
                "enable_async_tensor_parallel",
            ),
        }.items()
        for key in keys
    },
}  # fmt: skip
"""keys of files of 2024, and what they are called now"""
_MICRO_BATCHES = "experimental.pipeline_parallel_microbatches"
_FLOAT8 = ("quantize.linear.float8", "float8")
_UNCOUNTED = {
    "training.mixed_precision_reduce": ("float32", "gradients are reduced in the bytes that their era takes"),
    "parallelism.disable_loss_parallel": (
        False,
        "logits are taken to be divided over the tensor-parallel group",
    ),
}
"""keys that a prediction leaves out: their plain value, and what it takes to be so instead"""
_SAYS_NOTHING = (
    "job.",
    "metrics.",
    "profiling.",
    "checkpoint.",
    "optimizer.",
    "lr_scheduler.",
    "validation.",
    "comm.",
)


class _Keys:
    """Values by dotted key, which of them were asked for, and what is wrong."""

    def __init__(self, given: Mapping[str, Any], problems: list[str]) -> None:
        self.given = given
        self.problems = problems
        self.taken: set[str] = set()

    def number(self, key: str, default: int, *, least: int = 1) -> int:
        self.taken.add(key)
        value = self.given.get(key, default)
        if isinstance(value, int) and not isinstance(value, bool) and least <= value < 1 << 40:
            return value
        self.problems.append(f"{key} = {shown(value)} must be a whole number from {least}")
        return default

    def word(self, key: str, default: str, choices: Sequence[str]) -> str:
        self.taken.add(key)
        value = self.given.get(key, default)
        if value in choices:
            return str(value)
        self.problems.append(f"{key} = {shown(value)} may be {', '.join(choices)}")
        return default

    def flag(self, key: str) -> bool:
        self.taken.add(key)
        value = self.given.get(key, False)
        if not isinstance(value, bool):
            self.problems.append(f"{key} = {shown(value)} must be true or false")
        return value is True

    def rest(self) -> tuple[str, ...]:
        return tuple(f"{key} = {shown(value)}" for key, value in self.given.items() if key not in self.taken)


def read_tables(given: Mapping[str, Any], context: Context) -> Reading | None:
    """The plan of a job's keys; None where nothing can be built.

    The context's GPUs are needed where the shard degree is -1 (all that are left), its layers where layers of a stage are
    counted.
    """
    problems, gpus = context.problems, context.gpus
    known = len(problems)
    given = _renamed(given, problems)
    keys = _Keys(given, problems)
    degrees = _degrees(keys, gpus)
    tp, pp, cp = degrees["tp"], degrees["pp"], degrees["cp"]
    schedule, chunks = _pipeline(keys, pp, context.layers)
    local = keys.number("training.local_batch_size", 8)
    dp = degrees["dp"]
    wanted = keys.number("training.global_batch_size", -1, least=-1)
    batch = wanted if wanted > 0 else local * dp
    micro = keys.number("parallelism.pipeline_parallel_microbatch_size", 1) if pp > 1 else local
    precision, software = _precision(keys)
    assumed = _assumed(keys, given, wanted, batch) + _others(keys, degrees)
    async_tp = keys.flag("parallelism.enable_async_tensor_parallel")
    if batch % (local * dp):
        problems.append(
            f"training.global_batch_size = {batch} is no multiple of local_batch_size x dp = {local} x {dp}"
        )
    if pp > 1 and local % micro:
        problems.append(
            f"pipeline_parallel_microbatch_size = {micro} does not divide local_batch_size = {local}"
        )
    count = tp * pp * cp * dp
    if gpus and degrees["stated"] and count != gpus:
        problems.append(f"its degrees need {count} GPUs, but it is started on {gpus}")
    plan = Plan(
        tp=tp, pp=pp, cp=cp, dp=dp, ep=degrees["ep"], virtual_stages=chunks, micro_batch=micro, global_batch=batch,
        sequence_parallel=tp > 1, zero=degrees["zero"], shard=degrees["shard"], schedule=schedule,
        recompute=_MODES[keys.word("activation_checkpoint.mode", "selective", tuple(_MODES))],
        flash=True, overlap_grad=dp * cp > 1, overlap_param=dp * cp > 1 and degrees["zero"] > 0,
        overlap_tp=async_tp, precision=precision, software=software, sequence=keys.number("training.seq_len", 2048),
    )  # fmt: skip
    _option(keys)
    if len(problems) > known:
        return None
    return Reading(
        tool=context.tool, plan=plan, gpus=count, named=_named(given), ignored=keys.rest(), assumptions=tuple(assumed)
    )  # fmt: skip


def _renamed(given: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    """The keys by today's names; both names of one key are a problem."""
    now = {key: value for key, value in given.items() if key not in _OLD}
    for old, new in _OLD.items():
        if old in given and new in now and now[new] != given[old]:
            problems.append(f"{old} and {new} say different things; keep one")
        elif old in given:
            now[new] = given[old]
    if now.pop("float8.enable_float8_linear", False) is True:
        now.setdefault("model.converters", [_FLOAT8[0]])
    stages = given.get("experimental.pipeline_parallel_degree", 1)
    if (
        isinstance(stages, int) and stages > 1
    ):  # the micro-batches were counted then, by default one a stage, and not their sequences
        count, local = now.pop(_MICRO_BATCHES, stages), now.get("training.local_batch_size", 8)
        if not isinstance(count, int) or count < 1 or not isinstance(local, int) or local % count:
            problems.append(
                f"{_MICRO_BATCHES} = {shown(count)} does not divide training.batch_size = {shown(local)}"
            )
        else:
            now[_AT + "pipeline_parallel_microbatch_size"] = local // count
    return now


def _others(keys: _Keys, degrees: Mapping[str, int]) -> list[str]:
    """What was left out of a plan; keys with which the file is no plan are added to the problems."""
    uncounted = []
    if keys.flag("training.enable_cpu_offload"):
        keys.problems.append(f"training.enable_cpu_offload: {NO_OFFLOAD}")
    if degrees["ep"] > 1 and degrees["within"] != degrees["tp"]:
        uncounted.append(
            f"expert_tensor_parallel_degree = {degrees['within']} is not counted: experts are divided over"
            f" tp={degrees['tp']}, as the rest is"
        )
    if degrees["pp"] > 1 and keys.given.get(_AT + "module_fqns_per_model_part"):
        keys.problems.append(
            f"{_AT}module_fqns_per_model_part: a plan divides layers as evenly as it can; leave it away"
        )
    for key, (plain, instead) in _UNCOUNTED.items():
        if keys.given.get(key, plain) != plain:
            uncounted.append(f"{key} = {shown(keys.given[key])} is not counted: {instead}")
            keys.taken.add(key)
    kind = keys.given.get("optimizer.name", "AdamW")
    if kind not in ("Adam", "AdamW"):
        uncounted.append(f"optimizer.name = {shown(kind)} {ADAM_ALONE}")
    keys.problems += [
        f"{key} = {shown(value)}: no degree that is known here"
        for key, value in keys.given.items()
        if key.endswith("_degree") and key not in keys.taken
    ]
    return uncounted


def _named(given: Mapping[str, Any]) -> str:
    """The catalog's name of the model that a file names; empty if the catalog has none."""
    wanted = (given.get("model.name", "llama3"), given.get("model.flavor", "debugmodel"))
    return next((name for name, flavor in FLAVORS.items() if flavor == wanted), "")


def _assumed(keys: _Keys, given: Mapping[str, Any], wanted: int, batch: int) -> list[str]:
    keys.taken.update(
        key for key in given if key.startswith(_SAYS_NOTHING) or key in ("model.hf_assets_path",)
    )
    name, flavor = given.get("model.name", "llama3"), given.get("model.flavor", "debugmodel")
    keys.taken.update(("model.name", "model.flavor"))
    ours = _named(given)
    model = f"{ours} of the catalog" if ours else "whose shape the file does not give"
    assumed = [f"the model is torchtitan's {shown(name)} {shown(flavor)}, {model}"]
    return assumed + (
        [] if wanted > 0 else [f"no global_batch_size: one step of every rank, {batch} sequences"]
    )


def _degrees(keys: _Keys, gpus: int | None) -> dict[str, int]:
    """Degrees, and what FSDP divides over."""
    at = "parallelism."
    tp = keys.number(at + "tensor_parallel_degree", 1)
    pp = keys.number(at + "pipeline_parallel_degree", 1)
    cp = keys.number(at + "context_parallel_degree", 1)
    ep = keys.number(at + "expert_parallel_degree", 1)
    within = keys.number(at + "expert_tensor_parallel_degree", 1)
    copies = keys.number(at + "data_parallel_replicate_degree", 1)
    inside = keys.number(at + "data_parallel_shard_degree", -1, least=-1)
    stated = inside != -1
    if not stated and gpus is None:
        keys.problems.append(f"data_parallel_shard_degree = -1 is all GPUs that are left; {GIVE_GPUS}")
        inside = 1
    elif not stated and gpus is not None:
        if gpus % (tp * pp * cp * copies):
            keys.problems.append(
                f"tp x pp x cp x data_parallel_replicate_degree = {tp} x {pp} x {cp} x {copies} does not divide the "
                f"world of {gpus} GPUs"
            )
        inside = max(gpus // (tp * pp * cp * copies), 1)
    elif inside == 0:
        keys.problems.append("data_parallel_shard_degree = 0; it may be -1 or a whole number from 1")
        inside = 1
    after = keys.word(at + "fsdp_reshard_after_forward", "default", ("default", "always", "never"))
    dp, ranks = copies * inside, inside * cp
    zero = 0 if ranks == 1 else 2 if after == "never" and pp == 1 else 3
    return {
        "tp": tp, "pp": pp, "cp": cp, "ep": ep, "dp": dp, "zero": zero, "stated": int(stated), "within": within,
        "shard": ranks if zero and ranks < dp * cp else 0,
    }  # fmt: skip


def _pipeline(keys: _Keys, pp: int, layers: int) -> tuple[Schedule, int]:
    name = keys.word("parallelism.pipeline_parallel_schedule", "1F1B", tuple(_SCHEDULES))
    each = keys.number("parallelism.pipeline_parallel_layers_per_stage", 0, least=0)
    less = [
        keys.number(f"parallelism.pipeline_parallel_{end}_stage_less_layers", 1, least=0)
        for end in ("first", "last")
    ]
    schedule = _SCHEDULES[name] if pp > 1 else Schedule.ONE_F_ONE_B
    if schedule != Schedule.INTERLEAVED:
        return schedule, 1
    if not each:
        return schedule, 2
    if not layers:
        keys.problems.append("pipeline_parallel_layers_per_stage needs the model's layers; give the model")
        return schedule, 2
    chunks = -(-(layers + sum(less)) // each)
    if chunks % pp or chunks < 2 * pp:
        keys.problems.append(
            f"pipeline_parallel_layers_per_stage = {each} makes {chunks} chunks of {layers} layers, which must be a "
            f"multiple of pp={pp}, twice or more"
        )
    return schedule, max(chunks // pp, 1)


def _precision(keys: _Keys) -> tuple[str, str]:
    keys.taken.add("model.converters")
    converters = keys.given.get("model.converters", [])
    chosen = converters if isinstance(converters, list) else str(converters).split(",")
    eight = any(name in chosen for name in _FLOAT8)
    recipe = keys.given.get("quantize.linear.float8.recipe_name")
    keys.taken.update(("quantize.linear.float8.recipe_name", "quantize.linear.float8.filter_fqns"))
    half = keys.word("training.mixed_precision_param", "bfloat16", ("bfloat16", "float32"))
    compiled = keys.flag("compile.enable")
    era = "torchtitan-2024-compile" if compiled else "torchtitan-2024"
    if eight:
        return "fp8", "torchtitan-2024-rowwise" if recipe == "rowwise" else era
    return ("bf16" if half == "bfloat16" else "fp32"), era


def _option(keys: _Keys) -> None:
    """Selective checkpointing: the law covers it by op; a plan cannot have every Nth layer."""
    keys.taken.add("activation_checkpoint.selective_ac_option")
    option = keys.given.get("activation_checkpoint.selective_ac_option", "op")
    mode = keys.given.get("activation_checkpoint.mode", "selective")
    if mode == "selective" and option not in ("op", "2", 2):
        keys.problems.append(
            f"activation_checkpoint.selective_ac_option = {shown(option)}: a plan knows op only"
        )
