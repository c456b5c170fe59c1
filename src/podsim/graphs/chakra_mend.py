"""A Chakra file as a TraceGraph. Violations of the format are repaired and counted.

    doubled    of nodes with the same id, the first stays and the others are dropped
    ignored    communication nodes of the CPU, since a GPU kernel moves their bytes; their successors inherit their
               dependencies
    dangling   dependencies on nodes outside the file are dropped
    cyclic     of nodes in a cycle, the one that started first does not wait
    ordered    ops of one stream run one after the other, in order of their start times; a dependency is added if there
               is none from one to the next

Source: traces that ship with the format have all of these; other consumers stop at the first.
"""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from podsim.errors import TraceError
from podsim.graphs.chakra_file import Attribute, Node, RawTrace, encode, group_table, read_raw
from podsim.graphs.trace_graph import COLLECTIVES, KINDS, CommGroup, TraceGraph
from podsim.whole_files import write_files

_RANK = re.compile(r"\.(\d{1,15})\.et(?:\.gz)?$")
_COMMUNICATION = ("collective", "send", "recv")


@dataclass(frozen=True, kw_only=True)
class Mended:
    """A trace, with the counts of its repairs."""

    graph: TraceGraph
    version: str
    nodes: int
    dangling: int
    doubled: int
    ignored: int
    cyclic: int
    ordered: int
    truncated: bool


def read_chakra(path: Path) -> Mended:
    """The trace of a file, with the rank of its name or metadata. Raises TraceError for another file."""
    match = _RANK.search(path.name)
    return mend(read_raw(path), rank=int(match[1]) if match else -1)


def mend(raw: RawTrace, *, rank: int = -1) -> Mended:
    """The nodes of a file as ops in topological order, repaired as this module describes."""
    chosen: dict[int, Node] = {}
    for node in raw.nodes:
        chosen.setdefault(node.id, node)
    skipped = {
        i for i, n in chosen.items() if n.kind in _COMMUNICATION and _is_true(n.attributes.get("is_cpu_op"))
    }
    dangling = 0
    before: dict[int, list[int]] = {}
    for id_, node in chosen.items():
        there = [earlier for earlier in dict.fromkeys(node.before) if earlier in chosen]
        dangling += len(set(node.before)) - len(there)
        before[id_] = there
    bridged = _bridge(before, skipped)
    order, cyclic = _sort_nodes(bridged, chosen)
    position = {id_: at for at, id_ in enumerate(order)}
    nodes = [chosen[id_] for id_ in order]
    edges = [sorted(position[earlier] for earlier in bridged[id_]) for id_ in order]
    streams = tuple(dict.fromkeys(text for node in nodes if (text := _stream(node))))
    stream = [streams.index(text) if (text := _stream(node)) else -1 for node in nodes]
    ordered = _chain_streams(edges, stream, nodes)
    stated = raw.attributes.get("rank")
    if rank < 0 and isinstance(stated, int) and stated >= 0:
        rank = stated
    return Mended(
        graph=_graph(nodes, edges, stream, streams, raw.attributes, rank), version=raw.version, nodes=len(raw.nodes),
        dangling=dangling, doubled=len(raw.nodes) - len(chosen), ignored=len(skipped), cyclic=cyclic, ordered=ordered,
        truncated=raw.truncated,
    )  # fmt: skip


def _is_true(value: Attribute | None) -> bool:
    return bool(value) and value not in ("False", "false", "0")


def _stream(node: Node) -> str:
    """The GPU stream of a node; "" for ops of the CPU."""
    value = node.attributes.get("stream")
    return "" if value is None or value == "" or _is_true(node.attributes.get("is_cpu_op")) else str(value)


def _bridge(before: dict[int, list[int]], skipped: set[int]) -> dict[int, list[int]]:
    """The dependencies of each kept node, with skipped nodes replaced by their own dependencies."""
    bridged: dict[int, list[int]] = {}
    for id_, direct in before.items():
        if id_ in skipped:
            continue
        stack, seen, kept = list(direct), set(direct), []
        while stack:
            node = stack.pop()
            if node in skipped:
                new = [earlier for earlier in before[node] if earlier not in seen]
                seen.update(new)
                stack += new
            else:
                kept.append(node)
        bridged[id_] = kept
    return bridged


def _sort_nodes(before: dict[int, list[int]], nodes: dict[int, Node]) -> tuple[list[int], int]:
    """(ids in topological order, earlier starts first; number of dropped dependencies). Drops them from `before`."""
    after: dict[int, list[int]] = {id_: [] for id_ in before}
    left = {id_: len(direct) for id_, direct in before.items()}
    for id_, direct in before.items():
        for earlier in direct:
            after[earlier].append(id_)
    ready = [(nodes[id_].start, id_) for id_, number in left.items() if not number]
    waiting = [(nodes[id_].start, id_) for id_, number in left.items() if number]
    heapq.heapify(ready)
    heapq.heapify(waiting)
    order: list[int] = []
    done: set[int] = set()
    dropped = 0
    while len(order) < len(before):
        if not ready:  # a cycle: the earliest waiting node stops waiting
            id_ = heapq.heappop(waiting)[1]
            if id_ in done or not left[id_]:
                continue
            dropped += left[id_]
            kept = [earlier for earlier in before[id_] if earlier in done]
            for earlier in before[id_]:
                if earlier not in done:
                    after[earlier].remove(id_)
            before[id_], left[id_] = kept, 0
            heapq.heappush(ready, (nodes[id_].start, id_))
        id_ = heapq.heappop(ready)[1]
        order.append(id_)
        done.add(id_)
        for later in after[id_]:
            left[later] -= 1
            if not left[later]:
                heapq.heappush(ready, (nodes[later].start, later))
    return order, dropped


