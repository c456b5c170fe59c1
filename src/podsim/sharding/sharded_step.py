"""The step of a graph over a mesh: each rank's share of every op by the laws of kernels, and the collectives.

The gradients of weights are reduced, and weights that are stored divided are gathered, while ops compute, as far as the
software overlaps; all else waits. Optimizer states are divided over the replicas of a weight (ZeRO 1), which costs no
more than an all-reduce (Xu et al. 2020, arXiv 2004.13336). Tables with sparse gradients are divided over all GPUs.
Where plans can say nearly the same, only the difference from a plan counts (podsim.sharding.planned_step).
Limits: no pipeline; batch norms have each rank's statistics.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from podsim.graphs.graph_cost import OPTIMIZERS, graph_costs
from podsim.graphs.graph_memory import STATES
from podsim.graphs.graph_step import tables_seconds
from podsim.graphs.op_graph import DIMS, OpGraph
from podsim.hardware.cluster import Cluster
from podsim.kernels.elementwise import optimizer_seconds
from podsim.sharding.dimension_graph import NONE, DimensionGraph
from podsim.sharding.exchanges import LocalOp, local_op
from podsim.sharding.mesh import Axes, Given, Mesh
from podsim.sharding.propagation import Sharding, propagate
from podsim.training.plan import Plan
from podsim.training.plan_values import Array
from podsim.training.shapes import element_bytes, group_seconds
from podsim.training.software import Software

_HIDING = 0.9
"""share of a pass that can hide collectives: the first layers have nothing to overlap with"""


@dataclass(frozen=True, kw_only=True)
class ShardedStep:
    """The cost of one division of a graph."""

    seconds: float
    """s. The time of a step."""
    compute: float
    """s. The time of the kernels, with the host's."""
    exposed: float
    """s. The collectives that compute does not hide."""
    hidden: float
    """s. The collectives that compute hides."""
    update: float
    """s. The optimizer."""
    memory: float
    """B. The bytes on one GPU."""
    ops: tuple[LocalOp, ...] = ()
    """The ops of one micro-batch."""
    plan: Plan | None = None
    """The plan that divides the same or nearly the same; None for a network that no plan describes."""
    beyond: float = 0.0
    """s. The time that divisions beyond the plan add to its step; 0 where the plan says all."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ShardCase:
    """A graph and the GPUs that it is divided over, with what was priced so far."""

    graph: DimensionGraph
    cluster: Cluster
    precision: str
    software: Software
    optimizer: str
    room: float
    """B. The usable memory of a GPU."""
    micro_batches: int = 1
    """The number of times that a step runs the graph."""
    recomputes: bool = False
    """Whether layers run again in the backward pass."""
    local: dict[object, LocalOp] = field(default_factory=dict)
    kernels: dict[object, tuple[float, float]] = field(default_factory=dict)
    sent: dict[object, float] = field(default_factory=dict)
    classes: list[int] = field(init=False, default_factory=list)
    """The class of each op: ops of one class cost the same if they are divided the same way."""

    def __post_init__(self) -> None:
        """Number the kinds of ops."""
        known: dict[object, int] = {}
        for op in self.graph.ops:
            i, graph = op.position, self.graph.graph
            ends = ((self.graph.tensors[o.tensor], o) for o in (*op.operands, op.output))
            key = (
                *((t.shape, t.role, o.dims, o.share) for t, o in ends), op.sizes, op.fixed, op.statistics, op.columns,
                op.halo, int(graph.kind[i]), tuple(graph.dims[i]), tuple(graph.gradient[i]),
                *(float(getattr(graph, name)[i]) for name in _SCALED),
            )  # fmt: skip
            self.classes.append(known.setdefault(key, len(known)))

    @property
    def width(self) -> float:
        """B. The size of an activation's element."""
        return element_bytes(self.precision)

    def step(self, mesh: Mesh, given: Given) -> tuple[Sharding, ShardedStep]:
        """The divisions that follow from annotations, and the step. Raises ContradictionError."""
        sharding = propagate(self.graph, mesh, given)
        return sharding, sharded_step(self, sharding, mesh)


_SCALED = ("flops", "flops_back", "read", "written", "read_back", "written_back")


def sharded_step(case: ShardCase, sharding: Sharding, mesh: Mesh) -> ShardedStep:
    """The step of a graph whose tensors are divided so.

    seconds = micro-batches x (passes + waits) + host + exposed gathers and reductions + optimizer
    """
    ops = [_local(case, number, sharding, mesh) for number in range(len(case.graph.ops))]
    fixed, kept, inputs = _memory(case, sharding, mesh)
    forward, backward, again = _compute_seconds(case, ops, mesh)
    waits, waits_again, gathers, reduces = _exchange_seconds(case, ops, mesh)
    software, graph, count = case.software, case.graph.graph, case.micro_batches
    if graph.table_weights:
        local = replace(graph, output=graph.output / mesh.gpus)
        waits += tables_seconds(local, case.precision, case.cluster, software, gpus=mesh.gpus)
    if case.recomputes:
        backward, waits = backward + again, waits + waits_again
    gathers *= count
    exposed = _exposed_seconds(gathers, reduces, (count * forward, count * backward), software)
    update, memory = _update_seconds(case, sharding, mesh), fixed + (inputs if case.recomputes else kept)
    compute = count * (forward + backward) + software.host_step
    return ShardedStep(
        seconds=compute + count * waits + exposed + update, compute=compute, exposed=count * waits + exposed,
        hidden=gathers + reduces - exposed, update=update, memory=memory, ops=tuple(ops),
    )  # fmt: skip


