"""One kernel by its words: its sizes, its work, where its time comes from, and the measured kernels nearest to it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from podsim.accuracy.price_engines import (
    COLUMNS,
    attention_shape,
    engine_gpu,
    engine_run,
    expert_shape,
    group_seconds,
    numbers_of,
)
from podsim.accuracy.tables import Row, load
from podsim.answers.fields import shown
from podsim.axes import Floats
from podsim.errors import PlanError, PodsimError, raise_all
from podsim.hardware.parts import Gpu
from podsim.kernels.engine_constants import engine_constants, engine_key
from podsim.kernels.engine_run import EngineRun, format_bytes
from podsim.kernels.engine_work import attention_work, experts_work, gemm_work
from podsim.kernels.gemm import gemm_source

KERNEL_LAWS = {
    "attention": "prefill", "decode": "decode", "mla": "mla-prefill", "mla-decode": "mla-decode", "moe": "moe",
}  # fmt: skip
"""Kernel -> its law."""
OPERATIONS = {
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
PASSES = {"norm": 2.0, "elementwise": 3.0}
"""Kernel -> the tensors that it reads and writes."""
_NEAREST = 3


@dataclass(frozen=True, kw_only=True)
class NearestKernel:
    """A measured kernel."""

    id: str = shown(is_hidden=True)
    """The id of its row in the packaged tables."""
    device: str = shown("GPU")
    engine: str = shown(drop=1)
    """The engine, its release and the source of the kernel."""
    sizes: str
    measured: float
    """s. The measured time."""
    predicted: float
    """s. The time by the same law, NaN where there is none."""
    distance: float = shown("octaves", ":.1f")
    """factor. The sum of octaves between sizes and widths of numbers; another GPU, engine or number format counts one."""


def kernel_sizes(
    kernel: str, shape: str, named: Mapping[str, int], *, window: int = 0, skew: float = 0.0
) -> dict[str, float]:
    """The sizes of a kernel by column of the tables: of its shape, such as 8x2048, and those that are named.

    Raises PlanError for a shape that is none, and for sizes that contradict each other.
    """
    columns = _SIDES[kernel]
    sides = [part.strip() for part in shape.lower().split("x")]
    if len(sides) != len(columns) or not all(
        side.isascii() and side.isdecimal() and int(side) for side in sides
    ):
        example = {"gemm": "8192x8192x8192", "moe": "256"}.get(kernel, "8x2048")
        raise PlanError([f"shape={shape[:60]!r} of {kernel} is {'x'.join(columns)}, as {example}"])
    sizes = dict(zip(columns, map(float, sides), strict=True))
    if kernel not in KERNEL_LAWS:
        return sizes
    heads, of_keys = named["num_heads"], named["num_key_value_heads"]
    problems = [f"{name}={value} must be 1 or more" for name, value in named.items() if value < 1]
    problems += [] if window >= 0 and skew >= 0 else ["window and skew must be 0 or more"]
    for name, column in (("top", "topk"), ("ep", "moe_ep_size")):
        if named[column] > named["num_experts"]:
            problems.append(f"{name}={named[column]} of {named['num_experts']} experts")
    if of_keys and heads % of_keys:
        problems.append(f"heads={heads} is no multiple of kv_heads={of_keys}")
    raise_all(problems, PlanError)
    if "decode" in kernel:
        sizes |= {"isl": 1.0, "step": max(sizes["step"] - 1, 0.0)}
    more = {"step": 0.0, "window_size": float(window), "distribution": skew, **named} | sizes
    return {name: float(more[name]) for name in COLUMNS[KERNEL_LAWS[kernel]]}


def kernel_work(name: str, run: EngineRun, arrays: Mapping[str, Floats]) -> tuple[float, float]:
    """(FLOP, B) of a kernel."""
    if name == "gemm":
        m, n, k = (float(values[0]) for values in arrays.values())
        return gemm_work(run, m, n, k)
    if name == "moe":
        flops, moved = experts_work(run, expert_shape(arrays))
    else:
        flops, moved = attention_work(run, attention_shape(KERNEL_LAWS[name], arrays))
    return float(flops[0]), float(moved[0])


def kernel_source(name: str, gpu: Gpu, run: EngineRun, sizes: Mapping[str, float]) -> str:
    """Where the time of a kernel comes from."""
    if name == "gemm":
        return gemm_source(gpu, sizes["m"], sizes["n"], sizes["k"], run.precision)
    constants = engine_constants(KERNEL_LAWS[name], gpu, run)
    tables = ", ".join(constants.sources)
    same = set(engine_key(run).split("/")) <= set(constants.key.split("/"))
    is_measured = any(table.startswith(f"{gpu.name.lower().split('-')[0]}_") for table in constants.sources)
    where = "" if is_measured else f", with the peaks of {gpu.name}"
    other = "" if same else "the nearest kernel that was measured, "
    return f"law of {other}{constants.key} on {constants.architecture}{where}; fitted to {tables}"


def nearest_kernels(
    name: str, gpu: Gpu, run: EngineRun, sizes: Mapping[str, float]
) -> tuple[NearestKernel, ...]:
    """The measured kernels nearest in size, GPU, engine and number format."""
    rows = load("engines").where(lambda row: row.text("op_name") in OPERATIONS[name])
    ranked = sorted((_distance(row, gpu, run, sizes), row.id, row) for row in rows)
    return tuple(
        NearestKernel(
            id=row.id, device=row.text("device").removeprefix("NVIDIA "), engine=engine_text(engine_run(row.fields)),
            sizes=sizes_text({column: float(numbers_of([row.text(column)], column)[0]) for column in sizes}),
            measured=(row.number("latency") or math.nan) * 1e-3, predicted=_predicted(row), distance=distance,
        )
        for distance, _, row in ranked[:_NEAREST]
        if math.isfinite(distance)
    )  # fmt: skip


def _distance(row: Row, gpu: Gpu, run: EngineRun, sizes: Mapping[str, float]) -> float:
    """Octaves between the sizes and number widths of a row and those asked for, and one for each other difference."""
    device, other, theirs = _read(row, tuple(sizes))
    pairs = zip(theirs, sizes.values(), strict=True)
    octaves = sum(abs(math.log2((at + 1) / (size + 1))) for at, size in pairs if at >= 0)
    differences = (
        bool(run.engine) and other.engine != run.engine,
        other.precision != run.precision,
        bool(run.cache) and other.cache != run.cache,
        bool(run.kernel) and other.kernel != run.kernel,
        device != gpu.name,
    )
    widths = math.log2(format_bytes(other.precision) / format_bytes(run.precision))
    return octaves + sum(differences) + abs(widths)


@cache
def _read(row: Row, columns: tuple[str, ...]) -> tuple[str, EngineRun, list[float]]:
    """The GPU of a measured kernel, its engine and number formats, and its sizes by column."""
    sizes = [float(numbers_of([row.text(column)], column)[0]) for column in columns]
    return engine_gpu(row.text("device")).name, engine_run(row.fields), sizes


def _predicted(row: Row) -> float:
    """s of a measured row by its law, NaN where there is none."""
    try:
        return float(group_seconds([row])[0])
    except PodsimError:
        return math.nan


def engine_text(run: EngineRun) -> str:
    """The engine, its release, kernel and number formats in words."""
    engine = " ".join(part for part in (run.engine, run.release, run.kernel) if part) or "library"
    cache = f", keys and values in {run.cache}" if run.cache else ""
    return f"{engine}, {run.precision}{cache}"


def sizes_text(sizes: Mapping[str, float]) -> str:
    """Sizes in words, without those that are 0."""
    return ", ".join(f"{name} {value:g}" for name, value in sizes.items() if value)
