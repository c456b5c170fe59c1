"""A pass of one micro-batch through one block, piece by piece: the kernels and exposed collectives in their order.

The pieces of a pass add up, part by part, to its cost in podsim.training.layers. The closed form and the simulation
therefore agree on a pass, and differ only between passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from podsim.axes import Shaped
from podsim.hardware.cluster import Cluster
from podsim.network.bus import bus_factor, ring_share
from podsim.schedules.actions import Work
from podsim.training.batch import PlanTables
from podsim.training.expert_exchange import ep_bytes, spared_syncs
from podsim.training.layers import (
    PARTS,
    Pass,
    cp_bytes,
    cp_gather_seconds,
    last_ops,
    op_times,
    syncs_of,
    tp_bytes,
    tp_sync_seconds,
)
from podsim.training.pipeline_stages import repeats_output
from podsim.training.plan import Plan
from podsim.training.plan_values import Array, Grid, Recompute
from podsim.training.split_layers import own_layers
from podsim.training.step import SPLIT
from podsim.workload.model import Block, Model, TensorOp


class Stream(IntEnum):
    """Streams of a rank; ops of one run one after the other."""

    COMPUTE = 0
    GROUP = 1
    """The collectives of the tensor-, context- and expert-parallel groups."""
    AHEAD = 2
    """The activations to the next stage."""
    BACK = 3
    """The gradients of activations to the previous stage."""
    DATA = 4
    """The gradients and weights among data-parallel ranks."""


MIX = dict(zip(SPLIT, np.eye(len(SPLIT)), strict=True))
"""The unit vector of each part of the step."""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Work on one stream."""

    name: str
    kind: str
    """A part of the step (SPLIT), or what hides behind others: "tp beside"."""
    seconds: float
    stream: Stream = Stream.COMPUTE
    beside: bool = False
    """Whether it overlaps with the pieces after it, which do not wait for it."""
    bytes: float = 0.0
    """B. The bytes that leave the rank's node, for an exchange or a send."""
    message: float = 0.0
    """B. The bytes that a collective reduces, gathers or exchanges, or that a send carries."""
    mix: Array | None = None
    """s. The time by part, if it is several pieces in one (SPLIT)."""

    def times(self, factor: float) -> Piece:
        """The same work, longer by a factor."""
        mix = None if self.mix is None else self.mix * factor
        return replace(
            self,
            seconds=self.seconds * factor,
            bytes=self.bytes * factor,
            message=self.message * factor,
            mix=mix,
        )

    @property
    def parts(self) -> Array:
        """Seconds by part of the step; hidden work counts in none."""
        if self.mix is not None:
            return self.mix
        return MIX[self.kind] * self.seconds if self.kind in MIX else np.zeros(len(SPLIT))


@dataclass(frozen=True, kw_only=True)
class BlockPieces:
    """All passes through one block, for one micro-batch."""

    forward: tuple[Piece, ...]
    input: tuple[Piece, ...]
    """The gradient of the input."""
    weight: tuple[Piece, ...]
    """The gradient of the weights."""
    backward: tuple[Piece, ...]
    """The gradients of both, in the order in which autograd runs them."""
    again: tuple[Piece, ...]
    """The recomputation before its backward pass."""
    gaps: tuple[float, float]
    """s. The time that the GPU waits for the host in a backward pass: without, and with all of the recomputation."""

    def action_pieces(self, work: int, again: float) -> Iterable[Piece]:
        """The pieces of an action; `again` is the share of its recomputation that is done."""
        if work == Work.FORWARD:
            return self.forward
        if work == Work.WEIGHT:
            return self.weight
        again = again if self.again else 0.0
        repeated = [piece.times(again) for piece in self.again] if again else []
        gap = (1 - again) * self.gaps[0] + again * self.gaps[1]
        if work == Work.INPUT:  # the rest is in the other half
            gap -= sum(piece.seconds for piece in self.weight if piece.kind == "launch")
        waits = [_gap(gap)] if gap > 0.0 else []
        return [*repeated, *(self.input if work == Work.INPUT else self.backward), *waits]


@dataclass(frozen=True)
class _Timed:
    """An op of a block and the seconds of its passes."""

    op: TensorOp
    forward: float
    backward: float
    weight: float

    @property
    def kind(self) -> str:
        return "compute" if self.op.kind in ("gemm", "attention") else "memory"


