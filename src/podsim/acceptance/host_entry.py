"""What was measured of a machine, as an entry of the catalog: constants fitted, and the file that load_cluster reads."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from podsim.acceptance.host_constants import host_constants
from podsim.answers.host import MeasuredHost, MeasuredKernel
from podsim.hardware.cluster import load_cluster
from podsim.kernels.attention import AttentionShape, attention_seconds
from podsim.kernels.constants import Evidence, KernelConstants
from podsim.kernels.constants_file import constants_text
from podsim.kernels.fit_host import Products, Streams, fit_line, fit_products, fit_streams, products_seconds
from podsim.lab.inventory import Inventory
from podsim.quoting import toml_text
from podsim.whole_files import scratch_folder

SOFTWARE = "pytorch-eager"
_PARTS = {"norm": 5.0, "activation": 5.0, "residual": 6.0, "loss": 26.0}
"""elements that the laws count for one element of a part, forward and backward (podsim.workload)"""
_WIDTH = 4
"""B of an element"""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The file and what was fitted on the way."""

    text: str
    host: MeasuredHost


def entry_of(host: MeasuredHost, machine: Inventory, *, memory: float, capability: float, cache: float, folder: str,
             features: Mapping[str, str]) -> Entry:  # fmt: skip
    """The catalog entry of what was measured; `memory` and `cache` in B, of one rank."""
    streams = [row for row in host.kernels if row.name == "stream"]
    moved = np.array([3.0 * _WIDTH * row.shape[0] for row in streams])
    constants, bandwidth = fit_streams(Streams(moved, np.array([row.seconds for row in streams])))
    if capability == 0:
        constants = replace(constants, **_beyond_caches(host, constants, bandwidth))
    table: dict[str, Any] = {
        "format": "podsim-host", "version": 1, "name": host.name,
        "source": f"podsim measure host, {host.started[:10]}, {host.software}, {host.ranks} ranks on {host.cores} cores",
        "ranks": host.ranks, "others": host.others,
        "rank": {
            "name": f"{host.name}-rank", "compute_capability": capability, "clock": machine.clock,
            "peaks": dict(host.peaks), "memory": memory, "memory_bandwidth": bandwidth, "cache": cache,
        },
        "processor": {
            "name": machine.processor or "unnamed", "vendor": machine.vendor, "sockets": machine.sockets,
            "cores": machine.cores, "memory": machine.memory,
        },
        "link": {
            "name": "gloo" if host.device == "CPU" else "NCCL", "bandwidth": host.link, "latency": host.link_latency,
        },
        "exchange": list(_exchanges(host)), "names": dict(host.names), "features": dict(features),
    }  # fmt: skip
    if host.disk:
        table["disk"] = {"folder": folder, **host.disk}
    if host.images is not None:
        table["images"] = {"ranks": min(host.ranks, host.cores) if host.device == "CPU" else host.ranks,
                           "rate": host.images}  # fmt: skip
    kernels, predicted, error = _kernels(host, constants, bandwidth)
    table["kernels"], table["law_error"] = kernels, error
    table["software"] = {SOFTWARE: _software(host, constants, bandwidth, table)}
    if host.runtime:
        with _drafted(table) as path:
            runtime = host_constants(host.runtime, host.ranks, path, SOFTWARE)
        table["software"][SOFTWARE] |= runtime.constants
        table["sync"], table["shard"] = list(runtime.syncs), list(runtime.shards)
    text = "".join(f"# {line}\n" for line in _HEAD) + dumped(table)
    return Entry(text=text, host=replace(host, kernels=predicted, memory_bandwidth=bandwidth, error=error))


_HEAD = (
    "Written by `podsim measure host`: what this machine did, numbers in SI. --on FILE, --expect FILE take it.",
    "A rank is one process while all others are busy, too. Meanings: podsim/hardware/measured_host.py.",
)


def _exchanges(host: MeasuredHost) -> Iterator[dict[str, Any]]:
    keys = dict.fromkeys((send.collective, send.ranks) for send in host.sends)
    for collective, ranks in keys:
        rows = [send for send in host.sends if (send.collective, send.ranks) == (collective, ranks)]
        latency, per_byte = fit_line([send.size for send in rows], [send.seconds for send in rows])
        yield {"collective": collective, "ranks": ranks, "latency": latency, "per_byte": per_byte}


def _kernels(
    host: MeasuredHost, memory: Any, bandwidth: float
) -> tuple[dict[str, Any], tuple[MeasuredKernel, ...], float]:
    """(the table of constants, the rows with what the law gives, mean absolute error over the linear layers)."""
    source = (f"podsim measure host on {host.name}, {host.started[:10]}",)
    gemm: dict[str, Any] = {}
    evidence: dict[str, Evidence] = {}
    said: dict[int, float] = {}
    errors: list[float] = []
    for precision, peak in host.peaks.items():
        rows = [
            kernel for kernel in host.kernels if kernel.name == "linear" and kernel.precision == precision
        ]
        shapes = np.array([kernel.shape for kernel in rows], float)
        seconds = np.array([kernel.seconds for kernel in rows])
        products = Products(shapes[:, 0], shapes[:, 1], shapes[:, 2], seconds, precision)
        gemm[precision], error = fit_products(products, peak, bandwidth, host.launch)
        law_seconds = products_seconds(gemm[precision], products, peak, bandwidth)
        off = np.abs(law_seconds / products.seconds - 1)
        said |= {id(row): float(law) for row, law in zip(rows, law_seconds, strict=True)}
        errors += off.tolist()
        evidence[f"gemm.{precision}"] = Evidence(
            rows=len(rows), median_error=float(np.median(off)), mean_error=error, sources=source
        )
    streams = [kernel for kernel in host.kernels if kernel.name == "stream"]
    moved = [3.0 * _WIDTH * kernel.shape[0] for kernel in streams]
    law = [memory.latency + each / (bandwidth * memory.share) for each in moved]
    said |= {id(row): seconds for row, seconds in zip(streams, law, strict=True)}
    off = np.abs(np.array(law) / np.array([kernel.seconds for kernel in streams]) - 1)
    evidence["memory"] = Evidence(
        rows=len(streams), median_error=float(np.median(off)), mean_error=float(off.mean()), sources=source
    )
    constants = KernelConstants(
        name=host.name, sms=1, gemm=gemm, flash={}, memory=memory, corrections={}, evidence=evidence,
        made_by="podsim measure host",
    )  # fmt: skip
    rows_ = tuple(replace(kernel, predicted=said.get(id(kernel), 0.0)) for kernel in host.kernels)
    return tomllib.loads(constants_text(constants)), rows_, float(np.mean(errors))


