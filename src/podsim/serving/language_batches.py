"""Static batches of a language model on the GPUs of a cluster: latency, throughput and memory by batch."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path

from podsim.answers.served import Served
from podsim.errors import NoFitError
from podsim.hardware.mig.measured_slices import neighbour_share
from podsim.options.serving_options import ServeOptions
from podsim.serving.bisection import best_batch
from podsim.serving.language_notes import language_assumptions, language_warnings, plan_words
from podsim.serving.language_setup import LanguageSetup, read_language_setup
from podsim.serving.load.load_layout import scheduler_name
from podsim.serving.load.replica_pool import SCHEDULERS
from podsim.serving.network_batches import read_batches, read_limit
from podsim.serving.replica_memory import sequence_bytes, token_bytes, usable_bytes, weight_bytes
from podsim.serving.static_batches import StaticRequest, largest_batch, static_row
from podsim.serving.step_cost import passes_cost
from podsim.serving.step_laws import Passes, make_passes
from podsim.serving.triton import write_config


def serve_static(options: ServeOptions) -> Served:
    """The answer of `podsim serve` for a language model without a load.

    Raises PodsimError for anything unusable, and NoFitError where no batch fits the memory and the limit.
    """
    batches = read_batches(options.batch)
    setup = read_language_setup(options, sequences=max(batches) if options.batch else 8)
    scheduler = SCHEDULERS[options.scheduler or scheduler_name(setup.plan, options.chunked)]
    request = StaticRequest(
        tokens=setup.tokens,
        output=setup.output,
        limit=read_limit(options.latency),
        is_chunked=scheduler.chunked,
    )
    passes = make_passes(setup.model, setup.cluster, setup.plan)
    answer = _served(setup, passes, request, batches)
    if not any(row.fits for row in answer.rows):
        raise NoFitError([_too_many(answer)])
    if options.triton is not None:
        write_config(answer, Path(options.triton))
    return answer


def _served(setup: LanguageSetup, passes: Passes, request: StaticRequest, batches: tuple[int, ...]) -> Served:
    model, plan, gpu = setup.model, setup.plan, setup.cluster.gpu
    length = request.tokens + request.output
    cost = passes_cost(passes)
    rows = tuple(static_row(passes, cost, request, batch) for batch in batches)
    largest = largest_batch(passes, request)
    best = best_batch(
        rows, partial(static_row, passes, cost, request), largest, is_limited=request.limit is not None
    )
    neighbours = neighbour_share(gpu.name, plan.replicas)
    shown = best or rows[-1]
    gpus = f"{plan.gpus} x {gpu.name}" if plan.gpus > 1 else gpu.name
    return Served(
        model=model.name, kind="generator", gpu=gpus, instances=plan.replicas, precision=plan.precision, sparse=False,
        engine=plan.engine, tokens=request.tokens, output=request.output, weights=weight_bytes(model, plan),
        cache=token_bytes(model, plan, length) * length + sequence_bytes(model, plan, length),
        memory_limit=usable_bytes(gpu), largest=largest, limit=request.limit, rows=rows, best=best,
        total=0.0 if best is None else best.throughput * plan.replicas * (1 - neighbours), neighbours=neighbours,
        bottleneck=max(shown.parts, key=lambda key: shown.parts[key]),
        assumptions=language_assumptions(setup, neighbours), warnings=language_warnings(setup), plan=asdict(plan),
        layout=plan_words(plan),
    )  # fmt: skip


def _too_many(answer: Served) -> str:
    """Why no batch fits, and what would."""
    least = min(answer.rows, key=lambda row: row.batch)
    return (
        f"batch {least.batch} needs {least.memory / 1e9:.2f} GB; {answer.gpu} has {answer.memory_limit / 1e9:.2f} GB,"
        f" room for a batch of {answer.largest}"
    )
