"""torchtitan: a plan as its TOML file, or as options of its command line, and read back.

Source: torchtitan 0.2.2, torchtitan/config/job_config.py (the last release with TOML files) and distributed/.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import podsim.foreign_files as foreign
from podsim.errors import PodsimError
from podsim.launching.job import ADAM_ALONE, GIVE_GPUS, NO_OFFLOAD, Context, Job, Reading
from podsim.launching.key_table import Key, KeyedTool, flat_keys, key_values, keys_of
from podsim.launching.run_values import plan_of
from podsim.launching.tool_limits import Limits, is_unsharded, is_waiting
from podsim.training.plan import Plan
from podsim.workload.model import Model
from podsim.workload.specification import shown

SOFTWARE = ("torchtitan-2024-compile", "torchtitan-2024", "torchtitan-2024-rowwise")
FLAVORS = {
    "llama-3.1-8b": ("llama3", "8B"), "llama-3.1-70b": ("llama3", "70B"), "llama-3.1-405b": ("llama3", "405B"),
    "llama-3-8b": ("llama3", "8B"), "llama-3-70b": ("llama3", "70B"), "deepseek-v3": ("deepseek_v3", "671B"),
    "qwen3-32b": ("qwen3", "32B"), "qwen3-30b-a3b": ("qwen3", "30B-A3B"),
}  # fmt: skip
"""models that both sides know"""
_LONGEST = 4_000
"""characters of a line: the parser needs time as the square of the parts of a dotted key"""
_AT, _FLOAT8 = "parallelism.", "quantize.linear.float8"
_SWITCH = ((True, True), (False, False))
_PIPED, _EIGHT = ("is_piped", (True,)), ("precision", ("fp8",))


def _moves_alone(plan: Plan, model: Model) -> bool:
    """Whether plain data parallelism stands beside other parallelism."""
    return int(plan.zero) == 0 and int(plan.dp) > 1 and int(plan.tp) * int(plan.pp) * int(plan.cp) > 1


def _is_uneven(plan: Plan, model: Model) -> bool:
    """Whether no number of layers of a chunk gives as many chunks as the plan has."""
    chunks, layers = int(plan.pp) * int(plan.virtual_stages), model.layer_count
    return int(plan.virtual_stages) > 2 and -(-layers // -(-layers // chunks)) != chunks


LIMITS = Limits(
    title="torchtitan",
    software=SOFTWARE,
    can={
        "zero": (0, 2, 3), "flash": (True,), "recompute_layers": (0,), "precision": ("bf16", "fp32", "fp8"),
        "optimizer_precision": ("fp32",),
    },
    rules=(
        (lambda plan, model: model.name not in FLAVORS, f"{{model}} is none of its models; it has {', '.join(FLAVORS)}"),
        (lambda plan, model: int(plan.tp) > 1 and not plan.sequence_parallel,
         "tp={tp} without sequence_parallel: its tensor parallelism always has both"),
        (lambda plan, model: plan.describe()["schedule"] == "gpipe" and int(plan.pp) == 1,
         "schedule=gpipe with pp=1: without a pipeline it runs micro-batches one by one; schedule may be 1f1b"),
        (is_unsharded, "zero={zero} over one rank: it shards over two or more; zero may be 0"),
        (lambda plan, model: int(plan.zero) == 0 and int(plan.cp) > 1,
         "zero=0 with cp={cp}: context-parallel ranks shard weights; zero may be 2, 3"),
        (_moves_alone,
         "zero=0 with dp={dp} beside other parallelism: plain data parallelism stands alone; zero may be 3"),
        (lambda plan, model: int(plan.shard) % int(plan.cp) != 0,
         "shard={shard} is no multiple of cp={cp}, whose ranks always shard"),
        (is_waiting, "overlap_grad or overlap_param off: it always overlaps gradients, and gathers weights ahead"),
        (lambda plan, model: bool(plan.overlap_tp) and plan.software == "torchtitan-2024",
         "overlap_tp with torchtitan-2024: asynchronous TP needs torch.compile"),
        (lambda plan, model: plan.software == "torchtitan-2024-rowwise" and plan.precision != "fp8",
         "software=torchtitan-2024-rowwise with precision={precision}: row-wise scaling is of fp8"),
        (_is_uneven, "pp={pp} x virtual_stages={virtual_stages}: it counts layers of a chunk, and no number of them "
         "gives as many chunks; use a divisor of the layers, or virtual_stages=2"),
    ),
)  # fmt: skip
TOOL = KeyedTool(
    limits=LIMITS,
    keys=(
        Key(path="job.dump_folder", written="./outputs"),
        Key(path="job.description", written=lambda job: f"{job.model.name} on {job.cluster.gpus} GPUs"),
        Key(path="model.name", written=lambda job: FLAVORS[job.model.name][0]),
        Key(path="model.flavor", written=lambda job: FLAVORS[job.model.name][1]),
        Key(path="model.hf_assets_path", written=lambda job: f"./assets/hf/{job.model.name}"),
        Key(path="model.converters", written=[_FLOAT8], when=_EIGHT),
        Key(path="training.local_batch_size", value="local", plain=8),
        Key(path="training.global_batch_size", value="global_batch", least=0),
        Key(path="training.seq_len", value="sequence", plain=2048),
        Key(path="training.steps", written=100),
        Key(path="training.dataset", written="c4"),
        Key(path="training.mixed_precision_param", value="precision", plain="bf16",
            words=(("bf16", "bfloat16"), ("fp8", "bfloat16"), ("fp32", "float32"))),
        Key(path=f"{_AT}data_parallel_replicate_degree", value="replicate", plain=1),
        Key(path=f"{_AT}data_parallel_shard_degree", value="shard"),
        Key(path=f"{_AT}fsdp_reshard_after_forward", value="zero", plain=3,
            words=((3, "default"), (0, "default"), (3, "always"), (2, "never"))),
        Key(path=f"{_AT}tensor_parallel_degree", value="tp", plain=1),
        Key(path=f"{_AT}enable_async_tensor_parallel", value="overlap_tp", words=_SWITCH, plain=False),
        Key(path=f"{_AT}context_parallel_degree", value="cp", plain=1),
        Key(path=f"{_AT}expert_parallel_degree", value="ep", plain=1),
        Key(path=f"{_AT}expert_tensor_parallel_degree", value="expert_tensor", plain=1),
        Key(path=f"{_AT}pipeline_parallel_degree", value="pp", plain=1),
        Key(path=f"{_AT}pipeline_parallel_schedule", value="schedule", plain="1f1b", when=_PIPED,
            words=(("gpipe", "GPipe"), ("1f1b", "1F1B"), ("interleaved", "Interleaved1F1B"))),
        Key(path=f"{_AT}pipeline_parallel_microbatch_size", value="micro_batch", plain=1, when=_PIPED),
        Key(path=f"{_AT}pipeline_parallel_first_stage_less_layers", value="first_less", written=0, plain=1, least=0,
            when=_PIPED),
        Key(path=f"{_AT}pipeline_parallel_last_stage_less_layers", value="last_less", written=0, plain=1, least=0,
            when=_PIPED),
        Key(path=f"{_AT}pipeline_parallel_layers_per_stage", value="chunk_layers", plain=0, least=0,
            when=("virtual_stages", range(3, 1 << 20))),
        Key(path="activation_checkpoint.mode", value="recompute", plain="selective",
            words=(("none", "none"), ("selective", "selective"), ("full", "full"))),
        Key(path="activation_checkpoint.selective_ac_option", written="op", when=("recompute", ("selective",))),
        Key(path="compile.enable", value="software", plain="torchtitan-2024",
            words=(("torchtitan-2024-compile", True), ("torchtitan-2024-rowwise", True), ("torchtitan-2024", False))),
        Key(path=f"{_FLOAT8}.recipe_name", when=_EIGHT,
            written=lambda job: "rowwise" if "rowwise" in job.plan.software else "tensorwise"),
        Key(path=f"{_FLOAT8}.filter_fqns", written=["output"], when=_EIGHT),
    ),
    refused={"training.enable_cpu_offload": NO_OFFLOAD},
    left=("training.global_batch_size", f"{_AT}data_parallel_shard_degree"),
)  # fmt: skip
_OLD = {
    "training.batch_size": "training.local_batch_size",
    "training.data_parallel_degree": _AT + "data_parallel_shard_degree",
    "training.compile": "compile.enable",
    "float8.recipe_name": f"{_FLOAT8}.recipe_name",
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
_UNCOUNTED = {
    "training.mixed_precision_reduce": (
        "float32",
        "gradients are reduced in the bytes that their software takes",
    ),
    f"{_AT}disable_loss_parallel": (False, "logits are taken to be divided over the tensor-parallel group"),
}
"""keys that a prediction leaves out: their plain value, and what it takes to be so instead"""
_SAYS_NOTHING = (
    "job.", "metrics.", "profiling.", "checkpoint.", "optimizer.", "lr_scheduler.", "validation.", "comm.",
    "training.enable_cpu_offload",
)  # fmt: skip


def notes(job: Job) -> list[str]:
    """What a user has to look over."""
    return [
        "trains on c4 for 100 steps; model.hf_assets_path must hold the tokenizer, and training.dataset be yours",
        "TOML files and these options are read by torchtitan up to 0.2.2; newer releases take Python functions",
    ]


def toml(job: Job) -> str:
    """The TOML file."""
    tables: dict[str, list[str]] = {}
    for path, value in keys_of(job, TOOL).items():
        name, _, key = path.rpartition(".")
        tables.setdefault(name, []).append(f"{key} = {json.dumps(value)}")
    return "\n".join(line for name, lines in tables.items() for line in (f"[{name}]", *lines, ""))


def overrides(job: Job) -> list[str]:
    """The same as options of torchtitan's command line."""
    words: list[str] = []
    for path, value in keys_of(job, TOOL).items():
        if isinstance(value, bool):
            words += [f"--{path}"] if value else []
        else:
            words += [f"--{path}", ",".join(value) if isinstance(value, list) else str(value)]
    return words


