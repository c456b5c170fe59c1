"""PyTorch's own time in a step: small runs on every rank, and the constants of the software entry from them.

Law and measurement are of the same steps: what the law counts for them without host time is taken off, and what is left
is the host's. On a GPU, where the host works ahead, nothing is taken off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from podsim.lab.training.setup import small_run
from podsim.lab.training.train_job import Training
from podsim.options.plan_options import PlanOptions
from podsim.training.batch import step_cost
from podsim.training.groups import send_table
from podsim.training.layers import Pass, layer_table, syncs_of, tp_bytes
from podsim.training.memory import weight_table
from podsim.training.plan import Setting, read_plan
from podsim.training.shapes import element_bytes
from podsim.training.software import Software, load_software

MODEL = "gpt2"
"""whose proportions the small networks have"""
_MOST = 8
"""ranks of a tensor-parallel group or a pipeline"""
_DEPTHS = (2, 6)
"""layers of a small network"""
_WIDE_DEPTHS = (1, 3)
_SLOWEST, _FASTEST = 0.1, 2.0
"""bounds of the products' speed within a step, relative to the law"""
_ZERO = "layer under ZeRO 3"
_FREE = 1e12
"""speed of collectives that take no time"""
_LEAST = 1e-9
"""s"""
Steps = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, kw_only=True)
class _Run:
    """One small run."""

    layers: int
    micro_batches: int = 1
    tp: int = 1
    pp: int = 1
    zero: int = 0
    wide: bool = False
    """Whether the network is so wide that arithmetic counts most."""


def _runs(ranks: int) -> dict[str, _Run]:
    """By name: replicas, tensor-parallel groups, ZeRO 3 at two depths, small and wide; a pipeline."""
    group = _group(ranks)
    runs = {
        f"{'wide ' * wide}tp {tp} {layers}": _Run(layers=layers, tp=tp, wide=wide)
        for wide in (False, True)
        for tp in sorted({1, group, 2 if ranks % 2 == 0 else group})
        for layers in _depths(wide)
    }
    if ranks > 1:
        runs |= {
            f"{'wide ' * wide}zero 3 {layers}": _Run(layers=layers, zero=3, wide=wide)
            for wide in (False, True)
            for layers in _depths(wide)
        }
    if group > 1:
        runs |= {f"pp {m}": _Run(layers=group, micro_batches=m, pp=group) for m in (group, 2 * group)}
    return runs


def _depths(wide: bool) -> tuple[int, int]:
    return _WIDE_DEPTHS if wide else _DEPTHS


def _group(ranks: int) -> int:
    """The largest divisor of the ranks up to _MOST."""
    return max(size for size in range(1, _MOST + 1) if ranks % size == 0)


def _options(run: _Run, ranks: int) -> dict[str, Any]:
    """A run in the words of `podsim predict` and `podsim train`."""
    group = _group(ranks)
    heads = group if group > 2 else _MOST
    width, length, micro = (48, 64, 8 * run.tp) if run.wide else (8, 8, 1)
    network = {
        "layers": run.layers, "heads": heads, "hidden": width * heads, "vocab": 8 * heads, "sequence": length,
        "dropout": "false", "tied": "false",
    }  # fmt: skip
    dp = ranks // (run.tp * run.pp)
    return {
        "batch": dp * run.micro_batches * micro, "tp": run.tp, "pp": run.pp, "dp": dp, "micro_batch": micro,
        "zero": run.zero, "overlap_grad": False,  # so that replicas exchange nothing within the passes
        "overrides": {f"model.{name}": str(value) for name, value in network.items()},
    }  # fmt: skip


def small_runs(ranks: int, backend: str, timeout: float) -> list[dict[str, Training]]:
    """The networks that every rank of a machine trains for a few steps, by name; related ones in one table."""
    tables: dict[str, dict[str, Training]] = {}
    for name, run in _runs(ranks).items():
        job = small_run(MODEL, _options(run, ranks), backend=backend, timeout=timeout)
        tables.setdefault(name.rpartition(" ")[0], {})[name] = job
    return list(tables.values())


def runtime_of(steps: Steps, ranks: int) -> dict[str, float]:
    """s of a layer, forward and backward, small and wide, over each number of ranks; of a stage, an update, a step."""
    if not steps:
        return {}
    runtime: dict[str, float] = {}
    for run in _runs(ranks).values():
        if run.pp == 1:
            shallow, deep = _depths(run.wide)
            start = "wide " * run.wide
            kind, name = ("zero 3", _ZERO) if run.zero else (f"tp {run.tp}", f"layer over {run.tp}")
            longer = _more(steps[f"{start}{kind} {deep}"], steps[f"{start}{kind} {shallow}"], "passes")
            runtime[start + name] = longer / (deep - shallow)
    shallow, deep = _DEPTHS
    alone = f"tp {_group(ranks)}"  # which has the fewest replicas, that add up their gradients in the update
    runtime["update"] = _more(steps[f"{alone} {deep}"], steps[f"{alone} {shallow}"], "update") / (
        deep - shallow
    )
    runtime["step"] = sum(steps[f"tp 1 {shallow}"].values())
    group = _group(ranks)
    if group > 1:
        runtime["stage"] = _more(steps[f"pp {2 * group}"], steps[f"pp {group}"], "passes") / group
    return runtime


def _more(more: Mapping[str, float], fewer: Mapping[str, float], key: str) -> float:
    return max(more[key] - fewer[key], 0.0)


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """The constants of the software entry."""

    constants: Mapping[str, float]
    syncs: tuple[Mapping[str, float], ...]
    """The ranks, latency and per_byte of tensor-parallel exchanges; for processors alone."""
    shards: tuple[Mapping[str, float], ...]
    """The same for a layer's weights and gradients under ZeRO 3."""


