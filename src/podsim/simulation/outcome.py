"""The result of a simulated step: when everything ran, where the time went, the critical path, the load of links.

Memory of each rank over a step: what it holds all the time, and what passes leave and free.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from podsim.answers.simulated import CriticalOps, LinkUse, SimulatedStep
from podsim.answers.timeline import Counter, Lane, Timeline
from podsim.axes import Bools, Floats, Ints
from podsim.hardware.cluster import Cluster
from podsim.schedules.actions import Work
from podsim.simulation.events import Played, critical_path
from podsim.simulation.lower import Lowered, ranks_text
from podsim.simulation.lower_links import adapter_rate
from podsim.simulation.pieces import Stream
from podsim.simulation.replayed_parts import step_parts
from podsim.simulation.tiling import STREAMS
from podsim.training.batch import cost_slice
from podsim.training.memory import KINDS
from podsim.training.pipeline_stages import held_blocks, part_blocks
from podsim.training.plan import Plan
from podsim.training.plan_values import Recompute
from podsim.training.software import load_software, usable_bytes
from podsim.training.step import SPLIT
from podsim.workload.model import Model

_NAMES = {
    Stream.COMPUTE: "compute", Stream.GROUP: "tp, cp, ep", Stream.AHEAD: "send ahead", Stream.BACK: "send back",
    Stream.DATA: "dp",
}  # fmt: skip
_CARRIED = {"send": "pp", "tp beside": "tp"}
"""kinds of op as links tell them"""
WAITS = {"tp": "tp", "tp beside": "tp", "cp": "cp", "ep": "ep", "dp": "dp"}
"""what a rank that waits for an op of a kind waits for"""


def outcome(
    model: Model, cluster: Cluster, plan: Plan, lowered: Lowered, played: Played, closed_form: float,
    *, is_whole: bool = True, folded: Lowered | None = None,
) -> SimulatedStep:  # fmt: skip
    """The result of one step. Spans of the compute lane fill it from start to end, waiting named by its cause.

    A step that is not whole never ends, so it has no parts. `folded`: the step with equal ranks as classes, whose parts
    are the same.
    """
    parts = step_parts(folded or lowered, played, plan) if is_whole else {}
    memory, counters = memory_counters(lowered, played, plan)
    copies = lowered.classes.copies
    return SimulatedStep(
        model=model.name, cluster=cluster.name, plan=plan.describe(), gpus=int(plan.gpus), step_time=played.seconds,
        closed_form=closed_form, parts=parts,
        bubble=_bubble_ratio(parts), ranks=lowered.classes.count, ops=int(lowered.base[-1]),
        represented=int((np.diff(lowered.base) * copies).sum()),
        make_timeline=lambda: _timeline(lowered, played, plan, all_gaps(lowered, played), counters),
        links=_links(lowered, played, plan, adapter_rate(cluster)), critical=_critical(lowered, played, plan),
        memory=memory, memory_limit=usable_bytes(cluster.gpu, load_software(plan.software, cluster.gpu)),
    )  # fmt: skip


class Gaps(NamedTuple):
    """Times in which compute streams wait: rows of (class, start, end, part of the step it is put down to)."""

    owner: Ints
    start: Floats
    end: Floats
    part: Ints


def _ops_of(lowered: Lowered, stream: Stream) -> tuple[Ints, Ints]:
    """(ops of a stream of all classes, the class of each)."""
    ops = _ops_where(lowered, [row.stream == stream for row in lowered.rows])
    return ops, lowered.ops.stream[ops].astype(np.int64) // STREAMS


def all_gaps(lowered: Lowered, played: Played) -> Gaps:
    """Waiting on the compute streams of all classes, to the end of the step, by what ended it.

    A wait for what a neighbour sends counts as "pp" while that is on its way, and as bubble before. One for exchanges
    counts as "dp" as long as the rank exchanges something, and as bubble while a rank that comes late holds them up.
    """
    compute, owner = _ops_of(lowered, Stream.COMPUTE)
    start, end = played.start[compute], played.end[compute]
    before = np.concatenate([[0.0], end[:-1]])
    before[np.concatenate([[True], owner[1:] != owner[:-1]])] = 0.0
    waits = np.flatnonzero(start > before)
    cause = played.why[compute[waits]]
    kinds = np.array([_cause(piece.kind) for piece in lowered.pieces])
    kind = np.where(cause >= 0, kinds[lowered.what[np.maximum(cause, 0)]], SPLIT.index("bubble"))
    low, high, who = before[waits], start[waits], owner[waits]
    sends, exchanges = (kind == SPLIT.index(name) for name in ("pp", "dp"))
    left = np.where(sends, np.clip(played.start[np.maximum(cause, 0)], low, high), low)
    under_way = _exchange_seconds(lowered, played, who[exchanges], (low[exchanges], high[exchanges]))
    left[exchanges] = np.clip(high[exchanges] - under_way, low[exchanges], high[exchanges])
    last = np.concatenate([owner[1:] != owner[:-1], [True]])
    rest = np.full(int(last.sum()), SPLIT.index("bubble"))
    columns = (
        (who, low, left, np.full(len(who), SPLIT.index("bubble"))),
        (who, left, high, kind),
        (owner[last], end[last], np.full(len(rest), played.seconds), rest),
    )
    joined = [np.concatenate(column) for column in zip(*columns, strict=True)]
    wide = joined[2] > joined[1]
    return Gaps(*(column[wide] for column in joined))


def _exchange_seconds(lowered: Lowered, played: Played, owner: Ints, times: tuple[Floats, Floats]) -> Floats:
    """Seconds between two times in which the DATA stream of each one's class has something under way."""
    data, of = _ops_of(lowered, Stream.DATA)
    apart = 2 * max(played.seconds, 1e-30)  # times of one class after those of another
    start, end = played.start[data] + of * apart, played.end[data] + of * apart
    done = np.concatenate([[0.0], np.cumsum(played.end[data] - played.start[data])])

    def busy_until(time: Floats) -> Floats:
        begun = np.searchsorted(start, time, side="right")
        rest = np.maximum(end[np.maximum(begun - 1, 0)] - time, 0.0) if len(data) else np.zeros(len(time))
        return np.asarray(done[begun] - np.where(begun > 0, rest, 0.0))

    low, high = times
    return busy_until(high + owner * apart) - busy_until(low + owner * apart)


