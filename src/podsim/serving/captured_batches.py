"""What `podsim serve` answers for a captured network: one of the catalog, a file of `podsim capture`, or a module."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from podsim.answers.served import Served, ServedBatch
from podsim.errors import ModelError, PodsimError
from podsim.graphs.inference import (
    PRODUCTS,
    Engine,
    ServedWork,
    engines,
    gpu_seconds,
    load_engine,
    load_serving,
    served_work,
)
from podsim.graphs.module_capture import any_batch, captured_for_any
from podsim.graphs.networks import is_captured
from podsim.graphs.served_graph import ServedGraph, file_graph, packaged_graph, value_graph
from podsim.hardware.parts import Gpu
from podsim.kernels.gemm import peak_of
from podsim.options.serving_options import ServeOptions
from podsim.serving.embedding_tables import Tables, make_tables
from podsim.serving.kernels import runs_on
from podsim.training.shapes import element_bytes
from podsim.units import parse_quantity

_ENGINE = "tensorrt"
_RUNTIME = 5e8
"""B. What an engine keeps on the GPU."""


@dataclass(frozen=True, kw_only=True)
class CapturedTask:
    """A captured network, and how it is served."""

    network: ServedGraph
    gpu: Gpu
    precision: str
    engine: Engine
    tables: Tables
    weights: float
    """B. The weights on each GPU, with the tables it holds."""
    sample: float
    """B. The activations of a sample: the two largest outputs of an op."""
    limit: float | None
    """s. The time within which a request must be answered."""
    portion: float = 1.0
    """share. The part of a sample that a request holds: a chunk of speech."""


def graph_of_options(options: ServeOptions) -> ServedGraph:
    """The network that the options name. Raises ModelError for one that cannot be captured for any batch."""
    model, shapes = options.model, options.input or ()
    if ".py:" in model:
        if not any_batch(shapes):
            raise ModelError(
                f"{model[-80:]}: say the shapes of its inputs, with B for the samples: --input Bx3x224x224"
            )
        return value_graph(captured_for_any(model, shapes), model)
    if model.endswith(".py"):
        raise ModelError(f"{model[-80:]}: name the function that gives the module: {model[-80:]}:FUNCTION")
    if shapes:
        raise ModelError(f"--input: the inputs of {model[-80:]} are known; it is for FILE.py:FUNCTION")
    return packaged_graph(model.lower()) if is_captured(model) else file_graph(Path(model))


def serve_captured(
    options: ServeOptions, gpu: Gpu, batches: tuple[int, ...], limit: float | None, *, gpus: int,
    neighbours: float, portion: float = 1.0,
) -> Served:  # fmt: skip
    """A captured network that answers requests, by batch: the law of `podsim.graphs.inference`.

    The largest batch is the one whose ops' two largest outputs fit next to the weights.
    """
    task = _task(options, gpu, limit, gpus, portion)
    network = task.network
    rows = tuple(_row(task, batch) for batch in batches)
    best = max(
        (row for row in rows if row.fits and row.in_time), key=lambda row: row.throughput, default=None
    )
    room = gpu.memory - task.weights - _RUNTIME
    shown = best or rows[-1]
    notes = (f"{task.engine.title}: {task.engine.evidence}", f"a sample: {network.title}", task.tables.text)
    return Served(
        model=network.name, kind="samples", gpu=gpu.name, instances=gpus, precision=task.precision,
        sparse=options.sparse, engine=task.engine.name, tokens=0, output=0, weights=task.weights, cache=0.0,
        memory_limit=gpu.memory, largest=max(int(room / task.sample), 0) if task.sample else 0, limit=limit,
        rows=rows, best=best, total=best.throughput * gpus * (1.0 - neighbours) if best else 0.0,
        neighbours=neighbours, bottleneck=max(shown.parts, key=lambda part: shown.parts[part]),
        audio=network.audio * portion, assumptions=tuple(filter(None, notes)), warnings=_unmeasured(gpu),
    )  # fmt: skip


def _task(options: ServeOptions, gpu: Gpu, limit: float | None, gpus: int, portion: float) -> CapturedTask:
    network = graph_of_options(options)
    if options.tokens or options.output:
        raise PodsimError(
            f"{network.name} is a captured network: its inputs have fixed sizes, so leave tokens and output away"
        )
    engine = load_engine(options.engine or (_ENGINE if _ENGINE in engines() else next(iter(engines()))))
    precision = options.precision or ("fp16" if "fp16" in gpu.peaks else next(iter(gpu.peaks)))
    runs_on(gpu, precision, options.sparse)
    graph = network.single
    width = min(element_bytes(precision), 4.0)
    dense = float(graph.parameters.sum()) * width
    tables = _tables(options, network, gpu, dense, width, gpus)
    return CapturedTask(
        network=network, gpu=gpu, precision=precision, engine=engine, tables=tables, weights=dense + tables.held,
        sample=2 * float(graph.output.max(initial=0.0)) * width / graph.element, limit=limit, portion=portion,
    )  # fmt: skip


def _tables(
    options: ServeOptions, network: ServedGraph, gpu: Gpu, dense: float, width: float, gpus: int
) -> Tables:
    """Where the embedding tables lie; none of a network without any."""
    graph = network.single
    size = graph.table_weights * width
    if options.tables:
        if not size:
            raise PodsimError(f"tables: {network.name} has no large embedding tables, as dlrm and dcnv2 have")
        size = parse_quantity(options.tables, "B", what="tables")
        if not 0 < size <= 1e15:
            raise PodsimError(
                f"tables={options.tables[:40]!r}: more than 0 B and at most 1 PB, such as 100GB"
            )
    is_lookup = np.array(graph.kind_names) == "embedding"
    looked = float(graph.written[is_lookup].sum()) * width / graph.element
    return make_tables(gpu, size, looked, 0.95 * gpu.memory - dense - _RUNTIME, gpus)


def _unmeasured(gpu: Gpu) -> tuple[str, ...]:
    """A doubt, where no network was measured on GPUs of this family."""
    if gpu.architecture in ("ampere", "volta", "turing"):
        return ()
    return (f"{gpu.name}: no captured network was measured on it; shares of peak are those of the A100",)


def _row(task: CapturedTask, batch: int) -> ServedBatch:
    engine, gpu = task.engine, task.gpu
    size = batch if task.portion == 1.0 else max(1, math.ceil(batch * task.portion))
    work = served_work(task.network, size, gpu, task.precision, engine.fuse)
    if task.portion != 1.0:
        work = _in_chunks(task, work, batch, size)
    lookups = batch * task.tables.seconds
    latency = gpu_seconds(work, engine, load_serving(), gpu) + lookups
    memory = task.weights + batch * task.sample * task.portion + _RUNTIME
    flops = float(task.network.single.flops.sum()) * batch * task.portion
    return ServedBatch(
        batch=batch, latency=latency, throughput=batch / latency, first_token=0.0, token=0.0, tokens_per_second=0.0,
        memory=memory, fits=memory <= gpu.memory, in_time=task.limit is None or 2 * latency <= task.limit,
        parts={
            "products": sum(work.products), "memory": work.memory + lookups,
            "kernels": work.kernels * engine.host_kernel,
        },
        utilisation=flops / latency / peak_of(runs_on(gpu, task.precision, False), task.precision),
    )  # fmt: skip


def _in_chunks(task: CapturedTask, work: ServedWork, chunks: int, samples: int) -> ServedWork:
    """The work of chunks of samples, from that of about as many whole samples; fewer than one cost as one.

    Time steps of a recurrent layer follow one another, so it takes the portion of the time of as many whole samples.
    """
    scale = 1.0 if samples == 1 else chunks * task.portion / samples
    products = [seconds * scale for seconds in work.products]
    at = PRODUCTS.index("recurrent")
    if work.products[at]:
        samples_work = served_work(task.network, chunks, task.gpu, task.precision, task.engine.fuse)
        products[at] = samples_work.products[at] * task.portion
    return replace(
        work, products=tuple(products), memory=work.memory * scale, bytes=work.bytes * chunks * task.portion / samples,
        flops=work.flops * scale,
    )  # fmt: skip
