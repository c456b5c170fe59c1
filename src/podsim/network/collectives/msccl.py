"""Tables to and from MSCCL's XML: programs for its interpreter inside NCCL, as msccl-tools writes them.

    algo  name proto nchannels nchunksperloop ngpus coll inplace
      gpu   id i_chunks o_chunks s_chunks         input, output and scratch buffer
        tb    id send recv chan                   a thread block: one peer to send to, one to receive from
          step  s type srcbuf srcoff dstbuf dstoff cnt depid deps hasdep

Source: github.com/microsoft/msccl-tools, msccl/language/ir.py. Steps have no common clock there: a step runs when the
one before it in its thread block has, and the step `deps` of thread block `depid`; a receive takes what the peer
sent first. Reading gives each transfer the earliest step that this order allows.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree as Xml

import numpy as np

from podsim.errors import TableError
from podsim.network.collectives.msccl_read import Machine, Tick
from podsim.network.collectives.prove import check_rows
from podsim.network.collectives.table import ROW_FIELDS, Ints, Table, expand, make_table
from podsim.quoting import visible

LARGEST = 64 << 20
"""characters of XML that are read"""
MOST_CHUNKS = 1 << 24
"""chunks of all ranks together that are read"""
NO_ROWS: dict[str, list[int]] = {"step": [], "source": [], "destination": [], "chunk": []}
NAMES = {
    "all-reduce": "allreduce", "reduce-scatter": "reduce_scatter", "reduce": "reduce", "all-gather": "allgather",
    "broadcast": "broadcast", "gather": "gather", "scatter": "scatter", "all-to-all": "alltoall", "send-recv": "sendrecv",
}  # fmt: skip
PERSONAL = ("gather", "scatter", "all-to-all", "send-recv")
"""a chunk lies in the input of its home, the output of its goal, and in scratch on the way"""


@dataclass(kw_only=True)
class _Block:
    """A thread block while it is written."""

    number: int
    attributes: dict[str, str]
    steps: list[dict[str, str]] = field(default_factory=list)


class _Places:
    """Buffer and offset of each chunk at each rank."""

    def __init__(self, table: Table, order: Ints) -> None:
        self.table, self.order = table, order
        self.scratch: dict[int, dict[int, int]] = defaultdict(dict)
        self.personal = table.collective in PERSONAL
        self.work = "o" if table.collective == "all-gather" or np.any(table.own) else "i"
        self.rank_of = {"i": _owner_index(table.home), "o": _owner_index(table.goal)}

    def __call__(self, rank: int, chunk: int) -> tuple[str, int]:
        """Where a rank keeps a chunk."""
        if not self.personal:
            return self.work, int(self.order[chunk])
        if self.table.home[chunk] == rank:
            return "i", int(self.rank_of["i"][chunk])
        if self.table.goal[chunk] == rank:
            return "o", int(self.rank_of["o"][chunk])
        mine = self.scratch[rank]
        return "s", mine.setdefault(chunk, len(mine))


def _owner_index(owner: Ints) -> Ints:
    """The position of each chunk among its owner's."""
    index = np.empty(len(owner), np.int64)
    for rank in np.unique(owner):
        mine = np.flatnonzero(owner == rank)
        index[mine] = np.arange(len(mine))
    return index


def _refuse(table: Table) -> Ints:
    """The order of chunks in the buffers; raises TableError for what MSCCL cannot say."""
    check_rows(table)
    if table.switches:
        raise TableError(f"{table.name}: {table.switches} switches; MSCCL has ranks only")
    if np.any(table.sizes != table.sizes[0]):
        raise TableError(f"{table.name}: chunks of different sizes; MSCCL has equal ones")
    ends = make_table("", table.collective, NO_ROWS, ranks=table.ranks, chunks=table.chunks)
    owner = {"all-gather": table.home, "reduce-scatter": table.goal}.get(table.collective)
    if owner is None:
        if not (np.array_equal(ends.home, table.home) and np.array_equal(ends.goal, table.goal)):
            raise TableError(
                f"{table.name}: chunks start or end elsewhere than is usual (root 0); MSCCL cannot say so"
            )
        return np.arange(table.chunks)
    if not np.array_equal(
        np.bincount(owner, minlength=table.ranks), np.full(table.ranks, table.chunks / table.ranks)
    ):
        raise TableError(f"{table.name}: ranks own different numbers of chunks; MSCCL has equal ones")
    order = np.empty(table.chunks, np.int64)
    order[np.argsort(owner, kind="stable")] = np.arange(table.chunks)
    return order


