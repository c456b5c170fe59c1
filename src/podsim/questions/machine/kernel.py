"""`podsim kernel`: how long one kernel takes on a GPU, its share of the roofline, and what was measured near it."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from podsim.accuracy.price_engines import (
    COLUMNS,
    LAWS,
    attention_shape,
    engine_gpu,
    engine_run,
    expert_shape,
    numbers_of,
)
from podsim.accuracy.tables import Row, load
from podsim.answers.kernel_time import KernelTime, NearestKernel
from podsim.axes import Floats
from podsim.errors import PlanError, PodsimError
from podsim.hardware.catalog import load_gpu
from podsim.hardware.parts import Gpu
from podsim.kernels.elementwise import memory_seconds
from podsim.kernels.engine_constants import engine_constants, engine_key
from podsim.kernels.engine_run import EngineRun, precision_name
from podsim.kernels.engine_work import attention_work, experts_work, gemm_work, least_seconds
from podsim.kernels.gemm import gemm_seconds, gemm_source, operand_bytes
from podsim.options.kernel_options import KernelOptions
from podsim.options.question import question, wrong_choices

_LAWS = {
    "attention": "prefill", "decode": "decode", "mla": "mla-prefill", "mla-decode": "mla-decode", "moe": "moe",
}  # fmt: skip
"""Kernel -> its law."""
_OPERATIONS = {
    "gemm": ("gemm",), "attention": ("context_attention",), "decode": ("generation_attention",),
    "mla": ("mla_context", "context_mla"), "mla-decode": ("mla_generation", "generation_mla"), "moe": ("moe",),
}  # fmt: skip
"""Kernel -> what tables call it."""
_SIDES = {
    "gemm": ("m", "n", "k"), "attention": ("batch_size", "isl"), "mla": ("batch_size", "isl"),
    "decode": ("batch_size", "step"), "mla-decode": ("batch_size", "step"), "moe": ("num_tokens",),
    "norm": ("rows", "width"), "elementwise": ("rows", "width"),
}  # fmt: skip
"""Kernel -> the columns of its shape."""
_PASSES = {"norm": 2.0, "elementwise": 3.0}
"""Kernel -> the tensors that it reads and writes."""
_NEAREST = 3
_ENGINES = ("trtllm", "vllm")


@question(KernelOptions)
def kernel(options: KernelOptions) -> KernelTime:
    """Seconds of one call of a kernel, without the host's launch, and the measured kernels nearest to it.

    Clocks are those of a burst. Raises PodsimError for an unknown GPU, engine or number format, and sizes that are none.
    """
    problems = wrong_choices(options, "kernel")
    if options.engine and options.engine.lower() not in _ENGINES:
        problems.append(f"engine={options.engine[:40]!r} may be {', '.join(_ENGINES)}")
    if problems:
        raise PlanError(problems)
    gpu = load_gpu(options.on, options.overrides)
    sizes = _sizes(options)
    if options.kernel in _PASSES:
        return _pass_time(options, gpu, sizes)
    cache = precision_name(options.cache or "bf16") if options.kernel not in ("gemm", "moe") else ""
    run = EngineRun(
        engine=options.engine.lower() or ("" if options.kernel == "gemm" else "trtllm"), release=options.release,
        kernel=options.source, precision=precision_name(options.dtype), cache=cache,
    )  # fmt: skip
    arrays = {name: np.array([value]) for name, value in sizes.items()}
    if options.kernel == "gemm" and not run.engine:
        seconds = float(gemm_seconds(gpu, *sizes.values(), precision=run.precision, layout="tn"))
    else:
        seconds = float(LAWS[_OPERATIONS[options.kernel][0]].seconds(gpu, run, arrays)[0])
    light, bound = least_seconds(gpu, run.precision, *_work(options.kernel, run, arrays))
    return KernelTime(
        kernel=options.kernel, sizes=_text(sizes), gpu=gpu.name, engine=_engine_text(run), seconds=max(seconds, light),
        light=light, bound=bound, source=_source(options.kernel, gpu, run, sizes),
        nearest=_nearest(options.kernel, gpu, run, sizes),
    )  # fmt: skip


def _sizes(options: KernelOptions) -> dict[str, float]:
    """The sizes by column of the tables; PlanError for a shape that is none."""
    columns = _SIDES[options.kernel]
    sides = [part.strip() for part in options.shape.lower().split("x")]
    if len(sides) != len(columns) or not all(
        side.isascii() and side.isdecimal() and int(side) for side in sides
    ):
        example = {"gemm": "8192x8192x8192", "moe": "256"}.get(options.kernel, "8x2048")
        raise PlanError(
            [f"shape={options.shape[:60]!r} of {options.kernel} is {'x'.join(columns)}, as {example}"]
        )
    sizes = dict(zip(columns, map(float, sides), strict=True))
    if options.kernel not in _LAWS:
        return sizes
    named = {
        "num_heads": options.heads, "num_key_value_heads": options.kv_heads or options.heads,
        "head_dim": options.head_dim,
        "hidden_size": options.hidden, "inter_size": options.inner, "topk": options.top, "num_experts": options.experts,
        "moe_tp_size": options.tp, "moe_ep_size": options.ep,
    }  # fmt: skip
    problems = [f"{name}={value} must be 1 or more" for name, value in named.items() if value < 1]
    problems += [] if options.window >= 0 and options.skew >= 0 else ["window and skew must be 0 or more"]
    problems += [f"top={options.top} of {options.experts} experts"] if options.top > options.experts else []
    problems += [f"ep={options.ep} of {options.experts} experts"] if options.ep > options.experts else []
    if options.heads % (options.kv_heads or options.heads):
        problems.append(f"heads={options.heads} is no multiple of kv_heads={options.kv_heads}")
    if problems:
        raise PlanError(problems)
    if "decode" in options.kernel:
        sizes |= {"isl": 1.0, "step": max(sizes["step"] - 1, 0.0)}
    more = {"step": 0.0, "window_size": float(options.window), "distribution": options.skew, **named} | sizes
    return {name: float(more[name]) for name in COLUMNS[_LAWS[options.kernel]]}


def _work(name: str, run: EngineRun, arrays: Mapping[str, Floats]) -> tuple[float, float]:
    """(FLOP, B) of a kernel."""
    if name == "gemm":
        m, n, k = (float(values[0]) for values in arrays.values())
        return gemm_work(run, m, n, k)
    if name == "moe":
        flops, moved = experts_work(run, expert_shape(arrays))
    else:
        flops, moved = attention_work(run, attention_shape(_LAWS[name], arrays))
    return float(flops[0]), float(moved[0])


def _pass_time(options: KernelOptions, gpu: Gpu, sizes: Mapping[str, float]) -> KernelTime:
    """A memory-bound kernel: tensors read and written once."""
    precision = precision_name(options.dtype)
    moved = _PASSES[options.kernel] * sizes["rows"] * sizes["width"] * operand_bytes(precision)
    return KernelTime(
        kernel=options.kernel, sizes=_text(sizes), gpu=gpu.name, engine=precision,
        seconds=float(memory_seconds(gpu, moved)), light=moved / gpu.memory_bandwidth, bound="memory",
        source=f"law of memory-bound kernels: {_PASSES[options.kernel]:.0f} tensors read or written once",
    )  # fmt: skip


def _source(name: str, gpu: Gpu, run: EngineRun, sizes: Mapping[str, float]) -> str:
    """Where the time of a kernel comes from."""
    if name == "gemm":
        return gemm_source(gpu, sizes["m"], sizes["n"], sizes["k"], run.precision)
    constants = engine_constants(_LAWS[name], gpu, run)
    tables = ", ".join(constants.sources)
    same = set(engine_key(run).split("/")) <= set(constants.key.split("/"))
    is_measured = any(table.startswith(f"{gpu.name.lower().split('-')[0]}_") for table in constants.sources)
    where = "" if is_measured else f", with the peaks of {gpu.name}"
    other = "" if same else "the nearest kernel that was measured, "
    return f"law of {other}{constants.key} on {constants.architecture}{where}; fitted to {tables}"


def _nearest(name: str, gpu: Gpu, run: EngineRun, sizes: Mapping[str, float]) -> tuple[NearestKernel, ...]:
    """The measured kernels nearest in size, GPU, engine and number format."""
    rows = load("engines").where(lambda row: row.text("op_name") in _OPERATIONS[name])
    ranked = sorted(
        ((_distance(row, gpu, run, sizes), row.id, row) for row in rows), key=lambda item: item[:2]
    )
    return tuple(
        NearestKernel(
            id=row.id, device=row.text("device").removeprefix("NVIDIA "), engine=_engine_text(engine_run(row.fields)),
            sizes=_text({column: float(numbers_of([row.text(column)], column)[0]) for column in sizes}),
            measured=(row.number("latency") or math.nan) * 1e-3, predicted=_predicted(row, sizes), distance=distance,
        )
        for distance, _, row in ranked[:_NEAREST]
        if math.isfinite(distance)
    )  # fmt: skip


def _distance(row: Row, gpu: Gpu, run: EngineRun, sizes: Mapping[str, float]) -> float:
    """Octaves between the sizes of a row and those asked for, and one for each other difference."""
    theirs = [float(numbers_of([row.text(column)], column)[0]) for column in sizes]
    octaves = sum(
        abs(math.log2((at + 1) / (size + 1)))
        for at, size in zip(theirs, sizes.values(), strict=True)
        if at >= 0
    )
    other = engine_run(row.fields)
    differences = (
        bool(run.engine) and other.engine != run.engine,
        other.precision != run.precision,
        bool(run.cache) and other.cache != run.cache,
        bool(run.kernel) and other.kernel != run.kernel,
        engine_gpu(row.text("device")).name != gpu.name,
    )
    return octaves + sum(differences)


def _predicted(row: Row, sizes: Mapping[str, float]) -> float:
    """s of a measured row by its law, NaN where there is none."""
    arrays = {column: numbers_of([row.text(column)], column) for column in sizes}
    try:
        law = LAWS[row.text("op_name")]
        return float(law.seconds(engine_gpu(row.text("device")), engine_run(row.fields), arrays)[0])
    except PodsimError:
        return math.nan


def _engine_text(run: EngineRun) -> str:
    """The engine, its release, kernel and number formats in words."""
    engine = " ".join(part for part in (run.engine, run.release, run.kernel) if part) or "library"
    cache = f", keys and values in {run.cache}" if run.cache else ""
    return f"{engine}, {run.precision}{cache}"


def _text(sizes: Mapping[str, float]) -> str:
    """Sizes in words, without those that are 0."""
    return ", ".join(f"{name} {value:g}" for name, value in sizes.items() if value)
