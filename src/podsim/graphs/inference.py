"""Samples per second of a captured network that a GPU serves, by the engine that runs it.

    seconds of a batch = request + bytes / copy_rate + (gpu^blend + host^blend)^(1/blend)
    gpu                = products / speed of their kind + bytes of other work / bandwidth
    host               = kernels x host_kernel

The forward pass alone runs, its ops merged by the engine's rule of fusion. `products` are the kernel laws of
convolutions, matrix products, attention and recurrent layers. Requests that wait together are served together: of
several concurrent ones half wait while the others are computed, and a server merges batch x (1 + half of the
others)^gather of them. Copies of one request overlap with the computation of others.

Source: counting, with constants by engine from inference.toml. Known error: the table vision-infer. Limits: one GPU a
request, no decoding loop, no search, no post-processing such as non-maximum suppression.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

import numpy as np

from podsim.errors import CatalogError, PlanError, check_name
from podsim.graphs.fusion import FUSIONS, fuse
from podsim.graphs.graph_cost import several_costs
from podsim.graphs.op_graph import OpGraph
from podsim.graphs.op_graph_batch import interpolate_batch
from podsim.graphs.op_graph_json import check_batch
from podsim.graphs.served_graph import ServedGraph, packaged_graph
from podsim.hardware.parts import PRECISIONS, Gpu
from podsim.kernels.constants import kernel_constants
from podsim.kernels.gemm import peak_of
from podsim.kernels.power_clock import borrowed_clock

FILE = "inference.toml"
PRODUCTS = ("conv", "gemm", "attention", "recurrent")
"""The kinds of products, each with a speed of its own."""
_FAMILIES = {"ampere": "a100", "volta": "v100", "turing": "t4"}
"""architecture -> the family of its first measured GPU"""
_FALLBACK = {"int8": "fp16", "tf32": "fp32", "bf16": "fp16"}
"""Precision -> what computes on a GPU without it."""


@dataclass(frozen=True, kw_only=True)
class Engine:
    """What runs a network: a framework, or a compiler with its runtime, alone or behind a server."""

    name: str
    title: str
    fuse: str
    """The rule of fusion, as `podsim graph --fuse`."""
    host_kernel: float
    """s. The time to launch one kernel."""
    request: float
    """s. The time of a request outside its copies and kernels."""
    copy_rate: float
    """B/s. The rate at which inputs are taken in."""
    conv_speed: float = 1.0
    """factor. The speed of convolutions, relative to the kernel law."""
    gemm_speed: float = 1.0
    """factor. The speed of matrix products, relative to the kernel law."""
    attention_speed: float = 1.0
    """factor. The speed of attention, relative to the kernel law."""
    recurrent_speed: float = 1.0
    """factor. The speed of recurrent layers, relative to the kernel law."""
    memory_speed: float
    """factor. The speed of work bound by bytes, relative to the memory's bandwidth."""
    blend: float
    """factor. The exponent that joins the times of GPU and host: 1 adds them, a large one takes the longer."""
    gpus: Mapping[str, float] = field(default_factory=dict)
    """factor. The speed of all kernels on a GPU family, relative to that of other engines there; 1 if not measured."""
    evidence: str = ""
    """The rows behind the constants, and the residual."""


@dataclass(frozen=True, kw_only=True)
class Serving:
    """The constants that all engines share."""

    gather: float
    """factor. The exponent by which waiting requests join a batch; 1 merges all of them."""
    overlap: float
    """share. The share of a copy that concurrent requests leave exposed."""
    int8: float
    """factor. The speed of products in int8, relative to the kernel law."""
    products: Mapping[str, float]
    """factor. The speed of products on a GPU family, by the start of the GPU's name."""
    memory: Mapping[str, float]
    """factor. The speed of work bound by bytes on a GPU family."""


@dataclass(frozen=True, kw_only=True)
class ServedWork:
    """What one batch of a network costs by the kernel laws, before any engine."""

    products: tuple[float, ...]
    """s. The products, in the order of PRODUCTS."""
    memory: float
    """s. The bytes of all other work at the memory's bandwidth."""
    kernels: float
    """count. The number of kernels."""
    bytes: float
    """B. The inputs of the batch, and results of their size."""
    is_int8: bool
    flops: float
    """FLOP. The arithmetic of the batch."""
    peak: float
    """FLOP/s. The peak of the GPU in the precision that computes."""


@cache
def inference_tables() -> Mapping[str, Any]:
    """The packaged constants as they stand in FILE: `serving`, and one table an engine."""
    return tomllib.loads(files("podsim.graphs").joinpath(FILE).read_text("utf-8"))


@cache
def engines() -> Mapping[str, Engine]:
    """The packaged engines by name."""
    known = {entry.name for entry in fields(Engine)}
    tables = {name: part for name, part in inference_tables().items() if name != "serving"}
    assert all(part.keys() <= known for part in tables.values()), "unknown keys of an engine"
    return {name: Engine(name=name, **part) for name, part in tables.items()}


def load_engine(name: str) -> Engine:
    """The engine of that name. Raises CatalogError for another."""
    check_name("engine", name, engines(), CatalogError)
    return engines()[name]


def load_serving() -> Serving:
    """The packaged constants of all engines."""
    return Serving(**inference_tables()["serving"])


