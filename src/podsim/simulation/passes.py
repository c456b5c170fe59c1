"""One action of a schedule on its rank: the passes through its layers, and the exchanges that overlap with them.

What one pipeline rank does in a step, op by op.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from podsim.axes import Ints, NarrowInts, SmallInts
from podsim.schedules.actions import ScheduleTable, Work
from podsim.simulation.drafts import Catalog, Draft, Packed, Ticket, pack
from podsim.simulation.pairs import pair_drafts
from podsim.simulation.pieces import BlockPieces, Piece, Stream, merge_pieces
from podsim.training.plan import Plan
from podsim.training.software import Software

_FULL = 3
"""The ZeRO level that also divides weights."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The content of a pipeline rank, and the time of its exchanges if nothing hides them."""

    parts: dict[int, tuple[int, ...]]
    """The positions of the blocks in each model part, in order."""
    edges: tuple[int, int]
    """The positions of embedding and head among the blocks."""
    again: float
    """share. The share of each layer's recomputation that is done."""
    reduce: Piece
    """The reduction of all its gradients."""
    gather: Piece
    """The gathering of all its weights."""
    layer_gather: Piece
    layer_reduce: Piece
    ends: tuple[Piece, ...]
    """The pieces that end its step, one after the other."""
    near: Piece
    """The activations of a micro-batch to the next stage, or gradients back, on the same node."""
    far: Piece
    """The same to another node."""
    beside: int
    """The number of stages that share a node."""
    charge: Piece
    """The compute-stream time of a send or receive."""

    @property
    def layers(self) -> int:
        """Layers, embedding and head apart; 1 if there is none."""
        return max(sum(len(self.inner(part)) for part in self.parts), 1)

    def inner(self, part: int) -> list[int]:
        """The positions of the layers in a part, without embedding and head."""
        return [i for i, block in enumerate(self.parts[part]) if block not in self.edges]


@dataclass(frozen=True, kw_only=True)
class Writer:
    """The inputs to write the actions of one rank as ops."""

    plan: Plan
    software: Software
    table: ScheduleTable
    rank: int
    stage: Stage
    blocks: list[BlockPieces]
    kernels: bool
    """Whether kernels are separate ops; otherwise one op holds all between two collectives."""

    @property
    def zero(self) -> int:
        """The ZeRO level by whose law ranks exchange."""
        return int(self.plan.exchange_level)

    def pieces(self, block: int, work: int) -> Iterable[Piece]:
        """The pieces of a pass through a block."""
        pieces = self.blocks[block].action_pieces(work, self.stage.again)
        return pieces if self.kernels else merge_pieces(pieces)

    def is_abroad(self, stage: int) -> bool:
        """Whether a stage exists and is on another rank."""
        return stage >= 0 and int(self.table.stage_rank[stage]) != self.rank

    def write(self, actions: list[tuple[int, bool, bool]]) -> Draft:
        """Simultaneous actions, or one alone: (action, opening, closing).

        `opening`: the first pass of its stage in this step, `closing`: the last of that kind. What two passes beside each
        other need is there before both, and what they send leaves after both, as in DualPipe's own code, which exchanges
        between them (github.com/deepseek-ai/DualPipe); of two charges for sending, the first delays both sends.
        """
        if len(actions) == 1:
            draft = self._action(*actions[0])
        else:  # every kernel counts: what hides what depends on them
            writer = replace(self, kernels=True)
            draft = pair_drafts([writer._action(*action) for action in actions], kernels=self.kernels)
        ways = [(action, self._route(action)[1]) for action, _, _ in actions]
        sends = [action for action, target in ways if self._is_exchanging(action) and self.is_abroad(target)]
        draft.chain([self.stage.charge] * (len(sends) - 1))
        for action, _ in ways:
            draft.sent.append(draft.add_aside(self._send_piece(action)) if action in sends else -1)
        draft.chain([self.stage.charge] * min(len(sends), 1))
        return draft

    def _send_piece(self, action: int) -> Piece:
        """The send of an action's output."""
        other, beside = int(self.table.stage_rank[self._route(action)[1]]), self.stage.beside
        piece = self.stage.near if other // beside == self.rank // beside else self.stage.far
        stream = Stream.AHEAD if self.table.work[action] == Work.FORWARD else Stream.BACK
        return replace(piece, stream=stream)

    def _route(self, action: int) -> tuple[int, int]:
        """The stages that an action's input comes from and its output goes to, -1 for none."""
        stage = int(self.table.stage[action])
        ends = (int(self.table.stage_before[stage]), int(self.table.stage_after[stage]))
        return ends if self.table.work[action] == Work.FORWARD else ends[::-1]

    def _is_exchanging(self, action: int) -> bool:
        return int(self.table.work[action]) != Work.WEIGHT

    def _action(self, action: int, opening: bool, closing: bool) -> Draft:
        """The draft of one action, without its send."""
        work, stage = int(self.table.work[action]), int(self.table.stage[action])
        source, target = self._route(action)
        part = int(self.table.stage_part[stage])
        draft = Draft()
        if self._is_exchanging(action) and self.is_abroad(source) and not self.is_abroad(target):
            draft.chain([self.stage.charge])
        layers = self.stage.parts[part]
        order = list(range(len(layers)))[:: 1 if work == Work.FORWARD else -1]
        inner = self.stage.inner(part)
        hooks = Hooks(self, work, part, opening, closing, [i for i in order if i in inner])
        for i in order:
            hooks.before_layer(draft, i)
            draft.chain(self.pieces(layers[i], work))
            hooks.after_layer(draft, i)
        hooks.end_pass(draft)
        draft.heads.append(draft.first)
        return draft

    def opening(self) -> Draft:
        """Weights gathered at the start of the step, during the first passes (ZeRO 1 and 2)."""
        draft = Draft()
        if self.zero in (1, 2) and self.plan.overlap_param and self.stage.gather.seconds > 0.0:
            bucket = self.stage.gather.times(1 / self.stage.layers)
            for part in self.stage.parts:
                for position in range(len(self.stage.inner(part))):
                    draft.tickets["weights", part, position] = len(draft.pieces)
                    draft.pieces.append(bucket)
        return draft

    def closing(self) -> Draft:
        """The work after all passes: gradients not yet reduced, the optimizer, the host."""
        draft = Draft()
        if self.zero < 2 and not self.plan.overlap_grad:
            draft.chain([self.stage.reduce])
        draft.chain(self.stage.ends)
        return draft


