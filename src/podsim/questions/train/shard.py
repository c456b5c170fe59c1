"""`podsim shard`: every tensor of a model divided over a mesh, from annotations of a few or from a search."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass
from math import prod
from typing import NamedTuple

from podsim.answers.sharding import HandMade, Sharded, ShardedOp
from podsim.errors import PodsimError, unknown_name
from podsim.graphs.graph_cost import OPTIMIZERS
from podsim.graphs.module_capture import captured_graph
from podsim.graphs.networks import is_captured
from podsim.graphs.op_graph_json import check_batch
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.options.graph_options import CaptureOptions
from podsim.options.plan_options import JobOptions, TrainedFields
from podsim.options.question import like, option, overrides_option, question
from podsim.sharding.dimension_graph import DimensionGraph
from podsim.sharding.hand_made import hand_made
from podsim.sharding.layer_graph import layer_graph
from podsim.sharding.mesh import Mesh, check_divisions, read_annotations, read_mesh
from podsim.sharding.op_dimensions import dimension_graph
from podsim.sharding.propagation import propagate, sample_annotations
from podsim.sharding.shard_search import TENSOR, Candidate, meshes, search
from podsim.sharding.sharded_step import ShardCase, sharded_step
from podsim.training.job_inputs import cluster_notes, read_inputs, split_overrides
from podsim.training.memory import usable_bytes
from podsim.training.plan import default_precision, software_of
from podsim.training.software import Software, load_software
from podsim.units import format_quantity
from podsim.workload.model import Model

_SAMPLES = 64
"""samples of a network on each GPU where no batch is given"""
_SHOWN = 5


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
    batch: int | None = option(
        None, "Samples or sequences of a step on all GPUs; default one sequence, or 64 samples, a GPU.",
        also=("global-batch", "batch-size", "gbs"),
    )  # fmt: skip
    sequence: int | str | None = like(TrainedFields, "sequence")
    capacity_factor: float = option(
        1.0, "Tokens that an expert takes over the mean of all; what exceeds it is dropped."
    )
    input: Sequence[str] | None = like(CaptureOptions, "input")
    precision: str | None = option(None, "fp32, tf32, fp16, bf16; default bf16, or fp16 on GPUs without it.")
    optimizer: str = option("", "sgd, adam, lamb or none; default adam for language models, else sgd.")
    software: str = like(TrainedFields, "software", default="")
    overrides: Mapping[str, str] | None = overrides_option("gpu.memory=64GB, model.layers=12")
    detail: str = option("", "`ops` lists every op.", choices=("", "ops"), bare="ops")


class _Setting(NamedTuple):
    model: Model | None
    case: ShardCase
    batch: int
    notes: tuple[str, ...]

    @property
    def experts(self) -> int:
        """The number of experts of a mixture."""
        return max((block.experts for block in self.model.kinds), default=0) if self.model else 0


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
    setting = _setting(options)
    case, gpus = setting.case, setting.case.cluster.gpus
    if options.annotate or options.mesh:
        best, tried = _annotated(options, setting), 1
    else:
        best, tried = search(case, setting.batch, setting.experts, gpus)
    plans = hand_made(case, setting.model, setting.batch, gpus)
    return _answer(options, setting, best, tried, plans[:_SHOWN])


def _setting(options: ShardOptions) -> _Setting:
    """The graph, the GPUs, and what costs them."""
    name = options.model
    is_file = name.endswith((".json", ".json.gz")) and not name.endswith("config.json")
    is_graph = is_captured(name) or ".py" in name or is_file
    for_cluster = split_overrides(options.overrides)[1]
    if options.batch is not None:
        check_batch(options.batch)
    if not options.capacity_factor > 0 or options.capacity_factor > 1000:
        raise PodsimError(f"capacity_factor={options.capacity_factor!r}: from above 0 to 1000, such as 1.25")
    if is_graph:
        cluster = load_cluster(options.on, for_cluster, options.gpus)
        samples = options.batch or (_SAMPLES * cluster.gpus if is_captured(name) else None)
        software, precision = _software(options, cluster, "dle-pytorch")
        graph = dimension_graph(captured_graph(name, options.input or (), samples))
        model, notes = None, cluster_notes(options.on, cluster)
        batch = graph.graph.batch
    else:
        model, cluster, _, notes = read_inputs(
            name, options.on, options.gpus, options.sequence, options.overrides
        )
        batch = options.batch or cluster.gpus
        software, precision = _software(options, cluster, None)
        graph = layer_graph(model, batch, software, capacity=options.capacity_factor)
    optimizer = options.optimizer or ("sgd" if model is None else "adam")
    if optimizer not in OPTIMIZERS:
        raise PodsimError(unknown_name("optimizer", optimizer, OPTIMIZERS))
    case = ShardCase(
        graph=graph, cluster=cluster, precision=precision, software=software, optimizer=optimizer,
        room=usable_bytes(cluster.gpu, software),
    )  # fmt: skip
    return _Setting(model, case, batch, notes)


def _software(options: ShardOptions, cluster: Cluster, default: str | None) -> tuple[Software, str]:
    precision = options.precision or default_precision(cluster.gpu)
    name = software_of(options.software or default, cluster.gpu)
    return load_software(name, cluster.gpu, precision), precision


def _annotated(options: ShardOptions, setting: _Setting) -> Candidate:
    """The user's annotations over the user's mesh, or over the best one of their axes."""
    case, gpus = setting.case, setting.case.cluster.gpus
    if options.mesh:
        tried = [read_mesh(options.mesh, gpus)]
    else:
        axes = {
            axis for text in options.annotate for axis in re.findall(r"[A-Za-z_]\w*", text.partition("=")[2])
        }
        known = [axis for axis in ("data", "expert", TENSOR) if axis in axes]
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
    return min(results, key=lambda each: each.order(case.room))


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
    sharding = propagate(case.graph, mesh, given)
    return Candidate(mesh, given, sharding, sharded_step(case, sharding, mesh))


def _answer(
    options: ShardOptions, setting: _Setting, best: Candidate, tried: int, plans: list[tuple[str, Candidate]]
) -> Sharded:
    case, step, graph = setting.case, best.step, setting.case.graph
    sent: dict[str, float] = defaultdict(float)
    ops = []
    for op, local, copies in zip(graph.ops, step.ops, graph.copies, strict=True):
        texts = []
        for each in local.exchanges:
            size = each.elements * (case.software.gradient_bytes if each.phase == "gradients" else case.width)
            what = f"{each.collective.replace('_', '-')} over {'+'.join(each.axes)}"
            sent[what] += copies * size
            if size * copies > 1e3:
                texts.append(f"{what} {format_quantity(size, 'B', digits=3)} {each.phase}")
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
        recomputes=step.recomputes, collectives=dict(sorted(sent.items(), key=lambda item: -item[1])),
        weights={
            tensor.name: _text(best.sharding.divisions[position])
            for position, tensor in enumerate(graph.tensors) if tensor.role == "weight" and prod(tensor.shape) > 1
        },
        ops=tuple(ops), notes=setting.notes,
        hand_made=tuple(
            HandMade(
                name=name, mesh=str(each.mesh), step_time=each.step.seconds, memory=each.step.memory,
                fits=each.step.memory <= case.room,
            )
            for name, each in plans
        ),
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