def block_pieces(ready: PlanTables, cluster: Cluster) -> list[BlockPieces]:
    """The pieces of each distinct block of the model under the prepared plan."""
    model, plan, software = ready.model, ready.plan, ready.software
    timed: list[list[_Timed]] = [[] for _ in model.kinds]
    timings = {}
    for items, _, times in op_times(model, cluster, plan.wide(), software):
        weight = np.broadcast_to(times.weight, times.forward.shape)
        for i, item in enumerate(items):
            timings[id(item.op), id(item.block)] = _Timed(
                item.op, float(times.forward[i, 0]), float(times.backward[i, 0]), float(weight[i, 0])
            )
    for position, block in enumerate(model.kinds):
        timed[position] = [timings[id(op), id(block)] for op in block.ops]
    once = float(tp_sync_seconds(model, cluster, plan.wide(), software)[0])
    tail = last_ops(model) if software.early_stop else frozenset()
    layers = ready.layers.of(slice(0, 1))
    if ready.split is not None:
        layers = own_layers(plan.wide(), layers, ready.split.of(slice(0, 1)))
    table = layers[..., 0]
    return [
        _add_bytes(
            _block(model, block, plan, software.selective, timed[b], table[:, :, b], once, tail),
            _rates(ready, cluster, block, once, 0.5 * float(table[Pass.FORWARD, PARTS.index("ep"), b])),
        )
        for b, block in enumerate(model.kinds)
    ]