def read_toml(text: str, context: Context) -> Reading | None:
    """The plan of a TOML file; PodsimError if it is none."""
    raw = foreign.read_toml(text, name="the file", error=PodsimError, longest=_LONGEST)
    return _read_keys(flat_keys(raw), context)


def older_names(text: str) -> dict[str, str]:
    """The names of 2024 that a TOML file uses, by those of today."""
    flat = flat_keys(foreign.read_toml(text, name="the file", error=PodsimError, longest=_LONGEST))
    return {new: old for old, new in _OLD.items() if old in flat}


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
    return _read_keys(values, context)


def _typed(word: str) -> Any:
    if word.isascii() and word.removeprefix("-").isdecimal() and len(word) < 16:
        return int(word)
    return {"true": True, "false": False}.get(word.lower(), word)


def _read_keys(given: Mapping[str, Any], context: Context) -> Reading | None:
    """The plan of a job's keys; None where nothing can be built.

    The context's GPUs are needed where the shard degree is -1 (all that are left), its layers where layers of a stage are
    counted.
    """
    problems, known = context.problems, len(context.problems)
    flat = _renamed(given, problems)
    values = key_values(flat, TOOL, problems)
    problems += _problems(values, flat)
    assumed = _settle(values, flat, context)
    if len(problems) > known:
        return None
    plan = plan_of(values)
    taken = {key.path for key in TOOL.keys if key.value or not key.path.startswith("training.")}
    if int(plan.pp) == 1:
        taken.remove(f"{_AT}pipeline_parallel_microbatch_size")
    ignored = (path for path in flat if path not in taken and not path.startswith(_SAYS_NOTHING))
    return Reading(
        tool=context.tool, plan=plan, gpus=int(plan.gpus), named=_catalog_name(flat), assumptions=tuple(assumed),
        ignored=tuple(f"{path} = {shown(flat[path])}" for path in ignored if not _is_uncounted(path, flat)),
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
        now.setdefault("model.converters", [_FLOAT8])
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


def _problems(values: Mapping[str, Any], flat: Mapping[str, Any]) -> Iterator[str]:
    """The keys with which a file is no plan."""
    option = flat.get("activation_checkpoint.selective_ac_option", "op")
    if values["recompute"] == "selective" and option not in ("op", "2", 2):
        yield f"activation_checkpoint.selective_ac_option = {shown(option)}: a plan knows op only"
    if values["pp"] > 1 and flat.get(f"{_AT}module_fqns_per_model_part"):
        yield f"{_AT}module_fqns_per_model_part: a plan divides layers as evenly as it can; leave it away"
    known = {key.path for key in TOOL.keys}
    for path, value in flat.items():
        if path.endswith("_degree") and path not in known:
            yield f"{path} = {shown(value)}: no degree that is known here"


def _settle(values: dict[str, Any], flat: Mapping[str, Any], context: Context) -> list[str]:
    """What was assumed; the values that follow from others are set, and contradictions become problems."""
    tp, pp, local = values["tp"], values["pp"], values["local"]
    dp = _settle_shards(values, context)
    stated = values.get("global_batch", 0) > 0
    batch = values["global_batch"] if stated else local * dp
    micro = values["micro_batch"] if pp > 1 else local
    if batch % (local * dp):
        context.problems.append(
            f"training.global_batch_size = {batch} is no multiple of local_batch_size x dp = {local} x {dp}"
        )
    if pp > 1 and local % micro:
        context.problems.append(
            f"pipeline_parallel_microbatch_size = {micro} does not divide local_batch_size = {local}"
        )
    converters = flat.get("model.converters", [])
    if {_FLOAT8, "float8"} & {*(converters if isinstance(converters, list) else str(converters).split(","))}:
        values["precision"] = "fp8"
        if flat.get(f"{_FLOAT8}.recipe_name") == "rowwise":
            values["software"] = "torchtitan-2024-rowwise"
    values |= {
        "micro_batch": micro, "steps": batch // (dp * micro), "sequence_parallel": tp > 1, "flash": True,
        "schedule": values["schedule"] if pp > 1 else "1f1b", "zero": values["zero"] if pp == 1 else 3,
    }  # fmt: skip
    values["virtual_stages"] = _chunks(values, context) if values["schedule"] == "interleaved" else 1
    model = f"{shown(flat.get('model.name', 'llama3'))} {shown(flat.get('model.flavor', 'debugmodel'))}"
    ours = _catalog_name(flat)
    assumed = [
        f"the model is torchtitan's {model}, "
        + (f"{ours} of the catalog" if ours else "whose shape the file does not give")
    ]
    if not stated:
        assumed.append(f"no global_batch_size: one step of every rank, {batch} sequences")
    if values["ep"] > 1 and values["expert_tensor"] != tp:
        values["expert_tp"] = values["expert_tensor"]
    assumed += [
        f"{key} = {shown(flat[key])} is not counted: {instead}"
        for key, (_, instead) in _UNCOUNTED.items()
        if _is_uncounted(key, flat)
    ]
    optimizer = flat.get("optimizer.name", "AdamW")
    return assumed + (
        [] if optimizer in ("Adam", "AdamW") else [f"optimizer.name = {shown(optimizer)} {ADAM_ALONE}"]
    )


def _settle_shards(values: dict[str, Any], context: Context) -> int:
    """The data-parallel ranks; a shard degree of -1 is set to all GPUs that are left."""
    tp, pp, cp, copies = (values[name] for name in ("tp", "pp", "cp", "replicate"))
    others = tp * pp * cp * copies
    if "shard" in values and context.gpus and others * values["shard"] != context.gpus:
        context.problems.append(
            f"its degrees need {others * values['shard']} GPUs, but it is started on {context.gpus}"
        )
    elif "shard" not in values and context.gpus is None:
        context.problems.append(f"data_parallel_shard_degree = -1 is all GPUs that are left; {GIVE_GPUS}")
    elif "shard" not in values and context.gpus is not None and context.gpus % others:
        context.problems.append(
            f"tp x pp x cp x data_parallel_replicate_degree = {tp} x {pp} x {cp} x {copies} does not divide the "
            f"world of {context.gpus} GPUs"
        )
    return int(copies * values.setdefault("shard", max((context.gpus or 1) // others, 1)))


def _chunks(values: Mapping[str, Any], context: Context) -> int:
    """The chunks of a stage, from the layers of a chunk; two where the file does not state them."""
    pp, layers, size = values["pp"], context.layers, values["chunk_layers"]
    if not size:
        return 2
    if not layers:
        context.problems.append("pipeline_parallel_layers_per_stage needs the model's layers; give the model")
        return 2
    chunks = -(-(layers + values["first_less"] + values["last_less"]) // size)
    if chunks % pp or chunks < 2 * pp:
        context.problems.append(
            f"pipeline_parallel_layers_per_stage = {size} makes {chunks} chunks of {layers} layers, which must be a "
            f"multiple of pp={pp}, twice or more"
        )
    return int(max(chunks // pp, 1))


def _is_uncounted(path: str, flat: Mapping[str, Any]) -> bool:
    """Whether a key changes a step that is predicted without it."""
    return path in _UNCOUNTED and flat.get(path, _UNCOUNTED[path][0]) != _UNCOUNTED[path][0]


def _catalog_name(flat: Mapping[str, Any]) -> str:
    """The catalog's name of the model that a file names; empty if the catalog has none."""
    wanted = (flat.get("model.name", "llama3"), flat.get("model.flavor", "debugmodel"))
    return next((name for name, flavor in FLAVORS.items() if flavor == wanted), "")