def _exposed_seconds(
    gathers: float, reduces: float, passes: tuple[float, float], software: Software
) -> float:
    """Seconds of gathers during both passes and of reductions during the backward pass that compute does not hide."""
    both, left = sum(passes), 0.0
    for took, during, way in ((gathers, both, "overlap_param"), (reduces, passes[1], "overlap_grad")):
        is_hidden = way in software.can_overlap
        left += max(took - _HIDING * during, min(took, during) * software.contention) if is_hidden else took
    return max(left, gathers + reduces - _HIDING * both)


def _local(case: ShardCase, number: int, sharding: Sharding, mesh: Mesh) -> LocalOp:
    op = case.graph.ops[number]
    ends = (*op.operands, op.output)
    key = (
        case.classes[number], mesh.text, sharding.samples, *(tuple(sharding.divisions[o.tensor]) for o in ends)
    )  # fmt: skip
    known = case.local.get(key)
    if known is None:
        known = case.local[key] = local_op(case.graph, op, sharding, mesh)
    return known


def _compute_seconds(case: ShardCase, ops: Sequence[LocalOp], mesh: Mesh) -> tuple[float, float, float]:
    """(forward, backward, forward of layers) s of the kernels of one rank; the host launches one after the other."""
    keys = [
        (case.classes[number], tuple(sorted((dim, mesh.ranks(axes)) for dim, axes in op.dims.items())))
        for number, op in enumerate(ops)
    ]
    missing = {key: number for number, key in enumerate(keys) if key not in case.kernels}
    if missing:
        rows = list(missing.values())
        graph = _rows(case, rows, [dict(key[1]) for key in missing])
        costs = graph_costs(graph, case.cluster.gpu, case.precision, case.software)
        for key, there, back in zip(missing, costs.forward.tolist(), costs.backward.tolist(), strict=True):
            case.kernels[key] = (there, back)
    copies = np.array(case.graph.copies, dtype=float)
    seconds = np.array([case.kernels[key] for key in keys]) * copies[:, None]
    graph, host = case.graph.graph, case.software.host_kernel
    launches = (float(copies @ graph.kernels) * host, float(copies @ graph.kernels_back) * host)
    there, back = seconds.sum(axis=0)
    again = float(seconds[np.array(case.graph.layer) > 0, 0].sum())
    return max(float(there), launches[0]), max(float(back), launches[1]), again