def _cause(kind: str) -> int:
    return SPLIT.index("pp" if kind == "send" else WAITS.get(kind, "bubble"))


def _bubble_ratio(parts: Mapping[str, float]) -> float:
    """The share of the bubble in the time between first and last pass; 0 for a step that never ends."""
    passes = sum(parts.values()) - parts.get("optimizer", 0.0) - parts.get("host", 0.0)
    return parts.get("bubble", 0.0) / max(passes, 1e-30)


def _process_name(lowered: Lowered, plan: Plan, c: int) -> str:
    return f"stage {int(lowered.classes.first[c, 0])}: {ranks_text(lowered.classes, plan, c)}"


def _timeline(lowered: Lowered, played: Played, plan: Plan, gaps: Gaps, counters: list[Counter]) -> Timeline:
    """Spans of every op, and of the compute streams' waiting."""
    stream = lowered.ops.stream
    used = np.unique(stream)
    lane_of = np.full(int(stream.max()) + 1, -1)
    lane_of[used] = np.arange(len(used))
    lanes = tuple(
        Lane(
            process=_process_name(lowered, plan, int(s) // STREAMS), name=_NAMES[Stream(int(s) % STREAMS)],
            copies=int(lowered.classes.copies[int(s) // STREAMS]),
        )
        for s in used
    )  # fmt: skip
    names = [*dict.fromkeys(piece.name for piece in lowered.pieces), "wait"]
    kinds = list(dict.fromkeys([*(piece.kind for piece in lowered.pieces), *SPLIT]))
    name_of = np.array([names.index(piece.name) for piece in lowered.pieces])
    kind_of = np.array([kinds.index(piece.kind) for piece in lowered.pieces])
    part_of = np.array([kinds.index(part) for part in SPLIT])
    long = played.end > played.start
    what = lowered.what[long]
    waits = len(gaps.owner)
    return Timeline(
        lanes=lanes, names=tuple(names), kinds=tuple(kinds),
        lane=np.concatenate([lane_of[stream[long]], lane_of[gaps.owner * STREAMS + Stream.COMPUTE]]),
        name=np.concatenate([name_of[what], np.full(waits, len(names) - 1)]),
        kind=np.concatenate([kind_of[what], part_of[gaps.part]]),
        start=np.concatenate([played.start[long], gaps.start]), end=np.concatenate([played.end[long], gaps.end]),
        arguments={"micro_batch": np.concatenate([lowered.micro[long], np.full(waits, -1)])}, counters=tuple(counters),
    )  # fmt: skip


def _critical(lowered: Lowered, played: Played, plan: Plan) -> tuple[CriticalOps, ...]:
    """Ops of the critical path by name and place, longest first."""
    path = critical_path(played)
    seconds: dict[tuple[str, str, str], float] = defaultdict(float)
    count: dict[tuple[str, str, str], int] = defaultdict(int)
    owners = np.searchsorted(lowered.base, path, side="right") - 1
    what, stream = (
        lowered.of_rows([getattr(row, name) for row in lowered.rows], path).tolist()
        for name in ("what", "stream")
    )
    taken = played.end[path] - played.starts(path)
    for op, (c, number) in enumerate(zip(owners.tolist(), what, strict=True)):
        piece = lowered.pieces[number]
        where = f"stage {int(lowered.classes.first[c, 0])}, {_NAMES[Stream(stream[op])]}"
        key = (piece.name, piece.kind, where)
        seconds[key] += float(taken[op])
        count[key] += 1
    order = sorted((key for key in seconds if seconds[key] > 0), key=lambda key: -seconds[key])
    return tuple(
        CriticalOps(name=key[0], kind=key[1], where=key[2], count=count[key], seconds=seconds[key])
        for key in order
    )


def _links(lowered: Lowered, played: Played, plan: Plan, line_rate: float) -> tuple[LinkUse, ...]:
    """What each class's adapters carried, busiest first; `line_rate`: B/s of an adapter.

    Collectives of tensor, context and expert groups do not share links in the play; what leaves a node is counted here.
    """
    tiled, bytes_ = (
        lowered.tiled,
        np.array([p.bytes if p.stream == Stream.GROUP else 0.0 for p in lowered.pieces]),
    )
    transfers = (lowered.changed or tiled).transfers
    wired = _ops_where(lowered, [row.transfer >= 0 for row in tiled.rows])
    alone = _ops_where(lowered, [bytes_[row.what] > 0.0 for row in lowered.rows])
    alone = alone[played.end[alone] > played.starts(alone)]
    moved = np.concatenate([wired, alone])
    if not len(moved):
        return ()
    kinds = [_CARRIED.get(piece.kind, piece.kind) for piece in lowered.pieces]
    names = sorted(set(kinds))
    what = lowered.of_rows([row.what for row in lowered.rows], moved)
    kind = np.array([names.index(kind) for kind in kinds], np.int16)[what]
    if lowered.changed is not None or tiled.seconds is not None:
        transfer, seconds = lowered.ops.transfer[wired], lowered.ops.seconds[wired]
    else:
        owner = np.searchsorted(lowered.base, wired, side="right") - 1
        transfer = owner * tiled.kinds + lowered.of_rows([row.transfer for row in tiled.rows], wired)
        seconds = lowered.of_rows([row.seconds for row in tiled.rows], wired)
    amount = np.concatenate([seconds * transfers.peak[transfer], bytes_[what[len(wired) :]]])
    start, end = played.starts(moved), played.end[moved]
    own = np.searchsorted(lowered.base, alone, side="right") - 1
    routes = transfers.routes[1].reshape(-1, 2)[transfer]
    ways = np.concatenate([routes, np.stack([2 * own, 2 * own + 1], axis=1)])
    out = []
    known: dict[tuple[object, ...], LinkUse] = {}  # equal ranks load their links alike
    for way, text in ((0, "out of"), (1, "into")):
        link = ways[:, way].astype(np.min_scalar_type(int(ways.max())))  # the smaller, the faster sorted
        order = np.argsort(link, kind="stable")
        numbers, first = np.unique(link[order], return_index=True)
        for number, chosen in zip(numbers.tolist(), np.split(order, first[1:]), strict=True):
            c = number // 2 % lowered.classes.count  # links after a failure follow those before it
            later = " since it failed" if number // 2 >= lowered.classes.count else ""
            name = f"{text} {_process_name(lowered, plan, c)}{later}"
            copies = int(lowered.classes.copies[c])
            capacity = float(transfers.capacity[number]) if len(transfers.capacity) else line_rate
            columns = kind[chosen], amount[chosen], start[chosen], end[chosen]
            key = (capacity, *(column.tobytes() for column in columns))
            use = known.get(key) or link_use(name, copies, capacity, (names, columns[0]), *columns[1:])
            known[key] = use
            out.append(replace(use, name=name, copies=copies))
    return tuple(sorted(out, key=lambda use: -use.bytes))


def _ops_where(lowered: Lowered, chosen: list[Bools]) -> Ints:
    """The ops of all classes that are chosen in their rows."""
    places = [np.flatnonzero(row) for row in chosen]
    starts = zip(lowered.row_of.tolist(), lowered.base[:-1].tolist(), strict=True)
    return np.concatenate([places[r] + start for r, start in starts])


def link_use(
    name: str,
    copies: int,
    capacity: float,
    kinds: tuple[list[str], NDArray[np.integer[Any]]],
    amount: Floats,
    start: Floats,
    end: Floats,
) -> LinkUse:
    """One link's load: each transfer's bytes spread evenly over its time; `kinds`: (names, the kind of each transfer)."""
    names, kind = kinds
    time, both = np.unique(np.concatenate([start, end]), return_inverse=True)
    first, last = both[: len(start)], both[len(start) :]
    speed = amount / np.maximum(end - start, 1e-30)
    rates, carried = {}, {}
    for number in np.flatnonzero(np.bincount(kind)).tolist():
        mine = kind == number
        change = np.bincount(first[mine], speed[mine], len(time)) - np.bincount(
            last[mine], speed[mine], len(time)
        )
        rates[names[number]] = np.maximum(np.cumsum(change), 0.0)
        carried[names[number]] = float(amount[mine].sum())
    total = np.sum(list(rates.values()), axis=0)
    busy = float(np.diff(time)[total[:-1] > 1e-6 * capacity].sum())
    return LinkUse(
        name=name, copies=copies, capacity=capacity, bytes=float(amount.sum()), busy=busy, carried=carried, time=time,
        rate=total, rates=rates,
    )  # fmt: skip


def memory_counters(lowered: Lowered, played: Played, plan: Plan) -> tuple[float, list[Counter]]:
    """(B at the high water of the fullest rank, memory of each class over time).

    What does not change in a step is what the closed form says of the class's stage; activations come with each
    forward pass and go with its backward pass (with its gradient of the weights, where these are apart).
    """
    static = _static_bytes(lowered, plan)
    kept = _activation_bytes(lowered, plan)
    high, counters = 0.0, []
    sign = np.array([1.0, -1.0, 0.0, -1.0])
    for c in range(lowered.classes.count):
        rank = int(lowered.classes.first[c, 0])
        table = lowered.tables[int(lowered.row_of[c]) // lowered.table.ranks]
        actions = np.arange(table.pointer[rank], table.pointer[rank + 1])
        begin = played.starts(lowered.base[c] + lowered.rows[int(lowered.row_of[c])].first)
        work, part = table.work[actions], table.stage_part[table.stage[actions]]
        # what a pass frees is free when those after it begin, and not while one runs beside it
        apart = np.flatnonzero(~table.beside[actions])
        following = np.searchsorted(apart, np.arange(len(actions)), side="right")
        after = np.append(begin[apart], played.seconds)[following]
        time = np.where(work == Work.FORWARD, begin, after)
        order = np.lexsort((work == Work.FORWARD, time))
        moved = np.where(begin < played.seconds, sign[work] * kept[part], 0.0)  # others never run: a failure
        value = static[rank] + np.cumsum(moved[order])
        high = max(high, float(value.max(initial=static[rank])))
        counters.append(
            Counter(
                name="memory", process=f"stage {rank}: {ranks_text(lowered.classes, plan, c)}", unit="B",
                time=time[order], value=value,
            )
        )  # fmt: skip
    return high, counters


def _static_bytes(lowered: Lowered, plan: Plan) -> Floats:
    """B of each pipeline rank without the activations of its micro-batches (but with the layer computed again)."""
    model = lowered.ready.model
    cost = cost_slice(lowered.ready, slice(0, 1))
    counts = lowered.ready.stages.table.blocks[..., 0]  # [stage, block]
    held = held_blocks(
        model.order, len(model.kinds), int(plan.pp), int(plan.virtual_stages), int(plan.placement)
    )
    stage = (held[:, None] == counts[None]).all(axis=-1).argmax(axis=1)
    kinds = cost.stages[:, stage, 0]  # [kind, rank]
    kept = lowered.ready.activations.table.kept[..., 0]  # [rank, block]
    working = float(kept[Recompute.NONE, 1:-1].max()) if int(plan.recompute) == Recompute.FULL else 0.0
    return np.asarray(kinds.sum(axis=0) - kinds[KINDS.index("activations")] + working)


def _activation_bytes(lowered: Lowered, plan: Plan) -> Floats:
    """B that one micro-batch's forward pass leaves, of each model part."""
    model = lowered.ready.model
    kept = lowered.ready.activations.table.kept[..., 0]  # [rank, block]
    mode = int(plan.recompute)
    held_bytes = kept[mode]
    if mode == Recompute.FULL and int(plan.recompute_layers):
        layers = -(-model.layer_count // int(plan.pp))
        share = min(int(plan.recompute_layers) / layers, 1.0)
        held_bytes = share * held_bytes + (1 - share) * kept[Recompute.NONE]
    parts = part_blocks(model.order, len(model.kinds), lowered.table.parts)
    return np.array([float(held_bytes[list(part)].sum()) for part in parts])
