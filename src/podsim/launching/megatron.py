"""Megatron-LM's arguments: a plan as options of pretrain_gpt.py (Megatron-Core 0.12 and newer), and read back.

Source: megatron/training/arguments.py and the configuration dataclasses of megatron-core 0.16, from which most of its
options are made.
"""

from __future__ import annotations

import re

from podsim.launching.flags import Flags
from podsim.launching.job import Job, effective
from podsim.launching.megatron_model import has_scans, model_options
from podsim.launching.megatron_other import read_others
from podsim.launching.tool_limits import Limits, trains_no_decoder
from podsim.schedules.actions import chunk_sizes
from podsim.training.plan import Plan
from podsim.training.plan_values import Recompute, Schedule

SOFTWARE = ("megatron-core", "megatron-*", "nemo-*")
_OLD = {"tp": ("model-parallel-size",)}
"""names that options had in releases before 2021, which are read and not written"""
_STRATEGIES = {2: "optim_grads", 3: "optim_grads_params"}
_DTYPES = ("fp32", "bf16", "fp16", "fp8")
PRECISION_FLAGS = {
    "bf16": ["--bf16"],
    "fp16": ["--fp16"],
    "fp32": [],
    "fp8": ["--bf16", "--fp8-format", "hybrid", "--fp8-recipe", "delayed"],
    "mxfp8": ["--bf16", "--fp8-format", "e4m3", "--fp8-recipe", "mxfp8"],
    "nvfp4": ["--bf16", "--fp4-format", "e2m1", "--fp4-recipe", "nvfp4"],
}
"""The flags of each precision."""
_DEGREES = {
    "tp": "tensor-model-parallel-size", "pp": "pipeline-model-parallel-size", "cp": "context-parallel-size",
    "ep": "expert-model-parallel-size",
}  # fmt: skip


LIMITS = Limits(
    title="Megatron-LM",
    software=SOFTWARE,
    can={"precision": tuple(PRECISION_FLAGS)},
    rules=(
        (lambda plan, model: plan.describe()["schedule"] == "gpipe",
         "schedule=gpipe: its schedules are 1f1b and interleaved"),
        (lambda plan, model: bool(plan.overlap_tp) and not plan.sequence_parallel,
         "overlap_tp without sequence_parallel: --tp-comm-overlap needs --sequence-parallel"),
        (lambda plan, model: model.has_experts and int(plan.tp) > 1 and not plan.sequence_parallel,
         "tp={tp} of a mixture of experts without sequence_parallel: it needs --sequence-parallel"),
        (lambda plan, model: bool(plan.overlap_param) and not plan.overlap_grad,
         "overlap_param without overlap_grad: --overlap-param-gather needs --overlap-grad-reduce"),
        (lambda plan, model: int(plan.recompute_layers) % int(plan.virtual_stages) != 0,
         "recompute_layers={recompute_layers} over virtual_stages={virtual_stages}: it recomputes the same number in "
         "each chunk; recompute_layers may be a multiple of {virtual_stages}"),
        (lambda plan, model: plan.optimizer_precision != "fp32" and not plan.zero,
         "optimizer_precision={optimizer_precision} with zero=0: its precision-aware optimizer is distributed; zero may "
         "be 1"),
        (lambda plan, model: has_scans(model),
         "{model} has layers that scan: pretrain_gpt.py trains layers of attention"),
        (trains_no_decoder, "{model} is no decoder: pretrain_gpt.py trains decoders"),
    ),
)  # fmt: skip


def options(job: Job) -> list[list[str]]:
    """Options in groups: parallelism, batch, memory, overlap, precision, model, and what makes them run on mock data."""
    plan = effective(job.plan, job.model)
    return [
        _parallel(plan, job),
        ["--micro-batch-size", str(plan.micro_batch), "--global-batch-size", str(plan.global_batch),
         "--seq-length", str(plan.sequence)],
        _memory(plan),
        _overlap(plan),
        _precision(plan),
        model_options(job.model, plan.length(job.model)),
        ["--mock-data", "--tokenizer-type", "NullTokenizer", "--train-iters", "100", "--lr", "1.0e-4",
         "--log-interval", "1", "--log-throughput"],
    ]  # fmt: skip


def position_notes(job: Job) -> list[str]:
    """What the options leave unsaid of rotary positions: no law depends on their scaling."""
    if job.model.attributes["position"] != "rope":
        return []
    return [
        "rope scaling is not written: a model that has it also needs --use-rope-scaling --rope-scaling-factor N"
    ]