def _rows(case: ShardCase, rows: Sequence[int], divided: Sequence[dict[int, int]]) -> OpGraph:
    """Some ops as a graph of their own, each with the share of one rank."""
    graph, index = case.graph.graph, np.array(rows)
    dims = graph.dims[index].copy()
    shares = np.array([prod(parts.values()) for parts in divided], dtype=float)
    for row, (number, parts) in enumerate(zip(rows, divided, strict=True)):
        for dim, ranks in parts.items():
            column = case.graph.ops[number].columns[dim]
            for each in _together(graph.kind_names[number], column):
                dims[row, each] = max(1, dims[row, each] // ranks)
    none = np.zeros(0)
    return replace(
        graph, names=tuple(graph.names[i] for i in rows), targets=tuple(graph.targets[i] for i in rows),
        shapes=tuple(graph.shapes[i] for i in rows), kind=graph.kind[index], dims=dims,
        gradient=graph.gradient[index], first=np.zeros(len(rows) + 1, dtype=np.int64),
        before=none.astype(np.int64), carried=none,
        **{name: getattr(graph, name)[index] / shares for name in _SCALED},
        **{name: getattr(graph, name)[index] for name in ("kernels", "kernels_back", "parameters", "output", "kept")},
    )  # fmt: skip


def _together(kind: str, column: int) -> tuple[int, ...]:
    """The columns of sizes that divide with one: groups take channels and filters along, heads those of keys."""
    if column == NONE or kind not in DIMS:
        return ()
    return {("conv", 3): (1, 2, 3), ("conv", 5): (5, 6), ("attention", 1): (1, 2)}.get(
        (kind, column), (column,)
    )


def _exchange_seconds(
    case: ShardCase, ops: Sequence[LocalOp], mesh: Mesh
) -> tuple[float, float, float, float]:
    """(exposed, those of layers' forward passes, gathers of weights, reductions of gradients) s.

    Equal conversions of one tensor happen once.
    """
    waits: dict[tuple[str, Axes, float], float] = defaultdict(float)
    again: dict[tuple[str, Axes, float], float] = defaultdict(float)
    gathers: dict[tuple[str, Axes, float], float] = defaultdict(float)
    reduces: dict[tuple[str, Axes], float] = defaultdict(float)
    done: set[object] = set()
    for number, op in enumerate(ops):
        copies, node = case.graph.copies[number], case.graph.ops[number]
        ends = (*node.operands, node.output)
        for exchange in op.exchanges:
            end = ends[exchange.end]
            is_read = exchange.end < len(node.operands)
            key = (end.tensor, is_read, *exchange[:4], end.share)
            if is_read and exchange.phase != "weights" and key in done:
                continue
            done.add(key)
            size = exchange.elements * (
                case.software.gradient_bytes if exchange.phase == "gradients" else case.width
            )
            if exchange.phase == "gradients" and case.graph.graph.parameters[node.position]:
                reduces[exchange.collective, exchange.axes] += copies * size
            elif exchange.phase == "weights":
                gathers[exchange.collective, exchange.axes, size] += copies
            elif exchange.phase != "gradients":
                waits[exchange.collective, exchange.axes, size] += copies
                if exchange.phase == "forward" and case.graph.layer[number]:
                    again[exchange.collective, exchange.axes, size] += copies
    return (
        sum(count * price for count, price in _priced(case, waits, mesh)),
        sum(count * price for count, price in _priced(case, again, mesh)),
        sum(count * price for count, price in _priced(case, gathers, mesh)),
        sum(price for _, price in _priced(case, {(*key, size): 1.0 for key, size in reduces.items()}, mesh)),
    )


def _priced(
    case: ShardCase, counts: dict[tuple[str, Axes, float], float], mesh: Mesh
) -> list[tuple[float, float]]:
    """(count, seconds of each) of collectives, those of a kind priced together."""
    text = mesh.text
    missing: dict[tuple[str, Axes], list[float]] = defaultdict(list)
    for name, axes, size in counts:
        if (text, name, axes, size) not in case.sent:
            missing[name, axes].append(size)
    for (name, axes), sizes in missing.items():
        seconds = _seconds(case, name, axes, np.array(sizes), mesh)
        case.sent.update(
            {(text, name, axes, size): float(took) for size, took in zip(sizes, seconds, strict=True)}
        )
    return [(count, case.sent[text, *key]) for key, count in counts.items()]


def _seconds(case: ShardCase, name: str, axes: Axes, sizes: Array, mesh: Mesh) -> Array:
    ranks, members = mesh.ranks(axes), mesh.per_node(axes, case.cluster.gpus_per_node)
    if name == "send_recv":
        ranks, members = 2, 2 if members > 1 else 1
    return np.atleast_1d(
        group_seconds(
            name, sizes, case.cluster, case.software, ranks=np.array(ranks), members=np.array(float(members)),
            stride=mesh.stride(axes),
        )
    )  # fmt: skip


def _weights(case: ShardCase, sharding: Sharding, mesh: Mesh) -> list[tuple[float, int]]:
    """(parameters on one rank, replicas of them) of every weight."""
    held = []
    for op, copies in zip(case.graph.ops, case.graph.copies, strict=True):
        for operand in op.operands:
            tensor = case.graph.tensors[operand.tensor]
            if (
                tensor.role == "weight" and case.graph.graph.parameters[op.position]
            ):  # else it is tied to another
                ranks = mesh.ranks([a for axes in sharding.divisions[operand.tensor] for a in axes])
                held.append((copies * prod(tensor.shape) / ranks, mesh.gpus // ranks))
    return held


def _update_seconds(case: ShardCase, sharding: Sharding, mesh: Mesh) -> float:
    moved = OPTIMIZERS[case.optimizer] + (6.0 if case.width == 2.0 else 0.0)
    owned = sum(parameters / replicas for parameters, replicas in _weights(case, sharding, mesh))
    return float(optimizer_seconds(case.cluster.gpu, np.array(owned), moved)) / case.software.memory_speed


def _memory(case: ShardCase, sharding: Sharding, mesh: Mesh) -> tuple[float, float, float]:
    """(weights, gradients, states and runtime; activations; activations if layers run again) B on one GPU.

    Layers that run again keep their input, and one of them at a time all the rest.
    """
    master = 4.0 if case.width == 2.0 else 0.0
    tables = 4.0 * case.graph.graph.table_weights / mesh.gpus
    fixed = (
        case.software.memory_floor
        + tables
        + sum(
            parameters
            * (case.width + case.software.gradient_bytes + (master + STATES[case.optimizer]) / replicas)
            for parameters, replicas in _weights(case, sharding, mesh)
        )
    )
    graph, layer = case.graph.graph, np.array(case.graph.layer)
    ranks = [mesh.ranks([a for axes in sharding.divisions[t] for a in axes]) for t in case.graph.kept_in]
    each = graph.kept * case.width / graph.element / np.array(ranks)
    copies = np.array(case.graph.copies)
    starts = (layer > 0) & (np.diff(layer, prepend=0) != 0)
    inside = [float(each[layer == number].sum()) for number in set(layer[layer > 0].tolist())]
    inputs = float(copies[layer == 0] @ each[layer == 0] + copies[starts] @ each[starts]) + max(
        inside, default=0.0
    )
    return fixed, float(copies @ each), inputs
