"""Latency and throughput of a model by batch, on a GPU or on MIG instances; what is assumed of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from podsim.answers.served import Served
from podsim.errors import ModelError, NoFitError, PlanError, PodsimError, UnitError, raise_all
from podsim.graphs.networks import is_graph
from podsim.hardware.mig.measured_slices import neighbour_share
from podsim.hardware.parts import Gpu
from podsim.kernels.constants import kernel_constants
from podsim.options.serving_options import ServeOptions
from podsim.serving.captured_batches import serve_captured
from podsim.serving.encoder_decoder import has_encoder
from podsim.serving.engines import engine_names, load_engine
from podsim.serving.inference_passes import check
from podsim.serving.kernels import runs_on
from podsim.serving.language_notes import batch_notes, length_doubts
from podsim.serving.latency import LARGEST_BATCH, Task, serve_on
from podsim.serving.serving_gpus import read_serving_gpu
from podsim.serving.triton import write_config
from podsim.units import parse_quantity
from podsim.workload.catalog import load_model
from podsim.workload.convolution import CONVOLUTIONAL, ConvNet
from podsim.workload.model import Model


def serving_assumptions(task: Task, cost: float) -> tuple[str, ...]:
    """The assumptions of a prediction of serving, one sentence each."""
    notes = [f"{task.engine.title}: {task.engine.evidence}"]
    if task.kind == "encoder":
        notes.append(f"every sequence has {task.tokens} tokens, none of them padding")
    if task.kind == "generator":
        notes.append(
            f"{task.tokens} tokens of prompt, {task.output} produced by every sequence of a batch together (no"
            " continuous batching); keys and values in 16 bits"
        )
    if task.kind == "images":
        notes.append(
            "batch norms, ReLU and residual sums are folded into convolutions; decoding of images is not counted"
        )
    if task.sparse:
        notes.append(
            "the weights of the products are pruned 2:4; what that does to the answers is not modelled"
        )
    return (*notes, *batch_notes(cost))


def serving_warnings(task: Task, chip: Gpu) -> tuple[str, ...]:
    """The reasons to trust a prediction of serving less, one sentence each."""
    notes = []
    if not isinstance(task.network, ConvNet):
        notes += length_doubts(task.network, task.tokens + task.output)
    constants = kernel_constants(chip)
    if constants.extrapolated:
        notes.append(
            f"{chip.name}: no kernel was measured on it; shares of peak are those of {constants.base}"
        )
    if task.kind == "generator":
        notes.append("no published latency of a language model's tokens is held against this")
    if chip.architecture not in ("ampere", "volta"):
        notes.append(f"the engine's constants are those of an A100, not of {chip.architecture}")
    if task.kind == "images":
        slow = "a third" if task.engine.name == "tensorrt-2021" else "4 to 8 %"
        notes.append(
            f"MLPerf's offline throughput (ResNet-50, int8, A100 and slices) comes out {slow} too low, unfitted"
        )
    return tuple(notes)


_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
_TOKENS = {"encoder": 128, "generator": 512}
_OUTPUT = 128
_LONGEST = 2**22


def serve_batches(options: ServeOptions, portion: float = 1.0) -> Served:
    """The answer of `podsim serve` for a network in static batches on each GPU or instance.

    Raises PodsimError for anything unusable, and NoFitError where no batch fits the memory and the limit.
    """
    chip, each, gpus = read_serving_gpu(options.on, options.overrides)
    limit = read_limit(options.latency)
    cost, batches = neighbour_share(chip.name, each), read_batches(options.batch)
    if is_graph(options.model) and options.model.lower() not in CONVOLUTIONAL:
        answer, floor = (
            serve_captured(options, chip, batches, limit, gpus=each * gpus, neighbours=cost, portion=portion), 0.0,
        )  # fmt: skip
    else:
        answer, floor = _served_model(options, chip, batches, limit, each * gpus, cost)
    if not any(row.fits for row in answer.rows):
        raise NoFitError([_too_large(answer, floor)])
    if options.triton is not None:
        write_config(answer, options.triton)
    return answer


def _served_model(
    options: ServeOptions, chip: Gpu, batches: tuple[int, ...], limit: float | None, gpus: int, cost: float
) -> tuple[Served, float]:
    """A transformer or a convolutional network, and B of its engine."""
    if options.input:
        raise PodsimError("--input: shapes are those of a module, FILE.py:FUNCTION")
    if options.tables:
        raise PodsimError(
            f"tables: {options.model[-60:]} has no large embedding tables, as dlrm and dcnv2 have"
        )
    task = _task(options, chip)
    answer = serve_on(task, chip, batches=batches, limit=limit, instances=gpus, neighbours=cost)
    notes, doubts = serving_assumptions(task, cost), serving_warnings(task, chip)
    return replace(answer, assumptions=notes, warnings=doubts), task.engine.memory_floor


def _too_large(answer: Served, floor: float) -> str:
    """Why no batch fits, and what would."""
    has = f"{answer.gpu} has {answer.memory_limit / 1e9:.2f} GB"
    if answer.largest == 0:
        return f"{answer.model} needs {(answer.weights + floor) / 1e9:.2f} GB before any sequence; {has}"
    least = answer.rows[0]
    return (
        f"batch {least.batch} needs {least.memory / 1e9:.2f} GB; {has}, room for a batch of {answer.largest}"
    )


def _task(options: ServeOptions, chip: Gpu) -> Task:
    """What is asked of the GPU; PlanError with all that cannot be."""
    model, precision, sparse = options.model, options.precision, options.sparse
    tokens, output, engine = options.tokens, options.output, options.engine
    problems = [
        f"{name}={value}: 1 to {_LONGEST:,}"
        for name, value in (("tokens", tokens), ("output", output))
        if value is not None and not 1 <= value <= _LONGEST
    ]
    kind = precision or ("fp16" if "fp16" in chip.peaks else next(iter(chip.peaks)))
    try:
        runs_on(chip, kind, sparse)
    except PlanError as error:
        problems += error.problems
    raise_all(problems, PlanError)
    name = engine or ("tensorrt-2021" if chip.architecture == "volta" else engine_names()[0])
    network = _network(model, tokens, options.overrides)
    made = Task(
        network=network, precision=kind, sparse=sparse, tokens=tokens or 0, output=0,
        engine=load_engine(name, chip.architecture),
    )  # fmt: skip
    if made.kind == "images":
        if output:
            raise ModelError(f"{model} produces no tokens; leave output away")
        return replace(made, tokens=tokens or 224)
    assert not isinstance(network, ConvNet)
    if not has_encoder(network):
        check(network)
    if made.kind == "encoder" and output:
        raise ModelError(f"{model} produces no tokens; leave output away")
    return replace(
        made,
        tokens=tokens or _TOKENS[made.kind],
        output=(output or _OUTPUT) if made.kind == "generator" else 0,
    )


def _network(model: str, tokens: int | None, overrides: Mapping[str, str] | None) -> Model | ConvNet:
    keys = {
        key.removeprefix("model."): value
        for key, value in (overrides or {}).items()
        if key.startswith("model.")
    }
    if model.lower() not in CONVOLUTIONAL:
        return load_model(model, keys)
    if keys:
        raise ModelError(f"{model}: {', '.join(keys)} cannot be set")
    side = tokens or 224
    if side % 32:
        raise ModelError(f"tokens={side}: an image of {model} has a side that 32 divides, such as 224")
    return CONVOLUTIONAL[model.lower()](side)


def read_batches(text: str) -> tuple[int, ...]:
    """The batches of a text, ascending; PodsimError for what is none."""
    if not text:
        return _BATCHES
    parts = [part.strip() for part in str(text).split(",") if part.strip()]
    bad = [part for part in parts if not (part.isdecimal() and 1 <= int(part[:9]) <= LARGEST_BATCH)]
    if bad or not parts or len(parts) > 200:
        raise PodsimError(
            f"batch={str(text)[:60]!r}: expected sizes from 1 to {LARGEST_BATCH:,}, such as 8 or 1,8,94"
        )
    return tuple(sorted({int(part) for part in parts}))


def read_limit(latency: str) -> float | None:
    """s. The limit of a text; None for none, UnitError for one out of reach."""
    if not latency:
        return None
    seconds = parse_quantity(latency, "s", what="latency")
    if not 0 < seconds <= 86_400:
        raise UnitError(f"latency: {seconds:g} s is out of reach; expected up to a day, such as 10 ms")
    return seconds