class Hooks:
    """The exchanges of data-parallel ranks during one pass."""

    def __init__(
        self, writer: Writer, work: int, part: int, opening: bool, closing: bool, order: list[int]
    ) -> None:
        """`order`: the positions of layers in the order of the pass, without embedding and head."""
        plan, stage, zero = writer.plan, writer.stage, writer.zero
        forward, full = work == Work.FORWARD, zero == _FULL
        every = full and (writer.software.regather or int(plan.pp) == 1)
        gradient = work in (Work.BACKWARD, Work.WEIGHT)
        late = 0.0 if forward else writer.software.late_gather
        self.part, self.order, self.zero, self.backward = part, order, zero, not forward
        self.gathers = full and work != Work.WEIGHT and (every or (opening if forward else closing))
        self.reduces = gradient and (every or closing or zero == 2)
        self.gated = (
            forward and opening and zero in (1, 2) and bool(plan.overlap_param) and stage.gather.seconds > 0.0
        )
        self.beside = bool(plan.overlap_param if full else plan.overlap_grad)
        self.late, self.early = stage.layer_gather.times(late), stage.layer_gather.times(1 - late)
        self.bucket = stage.layer_reduce if full else stage.reduce.times(1 / stage.layers)
        self.full_reduce = stage.reduce.times(len(order) / stage.layers)
        self.gathered: dict[int, int] = {}
        self.reduced = -1

    def _gather(self, draft: Draft, position: int) -> None:
        if position < len(self.order) and self.early.seconds > 0.0:
            self.gathered[position] = draft.add_aside(self.early)

    def before_layer(self, draft: Draft, layer: int) -> None:
        """The exchanges before the pass through a layer: its weights, and those of the next layer in flight."""
        if layer not in self.order:
            return
        position = self.order.index(layer)
        if self.gated:
            draft.waits.append((len(draft.pieces), ("weights", self.part, position)))
        if not self.gathers:
            return
        if (position == 0 and not self.backward) or (position > 0 and not self.beside):
            self._gather(draft, position)  # backwards, the weights of the last layer are still there
        if self.late.seconds > 0.0 and position > 0:
            draft.chain([replace(self.late, stream=Stream.GROUP)])
        if position in self.gathered:
            draft.pending.append(self.gathered[position])
        if self.beside:
            self._gather(draft, position + 1)

    def after_layer(self, draft: Draft, layer: int) -> None:
        """Add the reduction of the layer's gradients."""
        if not self.reduces or layer not in self.order or self.bucket.seconds <= 0.0:
            return
        if self.beside or self.zero == _FULL:
            self.reduced = draft.add_aside(self.bucket)
            if not self.beside:
                draft.pending.append(self.reduced)

    def end_pass(self, draft: Draft) -> None:
        """The end of the pass: ZeRO 2 and 3 wait for the gradients of every micro-batch."""
        if not self.reduces or self.zero < 2 or self.full_reduce.seconds + self.bucket.seconds <= 0.0:
            return
        if self.zero == 2 and not self.beside:
            self.reduced = draft.add_aside(self.full_reduce)
        if self.reduced >= 0 and self.reduced not in draft.pending:
            draft.pending.append(self.reduced)