def _chain_streams(edges: list[list[int]], stream: Sequence[int], nodes: Sequence[Node]) -> int:
    """Add edges that keep each stream in topological order, which follows start times. The number of new edges."""
    last: dict[int, int] = {}
    added = 0
    for op, queue in enumerate(stream):
        if queue < 0 or (not nodes[op].start and "podsim_start" not in nodes[op].attributes):
            continue
        earlier = last.get(queue, -1)
        if earlier >= 0 and earlier not in edges[op]:
            edges[op] = sorted([*edges[op], earlier])
            added += 1
        last[queue] = op
    return added


def _number(node: Node, *names: str) -> float:
    """The first of these attributes with a number; 0 if none has one."""
    for name in names:
        value = node.attributes.get(name)
        if isinstance(value, (int, float)) and np.isfinite(value):
            return float(value)
        if isinstance(value, str) and value.removeprefix("-").isdecimal() and len(value) < 19:
            return float(value)
    return 0.0


def _integer(node: Node, name: str) -> int:
    """An attribute as a 32-bit integer; 0 if it is none."""
    value = _number(node, name)
    return int(value) if abs(value) < 2**31 else 0


def _graph(
    nodes: Sequence[Node], edges: Sequence[Sequence[int]], stream: Sequence[int], streams: tuple[str, ...],
    attributes: object, rank: int,
) -> TraceGraph:  # fmt: skip
    names = tuple(dict.fromkeys(node.name for node in nodes))
    position = {name: at for at, name in enumerate(names)}
    groups = _groups(nodes, attributes)
    group_at = {group.name: at for at, group in enumerate(groups)}
    kinds = [node.kind or "metadata" for node in nodes]
    moves = [kind in _COMMUNICATION for kind in kinds]
    collective = [
        _integer(n, "comm_type") if k == "collective" else -1 for n, k in zip(nodes, kinds, strict=True)
    ]
    peers = [
        _integer(n, "comm_dst" if k == "send" else "comm_src") if k in ("send", "recv") else -1
        for n, k in zip(nodes, kinds, strict=True)
    ]
    return TraceGraph(
        rank=rank, names=names, streams=streams, groups=groups,
        name=_ints(position[node.name] for node in nodes), kind=_ints(KINDS.index(kind) for kind in kinds),
        stream=_ints(stream), seconds=_floats(max(_number(n, "podsim_seconds") or n.duration * 1e-6, 0.0) for n in nodes),
        start=_floats(_start(node) for node in nodes), flops=_floats(max(_number(n, "num_ops"), 0.0) for n in nodes),
        bytes=_floats(
            max(_number(n, "comm_size" if m else "tensor_size"), 0.0) for n, m in zip(nodes, moves, strict=True)
        ),
        collective=_ints(c if 0 <= c < len(COLLECTIVES) else -1 for c in collective),
        group=_ints(group_at.get(str(n.attributes.get("pg_name", "")), -1) for n in nodes), peer=_ints(peers),
        tag=_ints(_integer(n, "comm_tag") for n in nodes),
        first=np.cumsum([0, *(len(row) for row in edges)]).astype(np.int64),
        before=_ints(earlier for row in edges for earlier in row),
    )  # fmt: skip


def _start(node: Node) -> float:
    if isinstance(node.attributes.get("podsim_start"), float):
        return _number(node, "podsim_start")
    return node.start * 1e-6 if node.start else float("nan")


def _groups(nodes: Sequence[Node], attributes: object) -> tuple[CommGroup, ...]:
    members: dict[str, tuple[int, ...]] = {}
    for key, value in attributes.items() if isinstance(attributes, dict) else ():
        if key.startswith("group:") and isinstance(value, tuple):
            members[key.removeprefix("group:")] = value
    for node in nodes:
        name = str(node.attributes.get("pg_name", ""))
        if name:
            members.setdefault(name, ())
    return tuple(CommGroup(name=name, ranks=ranks) for name, ranks in members.items())


def _ints(values: Iterable[int]) -> np.ndarray:
    return np.array(list(values), dtype=np.int64)


def _floats(values: Iterable[float]) -> np.ndarray:
    return np.array(list(values), dtype=np.float64)


def write_chakra(graphs: Sequence[TraceGraph], prefix: Path) -> tuple[Path, ...]:
    """Write PREFIX.RANK.et for each rank and PREFIX.comm_groups.json with the ranks of each group. The paths.

    Raises TraceError for unknown or duplicate ranks, and for unwritable files.
    """
    ranks = [graph.rank for graph in graphs]
    if min(ranks, default=-1) < 0 or len(set(ranks)) < len(ranks):
        raise TraceError(f"ranks {ranks[:20]} must be 0 or more and unique: they name the files")
    groups = {name: members for graph in graphs for name, members in group_table(graph.groups).items()}
    written = []
    try:
        for graph in graphs:
            written.append(prefix.with_name(f"{prefix.name}.{graph.rank}.et"))
            write_files({written[-1]: encode(graph)})
        if groups:
            written.append(prefix.with_name(f"{prefix.name}.comm_groups.json"))
            write_files({written[-1]: json.dumps(groups, indent=1) + "\n"})
    except OSError as error:
        raise TraceError(
            f"{error.filename or prefix}: cannot be written: {error.strerror or error}"
        ) from None
    return tuple(written)