def _rows(table: Table, order: Ints) -> Table:
    """Every transfer as its own row, in order of steps; of one chunk each where chunks do not stay neighbours."""
    flat, _ = expand(table)
    if table.collective not in PERSONAL and np.array_equal(order, np.arange(table.chunks)):
        return flat
    index = np.repeat(np.arange(len(flat.step)), flat.count)
    shift = np.arange(len(index)) - np.repeat(np.cumsum(flat.count) - flat.count, flat.count)
    columns: dict[str, Any] = {key: getattr(flat, key)[index] for key in ROW_FIELDS}
    columns.update(chunk=flat.chunk[index] + shift, count=np.ones(len(index), np.int64))
    return replace(flat, **columns)


def to_msccl(table: Table, *, protocol: str = "Simple") -> str:
    """The table as MSCCL XML. Raises TableError for switches, uneven chunks, and roots other than rank 0."""
    order = _refuse(table)
    rows, slots = _rows(table, order), _Places(table, order)
    blocks: dict[int, dict[tuple[str, int, int], _Block]] = defaultdict(dict)

    def block(rank: int, kind: str, peer: int, channel: int) -> _Block:
        mine = blocks[rank]
        return mine.setdefault((kind, peer, channel), _Block(number=len(mine), attributes={
            "send": str(peer if kind == "send" else -1), "recv": str(peer if kind == "recv" else -1),
            "chan": str(channel),
        }))  # fmt: skip

    wrote: dict[tuple[int, int], tuple[int, int]] = {}
    read: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    if np.any(table.own):
        for rank in range(table.ranks):
            done = _add(block(rank, "copy", -1, 0), "cpy", ("i", 0), ("o", 0), table.chunks, [])
            wrote.update({(rank, chunk): done for chunk in range(table.chunks)})
    for now in _step_groups(rows):
        received = []
        for r in now:
            source, to, count = int(rows.source[r]), int(rows.destination[r]), int(rows.count[r])
            chunks = range(int(rows.chunk[r]), int(rows.chunk[r]) + count)
            here, there = slots(source, chunks[0]), slots(to, chunks[0])
            here = ("i", here[1]) if rows.own[r] else here
            needs = (
                [] if rows.own[r] else [wrote[source, chunk] for chunk in chunks if (source, chunk) in wrote]
            )
            at = _add(block(source, "send", to, int(rows.channel[r])), "s", here, there, count, needs)
            for chunk in chunks:
                read[source, chunk].append(at)
            received.append((r, source, to, chunks, here, there))
        for r, source, to, chunks, here, there in received:
            needs = [need for chunk in chunks for need in read.pop((to, chunk), [])]
            needs += [wrote[to, chunk] for chunk in chunks if (to, chunk) in wrote]
            kind, origin = ("rrc", there) if rows.reduce[r] else ("r", here)
            done = _add(
                block(to, "recv", source, int(rows.channel[r])), kind, origin, there, len(chunks), needs
            )
            wrote.update({(to, chunk): done for chunk in chunks})
    return _document(table, protocol, blocks, slots)


def _step_groups(rows: Table) -> list[range]:
    cuts = [0, *(np.flatnonzero(np.diff(rows.step)) + 1).tolist(), len(rows.step)]
    return [range(a, b) for a, b in pairwise(cuts) if b > a]


def _add(
    block: _Block,
    kind: str,
    source: tuple[str, int],
    to: tuple[str, int],
    count: int,
    needs: list[tuple[int, int]],
) -> tuple[int, int]:
    """Append a step that waits for others (all but the last by steps that do nothing); (thread block, step)."""
    outside = sorted({need for need in needs if need[0] != block.number})
    for need in outside[:-1]:
        _step(block, "nop", ("i", -1), ("o", -1), 0, need)
    _step(block, kind, source, to, count, outside[-1] if outside else (-1, -1))
    return block.number, len(block.steps) - 1


def _step(
    block: _Block, kind: str, source: tuple[str, int], to: tuple[str, int], count: int, need: tuple[int, int]
) -> None:
    block.steps.append({
        "s": str(len(block.steps)), "type": kind, "srcbuf": source[0], "srcoff": str(source[1]), "dstbuf": to[0],
        "dstoff": str(to[1]), "cnt": str(count), "depid": str(need[0]), "deps": str(need[1]), "hasdep": "0",
    })  # fmt: skip