def _rates(
    ready: PlanTables, cluster: Cluster, block: Block, sync: float, exchange: float
) -> dict[str, float]:
    """B/s out of a rank's node in collectives of its tensor-, context- and expert-parallel groups, by kind of piece.

    These take `sync` and `exchange` seconds. As for gradients (lower_stages), a ring over N nodes with g ranks each takes
    (N - 1) / N of the bytes out of every node, over g adapters, an all-reduce twice; an all-to-all takes what is not for
    the node's own ranks.
    """
    model, plan, software = ready.model, ready.plan, ready.software
    wide, grid = plan.wide(), Grid(gpus_per_node=cluster.gpus_per_node, plan=plan)
    out: dict[str, float] = {}
    tp, cp, ep = (int(np.asarray(degree).item()) for degree in (plan.tp, plan.cp, plan.ep))
    tp_near, cp_near, ep_near = (int(np.asarray(near).item()) for near in (grid.tp, grid.cp, grid.ep))
    if tp > tp_near and sync > 0.0:
        rate = (
            float(bus_factor("all_reduce", tp // tp_near)) / tp_near * float(tp_bytes(model, wide)[0]) / sync
        )
        out |= {"tp": rate, "tp beside": rate}
    if cp > cp_near and any(op.kind == "attention" for op in block.ops):
        gather = float(cp_gather_seconds(model, block, cluster, wide, software)[0])
        out["cp"] = ring_share(cp // cp_near) / cp_near * float(cp_bytes(model, block, wide)[0]) / gather
    if ep > ep_near and exchange > 0.0:
        out["ep"] = (
            ring_share(ep / ep_near) * float(ep_bytes(model, block, cluster, wide, software)[0]) / exchange
        )
    return out


def _add_bytes(block: BlockPieces, rates: dict[str, float]) -> BlockPieces:
    """The block with the bytes that its collectives send out of the node."""

    def add_bytes(pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
        return tuple(replace(p, bytes=p.seconds * rates[p.kind]) if p.kind in rates else p for p in pieces)

    if not rates:
        return block
    return replace(
        block, forward=add_bytes(block.forward), input=add_bytes(block.input), weight=add_bytes(block.weight),
        backward=add_bytes(block.backward), again=add_bytes(block.again),
    )  # fmt: skip


def _block(
    model: Model, block: Block, plan: Plan, selective: str, timed: list[_Timed],
    table: Shaped[Array, "pass part"], once: float, tail: frozenset[int],
) -> BlockPieces:  # fmt: skip
    ahead, behind = syncs_of(model, block)
    parts = [dict(zip(PARTS, row.tolist(), strict=True)) for row in table]
    spared = float(np.max(spared_syncs(block, plan)))
    syncs = ((Pass.FORWARD, ahead), (Pass.BACKWARD, behind))
    hidden = [max(n - spared, 0.0) * once - parts[y]["tp"] for y, n in syncs]
    forward = _forward(timed, parts[Pass.FORWARD], ahead, hidden[0])
    inputs, weights, both = _backward(timed, parts[Pass.BACKWARD], behind, hidden[1])
    mode = int(np.asarray(plan.recompute).item())
    edge = block in (model.embedding, model.head)
    if edge or mode == Recompute.NONE:
        again: list[Piece] = []
    elif mode == Recompute.SELECTIVE:
        again = _selective_recompute(timed, selective)
    else:
        again = _full_recompute(forward, timed, tail)
        scale = parts[Pass.BACKWARD_FULL]["tp"] - parts[Pass.BACKWARD]["tp"]
        again = [p.times(scale / parts[Pass.FORWARD]["tp"]) if p.kind == "tp" else p for p in again]
    if parts[Pass.FORWARD]["launch"] > 0.0:
        forward.append(_gap(parts[Pass.FORWARD]["launch"]))
    if parts[Pass.WEIGHT]["launch"] > 0.0:
        weights.append(_gap(parts[Pass.WEIGHT]["launch"]))
    return BlockPieces(
        forward=tuple(forward),
        input=tuple(inputs),
        weight=tuple(weights),
        backward=tuple(both),
        again=tuple(again),
        gaps=(parts[Pass.BACKWARD]["launch"], parts[Pass.BACKWARD + mode]["launch"]),
    )


def _gap(seconds: float) -> Piece:
    return Piece(name="launch gap", kind="launch", seconds=seconds)


def _sync_positions(chosen: Sequence[int], wanted: int, last: int) -> list[int]:
    """The last of the chosen positions, a number of them; the end of the pass for any beyond."""
    return [*[last] * max(wanted - len(chosen), 0), *(chosen[-wanted:] if wanted else [])]


def _collective(name: str, kind: str, seconds: float) -> Piece:
    return Piece(name=name, kind=kind, seconds=seconds, stream=Stream.GROUP)


def _hidden_syncs(timed: list[_Timed], hidden: float, weight: bool) -> dict[int, Piece]:
    """The part of the tensor-parallel collectives that overlaps with each GEMM, in proportion to its time."""
    if hidden <= 0.0:
        return {}
    gemms = {i: t.weight if weight else t.forward for i, t in enumerate(timed) if t.op.kind == "gemm"}
    total = sum(gemms.values())
    return {
        i: Piece(
            name="tp sync", kind="tp beside", seconds=hidden * s / total, stream=Stream.GROUP, beside=True
        )
        for i, s in gemms.items()
        if s > 0.0
    }


def _forward(timed: list[_Timed], parts: dict[str, float], syncs: int, hidden: float) -> list[Piece]:
    """Kernels in order; a sync after each row-parallel product, keys before the core, all-to-alls around experts."""
    rows = [i for i, t in enumerate(timed) if t.op.kind == "gemm" and t.op.split == "row"]
    rows = rows or [i for i, t in enumerate(timed) if t.op.kind == "embedding"][:syncs]
    after = _sync_positions(rows, syncs, len(timed) - 1)
    cores = [i for i, t in enumerate(timed) if t.op.kind == "attention"]
    experts = [i for i, t in enumerate(timed) if t.op.expert]
    beside = _hidden_syncs(timed, hidden, weight=False)
    out: list[Piece] = []
    for i, t in enumerate(timed):
        if i in cores and parts["cp"] > 0.0:
            out.append(_collective("cp gather", "cp", parts["cp"] / len(cores)))
        if experts and i == experts[0] and parts["ep"] > 0.0:
            out.append(_collective("ep dispatch", "ep", parts["ep"] / 2))
        if i in beside:
            out.append(beside[i])
        out.append(Piece(name=t.op.name, kind=t.kind, seconds=t.forward))
        if experts and i == experts[-1] and parts["ep"] > 0.0:
            out.append(_collective("ep combine", "ep", parts["ep"] / 2))
        if parts["tp"] > 0.0:
            out += [_collective("tp sync", "tp", parts["tp"] / syncs)] * after.count(i)
    return out


def _backward(
    timed: list[_Timed], parts: dict[str, float], syncs: int, hidden: float
) -> tuple[list[Piece], list[Piece], list[Piece]]:
    """(input gradients, weight gradients, both in turn), last op first; a sync follows each column-parallel product."""
    columns = [i for i, t in enumerate(timed) if t.op.kind == "gemm" and t.op.split in ("column", "vocab")]
    after = _sync_positions(columns[::-1], syncs, 0)
    cores = [i for i, t in enumerate(timed) if t.op.kind == "attention"]
    experts = [i for i, t in enumerate(timed) if t.op.expert]
    beside = _hidden_syncs(timed, hidden, weight=True)
    inputs: list[Piece] = []
    weights: list[Piece] = []
    both: list[Piece] = []

    def add(piece: Piece, *lists: list[Piece]) -> None:
        for pieces in (*lists, both):
            pieces.append(piece)

    for i in range(len(timed) - 1, -1, -1):
        t = timed[i]
        if experts and i == experts[-1] and parts["ep"] > 0.0:
            add(_collective("ep dispatch, back", "ep", parts["ep"] / 2), inputs)
        add(Piece(name=f"{t.op.name}, input gradient" if t.weight else f"{t.op.name}, back", kind=t.kind,
                  seconds=t.backward - t.weight), inputs)  # fmt: skip
        if i in beside:
            add(beside[i], weights)
        if t.weight:
            add(Piece(name=f"{t.op.name}, weight gradient", kind=t.kind, seconds=t.weight), weights)
        if parts["tp"] > 0.0:
            for _ in range(after.count(i)):
                add(_collective("tp sync, back", "tp", parts["tp"] / syncs), inputs)
        if i in cores and parts["cp"] > 0.0:
            add(_collective("cp gather, back", "cp", parts["cp"] / len(cores)), inputs)
        if experts and i == experts[0] and parts["ep"] > 0.0:
            add(_collective("ep combine, back", "ep", parts["ep"] / 2), inputs)
    return inputs, weights, both


def _full_recompute(forward: list[Piece], timed: list[_Timed], tail: frozenset[int]) -> list[Piece]:
    """The forward pass again, without what no gradient needs."""
    spare = {t.op.name for t in timed if id(t.op) in tail}
    return [_repeat_piece(p) for p in forward if p.name not in spare and p.kind != "launch" and not p.beside]


def _selective_recompute(timed: list[_Timed], what: str) -> list[Piece]:
    """What is computed again: the attention core, what `repeats_output` says, or half of the products and all that is
    bound by memory ("ops")."""

    def is_again(op: TensorOp) -> bool:
        return repeats_output(op) if what == "outputs" else op.core or op.kind == "attention"

    core = [t for t in timed if is_again(t.op)]
    if what != "ops":
        return [_repeat_piece(Piece(name=t.op.name, kind=t.kind, seconds=t.forward)) for t in core]
    share = {"compute": 0.5, "memory": 1.0}
    return [
        _repeat_piece(Piece(name=t.op.name, kind=t.kind, seconds=share[t.kind] * t.forward))
        for t in timed
        if t not in core
    ]


def _repeat_piece(piece: Piece) -> Piece:
    return replace(piece, name=f"{piece.name}, again")


def merge_pieces(pieces: Iterable[Piece]) -> list[Piece]:
    """The same pass with neighbours on one stream as one piece: exact, as nothing else waits for what is between.

    Its kind is what most of it is. Collectives of different groups stay apart: others wait for each.
    """
    out: list[Piece] = []
    for piece in pieces:
        last = out[-1] if out else None
        group = piece.stream == Stream.COMPUTE or (last and last.kind == piece.kind)
        if last and last.stream == piece.stream and group and not last.beside and not piece.beside:
            name = last.name if last.name.endswith("…") else f"{last.name} …"
            mix = last.parts + piece.parts
            out[-1] = replace(
                last, name=name, kind=SPLIT[int(mix.argmax())], seconds=last.seconds + piece.seconds,
                bytes=last.bytes + piece.bytes, mix=mix,
            )  # fmt: skip
        else:
            out.append(piece)
    return out