def _parallel(plan: Plan, job: Job) -> list[str]:
    out = []
    for name, option in _DEGREES.items():
        if name in ("tp", "pp") or getattr(plan, name) != 1:
            out += [f"--{option}", str(getattr(plan, name))]
    if int(plan.ep) > 1 and int(plan.tp) > 1:
        out += ["--expert-tensor-parallel-size", str(plan.expert_ranks)]
    chunks = int(plan.pp) * int(plan.virtual_stages)
    if job.model.layer_count % chunks:
        out += [
            "--pipeline-model-parallel-layout",
            layout(job.model.layer_count, chunks, len(job.model.later)),
        ]
    elif plan.virtual_stages != 1:
        out += ["--num-virtual-stages-per-pipeline-rank", str(plan.virtual_stages)]
    if plan.sequence_parallel:
        out.append("--sequence-parallel")
    if plan.zero == 1:
        out.append("--use-distributed-optimizer")
    if int(plan.zero) > 1:
        out += ["--use-megatron-fsdp", "--data-parallel-sharding-strategy", _STRATEGIES[int(plan.zero)],
                "--use-distributed-optimizer", "--ckpt-format", "fsdp_dtensor"]  # fmt: skip
    if plan.shard:
        ranks = int(plan.dp) * int(plan.cp)
        out += ["--num-distributed-optimizer-instances", str(ranks // int(plan.shard))]
    return out


def layout(layers: int, chunks: int, later: int = 0) -> str:
    """Layers of each model chunk as --pipeline-model-parallel-layout takes them: "Et*3|t*4|t*3L"; m is a `later` one."""
    sizes = chunk_sizes(layers, chunks)
    parts = [f"t*{size}" if size > 1 else "t" * size for size in sizes]
    return "|".join(["E" + parts[0], *parts[1:]]) + "m" * later + "L"


def _memory(plan: Plan) -> list[str]:
    out = ["--attention-backend", "flash" if plan.flash else "unfused"]
    if plan.recompute == Recompute.SELECTIVE:
        out += ["--recompute-granularity", "selective"]
    elif plan.recompute == Recompute.FULL:
        some = int(plan.recompute_layers) // int(plan.virtual_stages)
        method, count = ("block", some) if some else ("uniform", 1)
        out += ["--recompute-granularity", "full", "--recompute-method", method,
                "--recompute-num-layers", str(count)]  # fmt: skip
    return out


def _overlap(plan: Plan) -> list[str]:
    wanted = {
        "overlap-grad-reduce": plan.overlap_grad,
        "overlap-param-gather": plan.overlap_param,
        "tp-comm-overlap": plan.overlap_tp,
    }
    return [f"--{name}" for name, on in wanted.items() if on]


def _precision(plan: Plan) -> list[str]:
    out = list(PRECISION_FLAGS[plan.precision])
    if plan.optimizer_precision != "fp32":
        moments = plan.optimizer_precision
        out = [
            *out,
            "--use-precision-aware-optimizer",
            "--exp-avg-dtype",
            moments,
            "--exp-avg-sq-dtype",
            moments,
        ]
    return out


def read_plan(flags: Flags, gpus: int, layers: int) -> tuple[Plan, list[str]]:
    """(the plan of a command on `gpus` GPUs, what was assumed); problems are added to `flags.problems`.

    `layers` are the model's, 0 where they are not known.
    """
    assumed: list[str] = []
    if "deepspeed-config" in flags.given:
        assumed.append("the file of --deepspeed-config was not read: the command's own options hold")
    degree = {name: flags.number(option, *_OLD.get(name, ())) or 1 for name, option in _DEGREES.items()}
    ranks = degree["tp"] * degree["pp"] * degree["cp"]
    if gpus % ranks:
        flags.problems.append(
            f"tp x pp x cp = {degree['tp']} x {degree['pp']} x {degree['cp']} = {ranks} does not divide the world of "
            f"{gpus} GPUs; degrees that do, or another number of GPUs, would work"
        )
    dp, expert_tp = max(gpus // ranks, 1), flags.number("expert-tensor-parallel-size") or 0
    micro = flags.number("micro-batch-size", "batch-size")
    batch = flags.number("global-batch-size")
    if micro is None and not flags.given.keys() & {"micro-batch-size", "batch-size"}:
        flags.problems.append("--micro-batch-size is missing")
    if batch is None and "global-batch-size" not in flags.given:
        assumed.append(
            "no --global-batch-size: one micro-batch for each data-parallel rank, as Megatron-LM takes it"
        )
    chunks = _read_chunks(flags, degree["pp"], layers)
    recompute, some = _read_recompute(flags, chunks)
    fsdp, shards = _read_zero(flags), flags.number("num-distributed-optimizer-instances") or 1
    if dp * degree["cp"] % shards:
        flags.problems.append(
            f"--num-distributed-optimizer-instances {shards} does not divide dp x cp = {dp} x {degree['cp']}"
        )
    assumed += read_others(flags, pp=degree["pp"], chunks=chunks, layers=layers)
    return Plan(
        tp=degree["tp"], pp=degree["pp"], cp=degree["cp"], ep=degree["ep"], dp=dp, virtual_stages=chunks,
        expert_tp=0 if expert_tp == degree["tp"] else expert_tp,
        micro_batch=micro or 1, global_batch=batch or dp * (micro or 1),
        sequence_parallel=flags.has("sequence-parallel") and degree["tp"] > 1, zero=fsdp,
        shard=dp * degree["cp"] // shards if shards > 1 else 0, recompute=recompute, recompute_layers=some,
        schedule=Schedule.INTERLEAVED if chunks > 1 else Schedule.ONE_F_ONE_B, flash=_read_flash(flags, assumed),
        overlap_grad=flags.has("overlap-grad-reduce"), overlap_param=flags.has("overlap-param-gather"),
        overlap_tp=flags.has("tp-comm-overlap"), precision=_read_precision(flags, assumed),
        optimizer_precision=_read_moments(flags), sequence=flags.number("seq-length", "encoder-seq-length") or 0,
    ), assumed  # fmt: skip


def _read_chunks(flags: Flags, pp: int, layers: int) -> int:
    """Model chunks of a stage, from any of the three ways to give them."""
    ways = (
        "num-virtual-stages-per-pipeline-rank",
        "num-layers-per-virtual-pipeline-stage",
        "pipeline-model-parallel-layout",
    )
    given = [way for way in ways if way in flags.given]
    if len(given) > 1:
        flags.problems.append(f"{' and '.join('--' + way for way in given)} exclude each other; keep one")
    direct, size, text = flags.number(ways[0]), flags.number(ways[1]), flags.word(ways[2])
    if direct:
        return direct
    if size and layers:
        if layers % (size * pp):
            flags.problems.append(
                f"--{ways[1]} {size} x pp={pp} does not divide --num-layers {layers} into whole chunks"
            )
        return max(layers // (size * pp), 1)
    if size:
        flags.problems.append(f"--{ways[1]} needs --num-layers to be understood, which is missing")
    if text is not None:
        return _read_layout(flags, text, pp, layers)
    return 1


def _read_layout(flags: Flags, text: str, pp: int, layers: int) -> int:
    spelt = text.replace(",", "")
    for pattern in (r"\(([^()]+)\)\*(\d{1,4})", r"(.)\*(\d{1,4})"):
        spelt = re.sub(pattern, lambda m: m[1] * int(m[2]), spelt[: 1 << 12])
    stages = spelt.split("|")
    if set(spelt) - set("EtmL|"):
        flags.problems.append(
            f"--pipeline-model-parallel-layout {text[:60]!r} may hold E, t, m, L, |, ( ) and *N only"
        )
    elif len(stages) % pp:
        flags.problems.append(
            f"--pipeline-model-parallel-layout has {len(stages)} stages, which is no multiple of pp={pp}"
        )
    elif layers and spelt.count("t") != layers:
        flags.problems.append(
            f"--pipeline-model-parallel-layout has {spelt.count('t')} layers, but --num-layers is {layers}"
        )
    elif "m" not in spelt and [s.count("t") for s in stages] != chunk_sizes(spelt.count("t"), len(stages)):
        flags.problems.append(
            f"--pipeline-model-parallel-layout {text[:60]!r}: a plan divides layers as evenly as it can: "
            f"{layout(spelt.count('t'), len(stages))[:200]}"
        )
    return max(len(stages) // pp, 1)


def _read_recompute(flags: Flags, chunks: int) -> tuple[Recompute, int]:
    kind = flags.word("recompute-granularity", choices=("full", "selective"))
    method = flags.word("recompute-method", choices=("uniform", "block"))
    count = flags.number("recompute-num-layers")
    if flags.has("recompute-activations") and kind == "full":
        flags.problems.append(
            "--recompute-activations is selective, but --recompute-granularity says full; keep one"
        )
    if kind == "full" and method is None and "recompute-method" not in flags.given:
        flags.problems.append("--recompute-granularity full needs --recompute-method uniform or block")
    if method and kind != "full":
        flags.problems.append(f"--recompute-method {method} goes with --recompute-granularity full")
    if kind == "full":
        return Recompute.FULL, (count or 1) * chunks if method == "block" else 0
    if flags.has("checkpoint-activations", "deepspeed-activation-checkpointing"):
        if kind == "selective":
            flags.problems.append(
                "--checkpoint-activations is full, but --recompute-granularity says selective"
            )
        return Recompute.FULL, 0
    selective = kind == "selective" or flags.has("recompute-activations")
    return (Recompute.SELECTIVE if selective else Recompute.NONE), 0


def _read_zero(flags: Flags) -> int:
    distributed = flags.has("use-distributed-optimizer")
    full = flags.has("use-megatron-fsdp", "use-custom-fsdp")
    strategy = flags.word(
        "data-parallel-sharding-strategy", choices=("no_shard", "optim", "optim_grads", "optim_grads_params")
    )
    stage = flags.number("zero-stage", least=0)
    if stage is not None:
        if stage > 3 or distributed or full:
            flags.problems.append(
                f"--zero-stage {stage} may be 0, 1, 2, 3, without another sharded optimizer"
            )
        return min(stage, 3)
    if flags.has("use-torch-fsdp2"):
        if full:
            flags.problems.append("--use-torch-fsdp2 and --use-megatron-fsdp exclude each other; keep one")
        return 3
    if strategy and strategy != "no_shard" and not full:
        flags.problems.append(f"--data-parallel-sharding-strategy {strategy} needs --use-megatron-fsdp")
    if full:
        return {"optim": 1, "optim_grads": 2, "optim_grads_params": 3}.get(strategy or "no_shard", 0)
    return 1 if distributed else 0


def _read_flash(flags: Flags, assumed: list[str]) -> bool:
    backend = flags.word("attention-backend", choices=("auto", "flash", "fused", "unfused", "local"))
    old = flags.has("use-flash-attn")
    local = (
        flags.word("transformer-impl", choices=("local", "transformer_engine", "inference_optimized"))
        == "local"
    )
    if local and backend in (None, "auto") and not old:
        assumed.append("--transformer-impl local without --use-flash-attn: unfused attention")
        return False
    if backend is None and not old:
        assumed.append("no --attention-backend: fused attention, as Transformer Engine chooses it")
    return old or backend not in ("unfused", "local")


def _read_precision(flags: Flags, assumed: list[str]) -> str:
    half = [name for name in ("bf16", "fp16") if flags.has(name)]
    if len(half) > 1:
        flags.problems.append("--bf16 and --fp16 exclude each other; keep one")
    eight = flags.word("fp8-format", "fp8", choices=("hybrid", "e4m3")) or flags.has("fp8-hybrid", "fp8-e4m3")
    recipe = flags.word("fp8-recipe", choices=("delayed", "tensorwise", "blockwise", "mxfp8", "custom"))
    four = flags.word("fp4-format", choices=("e2m1",))
    flags.word("fp4-recipe", choices=("nvfp4",))
    if eight and four:
        flags.problems.append("--fp8-format and --fp4-format exclude each other; keep one")
    if recipe in ("tensorwise", "blockwise", "custom"):
        assumed.append(f"--fp8-recipe {recipe} is not counted: products run as with delayed scaling")
    if eight or four:
        return "nvfp4" if four else "mxfp8" if recipe == "mxfp8" else "fp8"
    if not half:
        assumed.append("neither --bf16 nor --fp16: fp32, as Megatron-LM takes it")
    return half[0] if half else "fp32"


def _read_moments(flags: Flags) -> str:
    aware = flags.has("use-precision-aware-optimizer")
    first = flags.word("exp-avg-dtype", choices=_DTYPES)
    second = flags.word("exp-avg-sq-dtype", choices=_DTYPES)
    if (first or "fp32") != (second or "fp32"):
        flags.problems.append(
            f"--exp-avg-dtype {first} and --exp-avg-sq-dtype {second}: a plan has both moments alike"
        )
    if first not in (None, "fp32") and not aware:
        flags.problems.append(f"--exp-avg-dtype {first} needs --use-precision-aware-optimizer")
    return first or "fp32"
