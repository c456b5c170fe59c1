"""What `podsim predict` and `podsim serve` answer for a captured network, such as resnet50 or dlrm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podsim.errors import PodsimError
from podsim.graphs.inference import (
    Engine,
    engines,
    gpu_seconds,
    load_engine,
    load_serving,
    served_work,
)
from podsim.graphs.networks import load_network, networks
from podsim.hardware.cluster import load_cluster
from podsim.hardware.parts import Gpu
from podsim.kernels.gemm import peak_of
from podsim.options.graph_options import GraphOptions
from podsim.options.plan_options import PredictOptions
from podsim.options.question import options_of
from podsim.options.serving_options import ServeOptions
from podsim.results.graphs import GraphCost
from podsim.results.served import Served, ServedBatch
from podsim.serving.kernels import runs_on
from podsim.training.job_inputs import split_overrides
from podsim.training.shapes import element_bytes
from podsim.verbs.graph import graph

_SAMPLES = 32
"""samples of a step on a GPU where no batch is given"""
_ENGINE = "tensorrt"
_RUNTIME = 5e8
"""B. What an engine keeps on the GPU."""
_SHARED = ("on", "gpus", "precision", "software", "detail")


def predicted_network(options: Mapping[str, Any]) -> GraphCost:
    """The training step of a captured network, replicated over the GPUs; its batch is that of all of them together.

    Raises PodsimError for options that say how a transformer is laid out, and for a batch that the GPUs do not divide.
    """
    name = str(options["model"]).lower()
    known, own = options_of(PredictOptions), {"model", "batch", "overrides", "dp", *_SHARED}
    said = [each for each, value in options.items() if each not in own and value != known[each].default]
    if said:
        flags = ", ".join(f"--{each.replace('_', '-')}" for each in said)
        raise PodsimError(
            f"{name} is a captured network, replicated on every GPU: {flags} says nothing of it"
        )
    gpus = options.get("gpus") or options.get("dp")
    on, overrides = str(options["on"]), options.get("overrides")
    count = load_cluster(on, split_overrides(overrides)[1], gpus).gpus
    batch = _batch(options.get("batch"), count)
    shared = {each: options[each] for each in _SHARED if options.get(each) not in (None, "")}
    changes = {
        "software": shared.get("software") or options_of(GraphOptions)["software"].default,
        "gpus": gpus,
    }
    return graph(name, batch=batch, overrides=overrides, **(shared | changes))


def _batch(text: object, gpus: int) -> int:
    """Samples of a step on each of the GPUs."""
    if text is None:
        return _SAMPLES
    digits = str(text).replace(",", "").replace("_", "")
    if not (digits.isdecimal() and len(digits) < 12 and int(digits) % gpus == 0 and int(digits) > 0):
        raise PodsimError(
            f"batch={str(text)[:40]!r}: give the samples of a step, a multiple of the {gpus} GPUs"
        )
    return int(digits) // gpus


def served_network(
    options: ServeOptions, gpu: Gpu, batches: tuple[int, ...], limit: float | None, instances: int
) -> Served:
    """A captured network that answers requests, by batch: the law of `podsim.graphs.inference`.

    The largest batch is the one whose ops' two largest outputs fit next to the weights.
    """
    name = options.model.lower()
    engine = load_engine(options.engine or (_ENGINE if _ENGINE in engines() else next(iter(engines()))))
    precision = options.precision or ("fp16" if "fp16" in gpu.peaks else next(iter(gpu.peaks)))
    runs_on(gpu, precision, options.sparse)
    if options.tokens or options.output:
        raise PodsimError(
            f"{name} is a captured network: its inputs have fixed sizes, so leave tokens and output away"
        )
    single = load_network(name, 1)
    width = min(element_bytes(precision), 4.0)
    weights = (float(single.parameters.sum()) + single.table_weights) * width
    sample = 2 * float(single.output.max(initial=0.0)) * width / single.element
    rows = tuple(_row(name, gpu, precision, engine, batch, (weights, sample, limit)) for batch in batches)
    best = max(
        (row for row in rows if row.fits and row.in_time), key=lambda row: row.throughput, default=None
    )
    room = gpu.memory - weights - _RUNTIME
    shown = best or rows[-1]
    return Served(
        model=name, kind="samples", gpu=gpu.name, instances=instances, precision=precision, sparse=options.sparse,
        engine=engine.name, tokens=0, output=0, weights=weights, cache=0.0, memory_limit=gpu.memory,
        largest=max(int(room / sample), 0) if sample else 0, limit=limit, rows=rows, best=best,
        total=best.throughput * instances if best else 0.0, neighbours=0.0,
        bottleneck=max(shown.parts, key=lambda part: shown.parts[part]),
        assumptions=(f"{engine.title}: {engine.evidence}", f"a sample: {networks()[name].title}"),
        warnings=_unmeasured(gpu),
    )  # fmt: skip


def _unmeasured(gpu: Gpu) -> tuple[str, ...]:
    """A doubt, where no network was measured on GPUs of this family."""
    if gpu.architecture in ("ampere", "volta", "turing"):
        return ()
    return (f"{gpu.name}: no captured network was measured on it; shares of peak are those of the A100",)


def _row(
    name: str, gpu: Gpu, precision: str, engine: Engine, batch: int, sizes: tuple[float, float, float | None]
) -> ServedBatch:
    weights, sample, limit = sizes
    serving = load_serving()
    work = served_work(name, batch, gpu, precision, engine.fuse)
    latency = gpu_seconds(work, engine, serving, gpu)
    memory = weights + batch * sample + _RUNTIME
    products, kernels = sum(work.products), work.kernels * engine.host_kernel
    flops = float(load_network(name, 1).flops.sum()) * batch
    return ServedBatch(
        batch=batch, latency=latency, throughput=batch / latency, first_token=0.0, token=0.0, tokens_per_second=0.0,
        memory=memory, fits=memory <= gpu.memory, in_time=limit is None or 2 * latency <= limit,
        parts={"products": products, "memory": work.memory, "kernels": kernels},
        utilisation=flops / latency / peak_of(runs_on(gpu, precision, False), precision),
    )  # fmt: skip