def host_constants(runtime: Mapping[str, float], ranks: int, on: Path, entry: str) -> Runtime:
    """Constants of the software entry on the machine of a file, which already has the law of kernels and exchanges.

    In turn: what a kernel takes of the host, how fast products are within a step, what a tensor-parallel exchange takes,
    what a send, an update and a step take.
    """
    small = _setting(_Run(layers=2), ranks, on, entry)
    constants: dict[str, Any] = dict.fromkeys(
        ("host_kernel", "host_collective", "host_send", "host_update", "host_step"), 0.0
    )
    start = load_software(entry, small.cluster.gpu)

    def software() -> Software:
        return replace(start, **constants)

    def setting(tp: int, wide: bool, zero: int = 0) -> Setting:
        return _setting(_Run(layers=2, tp=tp, wide=wide, zero=zero), ranks, on, entry)

    layers = {wide: _layers(runtime, wide) for wide in (False, True)}
    constants["host_kernel"] = _each(small, software(), "host_kernel", layers[False][1])
    constants["gemm_speed"] = _product_speed(setting(1, True), software(), layers[True][1])
    over = [tp for tp in layers[False] if tp > 1]
    syncs: list[Mapping[str, float]] = []
    shards: list[Mapping[str, float]] = []
    if small.cluster.gpu.architecture == "cpu":
        for tp in over:
            rows = [_sync(setting(tp, wide), of[tp], software()) for wide, of in layers.items()]
            syncs.append(_line(tp, rows))
        if _ZERO in runtime:
            rows = [
                _shard(setting(1, wide, 3), runtime["wide " * wide + _ZERO], software()) for wide in layers
            ]
            shards.append(_line(ranks, rows))
    elif over:
        calls = [_each(setting(tp, False), software(), "host_collective", layers[False][tp]) for tp in over]
        constants["host_collective"] = sum(calls) / len(calls)
    if "stage" in runtime:
        group = _group(ranks)
        piped = _setting(_Run(layers=group, micro_batches=group, pp=group), ranks, on, entry)
        send = float(send_table(piped.model, piped.cluster, piped.plan.arrays(), start).mean_seconds[0])
        passes = (runtime["stage"] - _layer(piped, software())) / 2
        constants["host_send"] = max(passes - send * start.pipeline_exposed, 0.0)
    constants["host_update"] = runtime["update"]
    step = step_cost(small.model, small.cluster, small.plan, software=software())
    constants["host_step"] = max(runtime["step"] - float(step.seconds[0]), 0.0)
    return Runtime(constants=constants, syncs=tuple(syncs), shards=tuple(shards))


def _setting(run: _Run, ranks: int, on: Path, entry: str) -> Setting:
    given = _options(run, ranks)
    return read_plan(
        PlanOptions(model=MODEL, on=str(on), gpus=ranks, precision="fp32", software=entry, **given)
    )


def _layers(runtime: Mapping[str, float], wide: bool) -> dict[int, float]:
    """s of a layer by the ranks that it is divided over."""
    start = f"{'wide ' * wide}layer over "
    return {int(name.removeprefix(start)): s for name, s in runtime.items() if name.startswith(start)}


def _layer(setting: Setting, software: Software) -> float:
    """s of one layer, forward and backward, of a micro-batch."""
    table = layer_table(setting.model, setting.cluster, setting.plan.arrays(), software)
    return float(table[[Pass.FORWARD, Pass.BACKWARD], :, 1, 0].sum())


def _each(setting: Setting, software: Software, name: str, measured: float) -> float:
    """What the law lacks of a measured layer, in units of one of its host times."""
    known = _layer(setting, software)
    counted = _layer(setting, _having(software, name, 1.0))
    if setting.cluster.gpu.architecture == "cpu":
        counted -= known
    else:
        known = 0.0  # the host's time hides the GPU's
    return max(measured - known, 0.0) / counted


def _product_speed(setting: Setting, software: Software, measured: float) -> float:
    """The speed of products at which the law gives the measured time of a layer."""
    once, half = (_layer(setting, _having(software, "gemm_speed", speed)) for speed in (1.0, 2.0))
    part = 2 * (once - half)
    left = measured - (once - part)
    return min(max(part / left, _SLOWEST), _FASTEST) if left > 0 else _FASTEST


def _sync(setting: Setting, measured: float, software: Software) -> tuple[float, float]:
    """(B, s) of an exchange within a layer: all that the law lacks of it."""
    free = _having(software, "collective_speed", _FREE)
    count = sum(syncs_of(setting.model, setting.model.kinds[1]))
    left = max(measured - _layer(setting, free), _LEAST) / count
    return float(tp_bytes(setting.model, setting.plan)), left


def _shard(setting: Setting, measured: float, software: Software) -> tuple[float, float]:
    """(B, s) of one of three exchanges of a layer's parameters: gathered twice, and reduced."""
    parameters = float(weight_table(setting.model, setting.plan.arrays()).dense[1, 0])
    return parameters * element_bytes(setting.plan.precision), max(
        measured - _layer(setting, software), _LEAST
    ) / 3


def _line(ranks: int, rows: Sequence[tuple[float, float]]) -> dict[str, float]:
    """latency + per_byte x size through two rows of (B, s), neither below zero."""
    (size, seconds), (larger, longer) = rows
    per_byte = max((longer - seconds) / (larger - size), _LEAST / larger)
    return {"ranks": ranks, "per_byte": per_byte, "latency": max(seconds - per_byte * size, _LEAST)}


def _having(software: Software, name: str, value: float) -> Software:
    changed: dict[str, Any] = {name: value}
    return replace(software, **changed)
