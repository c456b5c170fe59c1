"""What one pipeline rank does in a step, op by op."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from podsim.schedules import ScheduleTable, Work
from podsim.simulation.drafts import Catalog, Packed, Ticket, pack
from podsim.simulation.passes import Writer
from podsim.simulation.pieces import Stream

Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Row:
    """All ops of one pipeline rank."""

    what: Ints
    """[n] number of its piece in the catalog"""
    stream: Ints
    """[n] a Stream"""
    micro: Ints
    """[n] micro-batch, -1 for none"""
    before: Ints
    """[e] edges among these ops"""
    after: Ints
    first: Ints
    """[actions] first op of each action of the rank"""
    sent: Ints
    """[actions] op that sends its output on, -1 if none"""


def _passes(table: ScheduleTable, rank: int) -> Iterator[list[tuple[int, bool, bool]]]:
    """Actions of a rank in order, those that run beside each other together: (action, opening, closing)."""
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


def row_of(writer: Writer, catalog: Catalog) -> Row:
    """All ops of a rank; their pieces are entered in the catalog."""
    drafts: dict[tuple[tuple[int, int, bool, bool], ...], Packed] = {}
    script: list[tuple[list[int], Packed]] = [([], pack(writer.opening(), catalog))]
    table = writer.table
    for group in _passes(table, writer.rank):
        key = tuple(
            (int(table.work[a]), int(table.stage[a]), opening, closing) for a, opening, closing in group
        )
        if key not in drafts:
            drafts[key] = pack(writer.together(group), catalog)
        script.append(([a for a, _, _ in group], drafts[key]))
    script.append(([], pack(writer.closing(), catalog)))
    return _assembled(writer, script)


def _assembled(writer: Writer, script: list[tuple[list[int], Packed]]) -> Row:
    """The drafts one after the other, with what links them."""
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
        what=np.concatenate(what), stream=np.concatenate(stream), micro=np.concatenate(micro).astype(np.int64),
        before=np.concatenate([*before, more[:, 0]]), after=np.concatenate([*after, more[:, 1]]), first=first, sent=sent,
    )  # fmt: skip


STREAMS = len(Stream)
