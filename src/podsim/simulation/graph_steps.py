"""A step of a captured graph as ops, played: forward and backward on its devices, tensors between them, gradients.

    device d: stream "compute": forward ops in order, backward ops in reverse, the update
              stream "send":    outputs that other devices read, then their gradients back
    replicas: stream "dp":      buckets of gradients, each after the op that fills it

One batch passes at a time, so that devices of a chain wait for each other. Where the host launches kernels more slowly
than the GPU runs them, each op takes that much longer. The closed form of replicas is podsim.graphs.graph_step.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from podsim.answers.timeline import Lane, Timeline
from podsim.axes import Floats, Ints
from podsim.graphs.graph_cost import OpCosts
from podsim.graphs.graph_step import ReplicasStep, bucket_sizes
from podsim.graphs.op_graph import OpGraph, nets_of
from podsim.simulation.events import Played, play
from podsim.simulation.ops import Ops, Streams
from podsim.training.software import Software

_LANES = ("compute", "send", "dp")


@dataclass
class _Draft:
    """Ops in the order in which streams run them."""

    name: list[str] = field(default_factory=list)
    kind: list[str] = field(default_factory=list)
    stream: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)

    def add(self, name: str, kind: str, device: int, lane: str, seconds: float, after: list[int]) -> int:
        """The number of a new op, which starts when others have ended."""
        at = len(self.name)
        self.name.append(name)
        self.kind.append(kind)
        self.stream.append(device * len(_LANES) + _LANES.index(lane))
        self.seconds.append(seconds)
        self.edges += [(op, at) for op in after]
        return at


def simulate_graph(
    graph: OpGraph, costs: OpCosts, step: ReplicasStep, software: Software, *, part: Ints | None = None,
    sends: Floats | None = None,
) -> tuple[float, Timeline]:  # fmt: skip
    """(s of the played step, its timeline) of one replica, or of a graph divided over devices.

    `part`: the device of each op, None for one. `sends`: s of each net's tensor (op_graph.nets_of) from one device to
    another. A divided graph is played alone, without replicas.
    """
    device = np.zeros(len(graph), np.int64) if part is None else part
    names = [f"{path}.{op}" if path else op for path, op in zip(graph.names, graph.targets, strict=True)]
    draft, reduction = _Draft(), step.reduction if part is None else None
    if reduction is not None and step.tables > 0.0:
        draft.add("tables", "ep", 0, "compute", step.tables, [])
    factor = [
        total / max(float(alone.sum()), 1e-30)
        for total, alone in zip(costs.passes, (costs.forward, costs.backward), strict=True)
    ]
    ahead = _pass(draft, graph, names, device, costs.forward * factor[0], sends, back=None)
    back = _pass(draft, graph, names, device, costs.backward * factor[1], sends, back=ahead)
    last = [back[0]] if len(back) else []
    if reduction is not None:
        _, filled = bucket_sizes(graph.parameters[::-1] * software.gradient_bytes)
        beside = "overlap_grad" in software.can_overlap
        for bucket, seconds in enumerate(reduction.took.tolist()):
            after = int(back[len(graph) - 1 - filled[bucket]]) if beside else int(back[0])
            last.append(draft.add(f"gradients {bucket}", "dp", 0, "dp", seconds, [after]))
    own = np.bincount(device, graph.parameters) / max(float(graph.parameters.sum()), 1.0)
    for d, share in enumerate(own.tolist()):
        draft.add("update", "optimizer", d, "compute", step.update * share, last)
    draft.add("host", "host", 0, "compute", software.host_step, last)
    devices = int(device.max(initial=0)) + 1
    played = play(_ops(draft, devices, software.contention))
    return played.seconds, _timeline(draft, played, devices)


def _pass(
    draft: _Draft, graph: OpGraph, names: list[str], device: Ints, seconds: Floats, sends: Floats | None,
    *, back: Ints | None,
) -> Ints:  # fmt: skip
    """Write down a pass; the number of each op in it. `back`: the forward pass, if this is the backward one."""
    first, members, _ = nets_of(graph)
    source_of = {int(members[first[j]]): j for j in range(len(first) - 1)}
    edges = zip(graph.before.tolist(), graph.after.tolist(), strict=True)
    needs: list[list[int]] = [[] for _ in names]
    for earlier, later in edges:
        (needs[later] if back is None else needs[earlier]).append(earlier if back is None else later)
    numbers = np.full(len(names), -1)
    moved: dict[tuple[int, int], int] = {}
    order = range(len(names)) if back is None else range(len(names) - 1, -1, -1)
    for op in order:
        own, after = int(device[op]), [] if back is None else [int(back[op])]
        for other in dict.fromkeys(needs[op]):
            there = int(device[other])
            if there == own:
                after.append(int(numbers[other]))
                continue
            # a tensor goes once to each device; its gradient comes back from each, when its last reader there is done
            tensor, readers = other, [other]
            if back is not None:
                tensor, readers = op, [o for o in needs[op] if int(device[o]) == there]
            key = (tensor, own if back is None else there)
            if key not in moved:
                assert sends is not None
                took, ended = float(sends[source_of[tensor]]), [int(numbers[o]) for o in readers]
                moved[key] = draft.add(names[tensor], "send", there, "send", took, ended)
            after.append(moved[key])
        text = names[op] if back is None else f"{names[op]} backward"
        numbers[op] = draft.add(text, graph.kind_names[op], own, "compute", float(seconds[op]), after)
    return numbers


def _ops(draft: _Draft, devices: int, contention: float) -> Ops:
    lane = np.tile(np.arange(len(_LANES)), devices)
    edges = np.array(draft.edges, np.int32).reshape(-1, 2)
    return Ops(
        stream=np.array(draft.stream, np.int32), seconds=np.array(draft.seconds), before=edges[:, 0].copy(),
        after=edges[:, 1].copy(),
        streams=Streams(
            domain=np.repeat(np.arange(devices), len(_LANES)).astype(np.int32), slows=lane == _LANES.index("dp"),
            slowed=lane == _LANES.index("compute"), share=contention,
        ),
    )  # fmt: skip


def _timeline(draft: _Draft, played: Played, devices: int) -> Timeline:
    """Spans of all ops that take any time."""
    long = np.flatnonzero(played.end > played.start)
    names, name = np.unique(np.array(draft.name, dtype=str)[long], return_inverse=True)
    kinds, kind = np.unique(np.array(draft.kind, dtype=str)[long], return_inverse=True)
    used, lane = np.unique(np.array(draft.stream)[long], return_inverse=True)
    lanes = [divmod(int(process), len(_LANES)) for process in used]
    process = "a replica" if devices == 1 else ""
    return Timeline(
        lanes=tuple(Lane(process=process or f"device {d}", name=_LANES[k]) for d, k in lanes),
        names=tuple(names.tolist()), kinds=tuple(kinds.tolist()), lane=lane.astype(np.int64), name=name.astype(np.int64),
        kind=kind.astype(np.int64), start=played.start[long], end=played.end[long],
    )  # fmt: skip
