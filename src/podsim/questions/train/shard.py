"""`podsim shard`: every tensor of a model divided over a mesh, from annotations of a few or from a search."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass
from math import prod
from typing import NamedTuple

from podsim.answers.sharding import Sharded, ShardedOp
from podsim.errors import PodsimError, check_name
from podsim.graphs.graph_cost import OPTIMIZERS
from podsim.graphs.module_capture import captured_graph
from podsim.graphs.networks import is_captured
from podsim.graphs.op_graph_json import check_batch
from podsim.hardware.cluster import load_cluster
from podsim.options.graph_options import CaptureOptions
from podsim.options.plan_options import JobOptions, SearchOptions, TrainedFields
from podsim.options.question import like, option, options_of, overrides_option, question
from podsim.runs.search_case import read_case
from podsim.sharding.dimension_graph import DimensionGraph
from podsim.sharding.layer_graph import layer_graph
from podsim.sharding.mesh import DATA, EXPERT, TENSOR, Mesh, check_divisions, read_annotations, read_mesh
from podsim.sharding.op_dimensions import dimension_graph
from podsim.sharding.planned_step import PlannedCase
from podsim.sharding.propagation import sample_annotations
from podsim.sharding.shard_search import Candidate, meshes, search, search_plans
from podsim.sharding.sharded_step import ShardCase
from podsim.training.job_inputs import batch_of, cluster_notes, split_overrides
from podsim.training.plan import default_precision, plan_command, software_of
from podsim.training.search_limits import read_limits
from podsim.training.software import load_software, usable_bytes
from podsim.units import format_quantity

_SAMPLES = 64
"""samples of a network on each GPU where no batch is given"""


@dataclass(frozen=True, kw_only=True)
class ShardOptions:
    """A model or graph, the GPUs that it is divided over, and annotations."""

    model: str = option(
        MISSING,
        "A name of `podsim models`, a config.json, what `podsim capture` wrote, or FILE.py:FUNCTION.",
        argument=True,
        example="llama-3.1-8b",
        complete="models",
    )
    on: str = like(JobOptions, "on")
    gpus: int | None = like(JobOptions, "gpus")
    annotate: Sequence[str] = option(
        (),
        "Axes that divide a tensor, dimension by dimension, e.g. mlp.up=,tensor; default: podsim looks for them. "
        "Repeatable.",
        many=True,
        also=("annotation", "annotations", "sharding", "spec"),
    )
    mesh: str = option("", "Axes of GPUs, outermost first, e.g. data=8,tensor=8; default the best of all.")
    batch: int | str | None = option(
        None, "A step on all GPUs: sequences, tokens, e.g. 4M, or samples; default as plan, or 64 samples a GPU.",
        kind=str, also=("global-batch", "batch-size", "gbs"),
    )  # fmt: skip
    sequence: int | str | None = like(TrainedFields, "sequence")
    capacity_factor: float = like(TrainedFields, "capacity_factor")
    limit: Mapping[str, str | Sequence[object]] | None = like(SearchOptions, "limit")
    input: Sequence[str] | None = like(CaptureOptions, "input")
    precision: str | None = option(None, "fp32, tf32, fp16, bf16; default bf16, or fp16 on GPUs without it.")
    optimizer: str = option("", "sgd, adam, lamb or none; default adam for language models, else sgd.")
    software: str = like(TrainedFields, "software", default="")
    overrides: Mapping[str, str] | None = overrides_option("gpu.memory=64GB, model.layers=12")
    detail: str = option("", "`ops` lists every op.", choices=("", "ops"), bare="ops")


class _Setting(NamedTuple):
    case: ShardCase
    batch: int
    notes: tuple[str, ...]
    search: SearchOptions | None = None
    """The same question to `podsim plan`; None for a network."""


@question(
    ShardOptions,
    activity="looking for annotations",
    status=lambda answer: int(not answer.fits),
)
def shard(options: ShardOptions) -> Sharded:
    """Divide all tensors of a training step over GPUs, as GSPMD does, and cost it.

    Annotations of a few tensors spread over the graph; without any, a search looks for them. With annotations and no
    mesh, the best mesh of their axes is taken. Raises PodsimError for annotations that contradict each other, for axes
    that do not divide, for unknown tensors, and for anything else that is unusable.
    """
    setting = _network_setting(options) if _is_graph(options.model) else _model_setting(options)
    case, gpus = setting.case, setting.case.cluster.gpus
    if options.annotate or options.mesh:
        best, tried = _annotated(options, setting), 1
    elif isinstance(case, PlannedCase):
        best, tried = search_plans(case)
    else:
        best, tried = search(case, setting.batch, gpus)
    return _answer(options, setting, best, tried)


def _is_graph(name: str) -> bool:
    """Whether a name stands for a captured network, a file of one, or a module."""
    is_file = name.endswith((".json", ".json.gz")) and not name.endswith("config.json")
    return is_captured(name) or ".py" in name or is_file


def _network_setting(options: ShardOptions) -> _Setting:
    """A network as a graph, the GPUs, and what costs them."""
    name = options.model
    if options.limit or options.capacity_factor:
        raise PodsimError(f"limit and capacity_factor are for language models; {name[-60:]} is a network")
    batch = None if options.batch is None else batch_of(options.batch, 1)[0]
    if batch is not None:
        check_batch(batch)
    cluster = load_cluster(options.on, split_overrides(options.overrides)[1], options.gpus)
    samples = batch or (_SAMPLES * cluster.gpus if is_captured(name) else None)
    precision = options.precision or default_precision(cluster.gpu)
    software = load_software(
        software_of(options.software or "dle-pytorch", cluster.gpu), cluster.gpu, precision
    )
    graph = dimension_graph(captured_graph(name, options.input or (), samples))
    case = ShardCase(
        graph=graph, cluster=cluster, precision=precision, software=software, optimizer=_optimizer(options, "sgd"),
        room=usable_bytes(cluster.gpu, software),
    )  # fmt: skip
    return _Setting(case, graph.graph.batch, cluster_notes(options.on, cluster))


def _model_setting(options: ShardOptions) -> _Setting:
    """A transformer as a graph, its plans, the GPUs, and what costs them: what `podsim plan` searches."""
    names = options_of(SearchOptions).keys() & options_of(ShardOptions).keys()
    asked = SearchOptions(**{name: getattr(options, name) for name in names - {"detail"}})
    searched, notes = read_case(asked)
    model, cluster, fixed = searched.model, searched.cluster, searched.fixed
    software = load_software(fixed.software, cluster.gpu, fixed.precision)
    batch, capacity = int(fixed.global_batch), fixed.capacity_factor or 1.0
    case = PlannedCase(
        graph=layer_graph(model, batch, software, capacity=capacity), cluster=cluster,
        precision=fixed.precision, software=software, optimizer=_optimizer(options, "adam"),
        room=usable_bytes(cluster.gpu, software), model=model, fixed=fixed,
        limits=read_limits(options.limit, cluster.gpus), capacity=capacity,
    )  # fmt: skip
    return _Setting(case, batch, notes, asked)


def _optimizer(options: ShardOptions, default: str) -> str:
    """The optimizer asked for. Raises PodsimError for one that podsim does not know."""
    optimizer = options.optimizer or default
    check_name("optimizer", optimizer, OPTIMIZERS)
    return optimizer


def _annotated(options: ShardOptions, setting: _Setting) -> Candidate:
    """The user's annotations over the user's mesh, or over the best one of their axes."""
    case, gpus = setting.case, setting.case.cluster.gpus
    if options.mesh:
        tried = [read_mesh(options.mesh, gpus)]
    else:
        axes = {
            axis for text in options.annotate for axis in re.findall(r"[A-Za-z_]\w*", text.partition("=")[2])
        }
        known = [axis for axis in (DATA, EXPERT, TENSOR) if axis in axes]
        if other := sorted(axes - set(known)):
            sized = f"--mesh data={gpus // 2},{other[0][:30]}=2"
            raise PodsimError(
                f"axis {other[0][:30]!r} is none of data, expert, tensor; give its size: {sized}"
            )
        tried = [
            mesh for mesh in meshes(gpus, setting.batch, gpus if "expert" in axes else 0)
            if set(known) <= set(mesh.sizes) and set(mesh.sizes) <= {"data", *known}
        ]  # fmt: skip
    results, problems = [], []
    for mesh in tried:
        try:
            results.append(_candidate(case, mesh, options))
        except PodsimError as problem:
            problems.append(problem)
    if not results:
        raise (
            problems[0]
            if problems
            else PodsimError(f"no mesh of {gpus} GPUs has these axes; give one: --mesh")
        )
    return min(results, key=lambda candidate: candidate.order(case.room))


def _candidate(case: ShardCase, mesh: Mesh, options: ShardOptions) -> Candidate:
    annotations = read_annotations(options.annotate, case.graph, list(mesh.sizes))
    check_divisions(case.graph, mesh, annotations)
    given = {
        position: annotations[tensor.name][1]
        for position, tensor in enumerate(case.graph.tensors)
        if tensor.name in annotations
    }
    if not any(case.graph.tensors[t].role == "input" for t in given):
        given |= sample_annotations(case.graph, [axis for axis in mesh.sizes if axis != TENSOR], mesh)
    return Candidate(mesh, given, *case.step(mesh, given))


def _answer(options: ShardOptions, setting: _Setting, best: Candidate, tried: int) -> Sharded:
    case, step, graph = setting.case, best.step, setting.case.graph
    plan = step.plan
    times = {"gradients": 1 if plan is None or plan.zero < 3 else int(plan.micro_batches)}
    sent: dict[str, float] = defaultdict(float)
    ops = []
    for op, local, copies in zip(graph.ops, step.ops, graph.copies, strict=True):
        texts = []
        for part in local.exchanges:
            size = part.elements * (case.software.gradient_bytes if part.phase == "gradients" else case.width)
            what = f"{part.collective.replace('_', '-')} over {'+'.join(part.axes)}"
            sent[what] += copies * size * times.get(part.phase, int(plan.micro_batches) if plan else 1)
            if size * copies > 1e3:
                texts.append(f"{what} {format_quantity(size, 'B', digits=3)} {part.phase}")
        i = op.position
        ops.append(
            ShardedOp(
                name=graph.graph.names[i], op=graph.graph.targets[i], copies=copies,
                shape=" x ".join(str(n) for n in graph.graph.shapes[i]),
                division=_text(best.sharding.divisions[op.output.tensor]), exchanges=tuple(texts),
            )
        )  # fmt: skip
    return Sharded(
        model=graph.graph.name, cluster=case.cluster.name, gpus=case.cluster.gpus, batch=setting.batch,
        precision=case.precision, software=case.software.name, optimizer=case.optimizer, mesh=str(best.mesh),
        annotations=tuple(_annotations(graph, best)), is_searched=not (options.annotate or options.mesh), tried=tried,
        step_time=step.seconds, samples_per_second=setting.batch / step.seconds, compute=step.compute,
        exposed=step.exposed, hidden=step.hidden, update=step.update, memory=step.memory, capacity=case.room,
        plan={} if plan is None else plan.describe(), zero=1 if plan is None else int(plan.zero), beyond=step.beyond,
        command=plan_command(setting.search, plan, case.cluster) if setting.search and plan else "",
        collectives=dict(sorted(sent.items(), key=lambda item: -item[1])),
        weights={
            tensor.name: _text(best.sharding.divisions[position])
            for position, tensor in enumerate(graph.tensors) if tensor.role == "weight" and prod(tensor.shape) > 1
        },
        ops=tuple(ops), notes=setting.notes,
    )  # fmt: skip


def _text(division: object) -> str:
    """A division as users write it."""
    return ",".join("+".join(axes) for axes in division)  # type: ignore[attr-defined]


def _annotations(graph: DimensionGraph, best: Candidate) -> list[str]:
    """The annotations as users write them, those of layers that are alike as one."""
    patterns: dict[str, set[str]] = defaultdict(set)
    for position, tensor in enumerate(graph.tensors):
        text = _text(best.given[position]) if position in best.given else ""
        patterns[_pattern(tensor.name)].add(text)
    made = []
    for position, division in best.given.items():
        name = graph.tensors[position].name
        text = _text(division)
        made.append(f"{_pattern(name) if patterns[_pattern(name)] == {text} else name}={text}")
    return list(dict.fromkeys(made))


def _pattern(name: str) -> str:
    """A name with * for its numbers."""
    return re.sub(r"\d+", "*", name)