@dataclass(frozen=True, kw_only=True, eq=False)
class Row:
    """All ops of one pipeline rank."""

    what: NarrowInts
    """The number of each op's piece in the catalog, [n]."""
    stream: SmallInts
    """The Stream of each op, [n]."""
    micro: NarrowInts
    """The micro-batch of each op, -1 for none, [n]."""
    before: SmallInts
    """The edges among these ops, [e]."""
    after: SmallInts
    first: Ints
    """The first op of each action of the rank, [actions]."""
    sent: Ints
    """The op that sends each action's output on, -1 if none, [actions]."""


def _passes(table: ScheduleTable, rank: int) -> Iterator[list[tuple[int, bool, bool]]]:
    """Actions of a rank in order, with simultaneous ones together: (action, opening, closing)."""
    row = range(*table.row(rank).indices(len(table)))
    begun: set[int] = set()
    last = {(int(table.stage[a]), int(table.work[a])): a for a in row}
    group: list[tuple[int, bool, bool]] = []
    for a in row:
        stage, work = int(table.stage[a]), int(table.work[a])
        if group and not table.beside[a]:
            yield group
            group = []
        group.append((a, work == Work.FORWARD and stage not in begun, last[stage, work] == a))
        begun.add(stage)
    if group:
        yield group


def write_row(writer: Writer, catalog: Catalog) -> Row:
    """All ops of a rank; adds their pieces to the catalog."""
    drafts: dict[tuple[tuple[int, int, bool, bool], ...], Packed] = {}
    script: list[tuple[list[int], Packed]] = [([], pack(writer.opening(), catalog))]
    table = writer.table
    for group in _passes(table, writer.rank):
        key = tuple(
            (int(table.work[a]), int(table.stage[a]), opening, closing) for a, opening, closing in group
        )
        if key not in drafts:
            drafts[key] = pack(writer.write(group), catalog)
        script.append(([a for a, _, _ in group], drafts[key]))
    script.append(([], pack(writer.closing(), catalog)))
    return _assemble(writer, script)


def _assemble(writer: Writer, script: list[tuple[list[int], Packed]]) -> Row:
    """The drafts one after the other, with the edges between them."""
    sizes = np.array([len(packed.what) for _, packed in script])
    offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    start = int(writer.table.pointer[writer.rank])
    count = len(range(*writer.table.row(writer.rank).indices(len(writer.table))))
    first, sent = np.full(count, -1), np.full(count, -1)
    what, stream, micro, before, after = [], [], [], [], []
    tickets: dict[Ticket, int] = {}
    links: list[tuple[int, int]] = []
    last = -1
    pending: list[int] = []
    for (actions, packed), offset in zip(script, offsets.tolist(), strict=True):
        what.append(packed.what)
        stream.append(packed.stream)
        micro.append(np.full(len(packed.what), writer.table.micro[actions[0]] if actions else -1))
        before.append(packed.before + offset)
        after.append(packed.after + offset)
        tickets |= {ticket: offset + op for ticket, op in packed.tickets.items()}
        for op, ticket in packed.waits:
            source = last if ticket[0] == "before" else tickets[ticket]
            if source >= 0:
                links.append((source, offset + op))
        if packed.first >= 0:
            heads = packed.heads or [packed.first]
            links += [(op, offset + head) for op in {last, *pending} - {-1} for head in heads]
            last, pending = offset + packed.last, [offset + op for op in packed.pending]
        for i, action in enumerate(actions):
            first[action - start] = offset + packed.heads[i]
            sent[action - start] = offset + packed.sent[i] if packed.sent[i] >= 0 else -1
    more = np.array(links, np.int64).reshape(-1, 2)
    return Row(
        what=_narrow(what), stream=_small(stream), micro=_narrow(micro), before=_small([*before, more[:, 0]]),
        after=_small([*after, more[:, 1]]), first=first, sent=sent,
    )  # fmt: skip


def _small(parts: list[Ints]) -> SmallInts:
    """The parts in one array; a step has fewer than 2**31 ops."""
    return np.concatenate(parts).astype(np.int32)


def _narrow(parts: list[Ints]) -> NarrowInts:
    """The parts in one array of the fewest bytes: a step of all ranks repeats it for each."""
    values = np.concatenate(parts)
    return values.astype(np.min_scalar_type(-1 - int(values.max(initial=0))))


STREAMS = len(Stream)