def _document(
    table: Table, protocol: str, blocks: dict[int, dict[tuple[str, int, int], _Block]], slots: _Places
) -> str:
    channels = int(table.channel.max(initial=0)) + 1
    inplace = "0" if slots.personal or np.any(table.own) else "1"
    algo = Xml.Element("algo", {
        "name": visible(table.name), "proto": protocol, "nchannels": str(channels), "nchunksperloop": str(table.chunks),
        "ngpus": str(table.ranks), "coll": NAMES[table.collective], "inplace": inplace,
    })  # fmt: skip
    for rank in range(table.ranks):
        sizes = {
            buffer: int(np.sum(owner == rank)) if slots.personal else table.chunks
            for buffer, owner in (("i_chunks", table.home), ("o_chunks", table.goal))
        }
        sizes["s_chunks"] = len(slots.scratch[rank])
        gpu = Xml.SubElement(
            algo, "gpu", {"id": str(rank), **{key: str(size) for key, size in sizes.items()}}
        )
        owners = {(need["depid"], need["deps"]) for mine in blocks[rank].values() for need in mine.steps}
        for mine in blocks[rank].values():
            tb = Xml.SubElement(gpu, "tb", {"id": str(mine.number), **mine.attributes})
            for step in mine.steps:
                step["hasdep"] = str(int((str(mine.number), step["s"]) in owners))
                Xml.SubElement(tb, "step", step)
    Xml.indent(algo)
    return Xml.tostring(algo, encoding="unicode")


def _number(element: Xml.Element, key: str, default: int | None = None) -> int:
    text = element.get(key)
    if text is None and default is not None:
        return default
    try:
        return int(text or "")
    except ValueError:
        raise TableError(
            f"MSCCL: <{element.tag}> has {key}={(text or '')[:40]!r}; a whole number is needed"
        ) from None


def _parse(text: str) -> Xml.Element:
    if len(text) > LARGEST:
        raise TableError(f"MSCCL: {len(text)} characters; at most {LARGEST}")
    if re.search(r"<!(?!--)", text):
        raise TableError("MSCCL: a document type or entity declaration; none is needed and none is read")
    try:
        algo = Xml.fromstring(text)
    except Xml.ParseError as error:
        raise TableError(f"MSCCL: not XML: {error}") from None
    if algo.tag != "algo":
        raise TableError(f"MSCCL: the document is a <{algo.tag[:40]}>; an <algo> is needed")
    return algo


def from_msccl(text: str) -> Table:
    """The table of an MSCCL XML document.

    Raises TableError, naming the rank, thread block and step: not XML, a declaration of entities, a number or an
    attribute missing, an unknown type of step, a deadlock (steps that wait for each other, or for a message that nobody
    sends), and what a table cannot say (a sum of different chunks, a local reduction of what was not received).
    """
    algo = _parse(text)
    ranks, coll = _number(algo, "ngpus"), algo.get("coll", "")
    names = {name: key for key, name in NAMES.items()} | {"reducescatter": "reduce-scatter"}
    if coll not in names:
        raise TableError(f"MSCCL: coll={coll[:40]!r}; known: {', '.join(names)}")
    if not 1 <= ranks <= 1 << 16:
        raise TableError(f"MSCCL: ngpus={ranks}; 1 to {1 << 16} are read")
    collective = names[coll]
    chunks = _number(algo, "nchunksperloop")
    if chunks < 1 or ranks * chunks > MOST_CHUNKS:
        raise TableError(
            f"MSCCL: nchunksperloop={chunks} for {ranks} ranks; at least 1, and {MOST_CHUNKS} in all are read"
        )
    blank = make_table(
        algo.get("name", "msccl"),
        collective,
        NO_ROWS,
        ranks=ranks,
        chunks=chunks,
    )
    apart = _number(algo, "inplace", 1) == 0 and collective not in PERSONAL
    machine = Machine(blank, own_input=apart, personal=collective in PERSONAL)
    for gpu in algo.iter("gpu"):
        rank = _number(gpu, "id")
        if not 0 <= rank < ranks:
            raise TableError(f"MSCCL: gpu id={rank}; there are ranks 0 to {ranks - 1}")
        for tb in gpu.iter("tb"):
            ticks = [_tick(step) for step in tb.iter("step")]
            machine.add(
                rank,
                _number(tb, "id"),
                _number(tb, "send", -1),
                _number(tb, "recv", -1),
                _number(tb, "chan", 0),
                ticks,
            )
    return machine.run()


def _tick(step: Xml.Element) -> Tick:
    return Tick(
        kind=step.get("type", ""), source=step.get("srcbuf", "i"), source_at=_number(step, "srcoff", 0),
        to=step.get("dstbuf", "o"), to_at=_number(step, "dstoff", 0), cnt=_number(step, "cnt", 1),
        block=_number(step, "depid", -1), step=_number(step, "deps", -1),
    )  # fmt: skip