def gpu_family(gpu: Gpu, serving: Serving) -> str:
    """The family of a GPU among those with measured rows; PlanError for a GPU of another architecture.

    Another chip of a measured architecture takes the constants of its first family.
    """
    name = gpu.name.lower()
    family = next(
        (each for each in serving.products if name.startswith(each)), _FAMILIES.get(gpu.architecture)
    )
    if family is None:
        known = ", ".join(serving.products)
        raise PlanError([f"{gpu.name}: inference was measured on {known} and their architectures only"])
    return family


def served_batch(batch: int, concurrency: int, serving: Serving) -> int:
    """Samples that are computed at once for requests of `batch` samples, of which `concurrency` are under way."""
    merged: float = batch * (1.0 + (concurrency - 1) / 2.0) ** serving.gather
    return max(1, round(merged))


def served_work(network: str | ServedGraph, batch: int, gpu: Gpu, precision: str, rule: str) -> ServedWork:
    """The kernel laws' costs of the forward pass. Raises PlanError for a precision that the GPU cannot compute."""
    return served_works(network, [batch], gpu, precision, rule)[0]


def served_works(
    network: str | ServedGraph, batches: Sequence[int], gpu: Gpu, precision: str, rule: str
) -> list[ServedWork]:
    """`served_work` of several batches, whose kernels one call prices."""
    network = packaged_graph(network) if isinstance(network, str) else network
    while precision in _FALLBACK and PRECISIONS[precision].matmul not in gpu.peaks:
        precision = _FALLBACK[precision]
    for batch in batches:
        check_batch(batch)
    graphs = [_merged_graph(network, rule, batch) for batch in batches]
    works = []
    for graph, plain in zip(graphs, several_costs(graphs, gpu, precision, "flash2"), strict=True):
        kinds, spent = graph.kind_names, dict.fromkeys(PRODUCTS, 0.0)
        for kind, seconds in zip(kinds, plain.product.tolist(), strict=True):
            if seconds:
                spent[kind] += seconds
        works.append(ServedWork(
            products=tuple(spent.values()),
            memory=float(plain.moved[~np.isin(kinds, PRODUCTS)].sum()) / gpu.memory_bandwidth,
            kernels=float(graph.kernels.sum()), bytes=graph.batch * network.sample_bytes,
            is_int8=precision == "int8", flops=float(graph.flops.sum()), peak=peak_of(gpu, precision),
        ))  # fmt: skip
    return works


def gpu_seconds(
    work: ServedWork, engine: Engine, serving: Serving, gpu: Gpu, *, concurrency: int = 1
) -> float:
    """Seconds of one batch on a GPU.

    A GPU on which the engine was not measured is as the one whose kernels it borrows, at the clock that its own power
    limit leaves. A GPU of an architecture without any row is as an A100.
    """
    own = gpu_family(gpu, serving) if gpu.architecture in _FAMILIES else next(iter(serving.products))
    lender = kernel_constants(gpu).base.partition("-")[0]
    if own in engine.gpus or lender not in engine.gpus:
        return served_seconds(work, engine, serving, own, concurrency=concurrency)
    plain = served_seconds(work, engine, serving, lender, concurrency=concurrency)
    clock = borrowed_clock(gpu, np.array([work.flops / plain / work.peak]))[0]
    slower = replace(work, products=tuple(seconds / float(clock) for seconds in work.products))
    return served_seconds(slower, engine, serving, lender, concurrency=concurrency)


def served_seconds(
    work: ServedWork, engine: Engine, serving: Serving, family: str, *, concurrency: int = 1
) -> float:
    """Seconds of one batch on a GPU of a family."""
    speeds = (engine.conv_speed, engine.gemm_speed, engine.attention_speed, engine.recurrent_speed)
    products = sum(seconds / speed for seconds, speed in zip(work.products, speeds, strict=True))
    products /= serving.products[family] * (serving.int8 if work.is_int8 else 1.0)
    memory = work.memory / (engine.memory_speed * serving.memory[family])
    gpu = (products + memory) / engine.gpus.get(family, 1.0)
    host = work.kernels * engine.host_kernel
    computed: float = (gpu**engine.blend + host**engine.blend) ** (1.0 / engine.blend)
    exposed = 1.0 if concurrency == 1 else serving.overlap
    return engine.request + work.bytes / engine.copy_rate * exposed + computed


@lru_cache(maxsize=512)
def _merged_graph(network: ServedGraph, rule: str, batch: int) -> OpGraph:
    """The forward pass of a network: no gradient is wanted. Where fusion depends on the batch, it starts again."""
    single, double = _merged_ends(network, rule)
    if len(single) == len(double):
        graph = interpolate_batch(single, double, batch)
    else:
        graph = fuse(network.graph(batch), FUSIONS[rule])
    return replace(graph, gradient=np.zeros_like(graph.gradient))


@lru_cache(maxsize=128)
def _merged_ends(network: ServedGraph, rule: str) -> tuple[OpGraph, OpGraph]:
    """The graphs of a network for one and two samples, their ops merged by a rule of fusion."""
    return fuse(network.single, FUSIONS[rule]), fuse(network.double, FUSIONS[rule])