def _software(
    host: MeasuredHost, memory: Any, bandwidth: float, table: Mapping[str, Any]
) -> dict[str, float]:
    """Constants of the software of the measurement: the bytes that ops seem to move at a stream's speed."""
    parts = {
        kernel.name: kernel for kernel in reversed(host.kernels) if kernel.name in (*_PARTS, "optimizer")
    }  # the small ones
    if not parts:
        return {}
    speed, latency = float(bandwidth * memory.share), float(memory.latency)

    def factor(*names: str) -> float:
        spent = sum(parts[name].seconds - 2 * latency for name in names)
        return max(spent * speed / sum(_counted(parts[name]) for name in names), 0.05)

    update = parts["optimizer"]
    return {
        "norm_traffic": factor("norm"),
        # a layer has one activation of four times the width, and two sums
        "elementwise_traffic": factor("activation", "residual", "residual"),
        "loss_traffic": factor("loss"),
        "optimizer_traffic": update.seconds * speed / update.shape[0],
        "attention_speed": _attention_speed(
            [kernel for kernel in host.kernels if kernel.name == "attention"], table
        ),
    }


def _counted(part: MeasuredKernel) -> float:
    """B that the laws count for a part, forward and backward."""
    return _PARTS[part.name] * math.prod(part.shape) * _WIDTH


def _beyond_caches(host: MeasuredHost, memory: Any, bandwidth: float) -> dict[str, float]:
    """How much longer a byte takes in parts of a step whose operands no cache holds than in small ones: near, far, spill.

    Means over the parts of logarithms. What a part moves is what a stream moves in its time; forward and backward pass
    are taken to move half of it each.
    """
    sizes: dict[str, list[MeasuredKernel]] = {}
    for kernel in host.kernels:
        if kernel.name in _PARTS:
            sizes.setdefault(kernel.name, []).append(kernel)
    pairs = [(min(of, key=_counted), max(of, key=_counted)) for of in sizes.values() if len(of) > 1]
    if not pairs:
        return {}
    spent = np.array([[kernel.seconds - 2 * memory.latency for kernel in pair] for pair in pairs])
    moved = np.array([[_counted(kernel) for kernel in pair] for pair in pairs])
    small, large = np.log(np.maximum(spent, 1e-9) / moved).mean(axis=0)
    near = np.exp(np.log(np.maximum(spent[:, 0], 1e-9)).mean()) * bandwidth * memory.share / 2
    times = np.exp(np.log(moved[:, 1] / moved[:, 0]).mean())
    return {
        "near": float(near),
        "far": float(near * times),
        "spill": max(float(np.exp(large - small)) - 1.0, 0.0),
    }


@contextmanager
def _drafted(table: Mapping[str, Any]) -> Iterator[Path]:
    """The file of an entry that is not yet whole, to predict with."""
    with scratch_folder() as folder:
        path = folder / "draft.toml"
        path.write_text(dumped(table), "utf-8")
        yield path


def _attention_speed(rows: Sequence[MeasuredKernel], table: Mapping[str, Any]) -> float:
    """Speed of attention cores relative to the law of unfused ones with the constants of this machine."""
    with _drafted(table) as path:
        gpu = load_cluster(str(path)).gpu
        logs = []
        for row in rows:
            batch, heads, tokens, width = row.shape
            shape = AttentionShape(
                batch=batch, heads=heads, kv_heads=heads, queries=tokens, keys=tokens, head_dim=width, value_dim=width,
                causal=True,
            )  # fmt: skip
            law = sum(
                float(attention_seconds(gpu, shape, algorithm="unfused", direction=way, precision="fp32"))
                for way in ("forward", "backward")
            )
            logs.append(math.log(law / row.seconds))
    return math.exp(sum(logs) / len(logs)) if logs else 1.0


def dumped(table: Mapping[str, Any]) -> str:
    """TOML of nested tables of text, numbers and lists of tables; constants, {value, unit}, stay on one line."""
    return "\n".join(_lines(table, "")).strip() + "\n"


def _lines(table: Mapping[str, Any], above: str) -> Iterator[str]:
    later: list[tuple[str, Any]] = []
    for key, value in table.items():
        name = key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else toml_text(key)
        first = value[0] if isinstance(value, list) and value else value
        if isinstance(first, Mapping) and set(first) != {"value", "unit"}:
            later.append((name, value))
        else:
            yield f"{name} = {_value(value)}"
    for name, value in later:
        full = f"{above}{name}"
        for entry in value if isinstance(value, list) else [value]:
            if entry:
                yield ""
                yield f"[[{full}]]" if isinstance(value, list) else f"[{full}]"
                yield from _lines(entry, f"{full}.")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        text = f"{value:.6g}"
        return text if "." in text or "e" in text else f"{text}.0"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {_value(item)}' for key, item in value.items())} }}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    return str(value) if isinstance(value, int) else toml_text(str(value))
