"""A rank or an adapter that fails in the middle of a step: what still runs, who waits for whom.

Nothing before the failure depends on it. What was under way on the failed rank, or with it, never ends; nor does what
waits for that. All else goes on until nothing is left that can. Ops under way that hang keep the work that they had
done: their share of the time that they would have taken.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from podsim.answers.failed import Standing
from podsim.axes import Bools, Floats, Ints, SmallInts
from podsim.errors import SimulationError
from podsim.network.play_program import entries
from podsim.simulation.events import Played, play
from podsim.simulation.lower import Lowered, ranks_text
from podsim.simulation.ops import Ops, Transfers
from podsim.simulation.pieces import Stream
from podsim.simulation.state import by_key
from podsim.simulation.tiling import STREAMS
from podsim.training.plan import Plan


@dataclass(frozen=True, kw_only=True, eq=False)
class Stopped:
    """A play that stops short."""

    lowered: Lowered
    """The ops with the work that is done of them."""
    played: Played
    """The play, in which ops that never run begin and end when all stands still."""
    under_way: tuple[str, ...]
    standing: tuple[Standing, ...]
    hung: float
    """s. The time at which the first hanging exchange began, when its first rank came to it."""


def _class(lowered: Lowered, rank: int) -> int:
    """The class of a rank."""
    return int(lowered.classes.label.ravel()[rank])


def stop(lowered: Lowered, played: Played, plan: Plan, rank: int, time: float) -> Stopped:
    """The same step with a rank that does nothing more from a time on, s."""
    c = _class(lowered, rank)
    owner = _owners(lowered)
    late = played.end > time
    first = (owner == c) & late
    ops = lowered.ops
    # a message to a rank that is gone is never taken
    into = (owner[ops.after] == c) & (owner[ops.before] != c)
    first[ops.before[into]] |= late[ops.before[into]]
    return _stop_ops(lowered, played, plan, first, time, gone=owner == c)


def cut_off(lowered: Lowered, played: Played, plan: Plan, ranks: list[int], time: float) -> Stopped:
    """The same step with ranks that nothing reaches from outside their node from a time on, s."""
    classes = [_class(lowered, rank) for rank in ranks]
    ops = lowered.ops
    used = ops.transfer >= 0 if len(ops.transfer) else np.zeros(len(ops.stream), bool)
    mine = used & np.isin(_owners(lowered), classes)
    links = ops.transfers.routes[1].reshape(-1, 2)
    into = np.zeros(len(ops.stream), bool)
    into[used] = np.isin(links[ops.transfer[used], 1] // 2, classes)
    first = (mine | into) & (played.end > time)
    return _stop_ops(lowered, played, plan, first, time, gone=np.zeros(len(first), bool))


def detour(lowered: Lowered, played: Played, slower: Lowered, time: float) -> Lowered:
    """The same step with slower links from a time on, s; `slower`: the same ops as they are with those links.

    What is on its way then goes on at the new pace with what it has left. Raises nothing: both have the same ops.
    """
    ops, other = lowered.ops, slower.ops
    first, second = ops.transfers, other.transfers
    after = played.start >= time
    pace = _slowdowns(ops, other)
    left = np.clip((played.end - time) / np.maximum(played.end - played.start, 1e-30), 0.0, 1.0)
    seconds = ops.seconds * (1 - left + left * pace)
    links, offset = len(first.capacity), len(first.peak)
    merged = Transfers(
        peak=np.concatenate([first.peak, second.peak]), latency=np.concatenate([first.latency, second.latency]),
        routes=(
            np.concatenate([first.routes[0], second.routes[0][1:] + first.routes[0][-1]]),
            np.concatenate([first.routes[1], second.routes[1] + links]),
        ),
        use=np.concatenate([first.use, second.use]), capacity=np.concatenate([first.capacity, second.capacity]),
    )  # fmt: skip
    moved = ops.transfer >= 0
    return replace(lowered, changed=replace(
        ops, seconds=np.where(after, other.seconds, seconds), transfers=merged,
        transfer=np.where(moved & after, other.transfer + offset, ops.transfer).astype(np.int32),
    ))  # fmt: skip


def _slowdowns(ops: Ops, other: Ops) -> Floats:
    """Times as long as each op takes on the other links."""
    pace = np.ones(len(ops.seconds))
    moved = np.flatnonzero(ops.transfer >= 0)
    speed = [
        np.minimum(t.peak, t.capacity[t.routes[1].reshape(-1, 2)].min(axis=1))
        for t in (ops.transfers, other.transfers)
    ]
    amount = [o.seconds[moved] * o.transfers.peak[o.transfer[moved]] for o in (ops, other)]
    taken = [a / s[o.transfer[moved]] for a, s, o in zip(amount, speed, (ops, other), strict=True)]
    pace[moved] = taken[1] / np.maximum(taken[0], 1e-30)
    return pace


def _owners(lowered: Lowered) -> Ints:
    return np.repeat(np.arange(lowered.classes.count), np.diff(lowered.base))


def _stop_ops(
    lowered: Lowered, played: Played, plan: Plan, first: Bools, time: float, *, gone: Bools
) -> Stopped:
    """`gone`: ops of the rank that does nothing more; others hang until all stand still."""
    ops = lowered.ops
    never = _blocked_ops(ops, first)
    hangs = never & (played.start < time)
    share = np.where(
        hangs, np.clip((time - played.start) / np.maximum(played.end - played.start, 1e-30), 0, 1), 1.0
    )
    kept = ~never | hangs
    part = play(_keep_ops(ops, kept, np.where(hangs, -1, _joins(ops)), ops.seconds * share))
    still = float(part.end[~never[kept]].max(initial=time))
    start, end = np.full(len(never), still), np.full(len(never), still)
    start[kept] = part.start
    end[~never] = part.end[~never[kept]]
    end[hangs & gone] = time
    why = np.full(len(never), -1, np.int32)
    places = np.flatnonzero(kept)
    why[kept] = np.where(part.why >= 0, places[np.maximum(part.why, 0)], -1)
    done = replace(ops, seconds=np.where(never & ~hangs, 0.0, ops.seconds * share))
    partial = Played(begun=start, end=end, why=why, seconds=still, solved=part.solved)
    lowered = replace(lowered, changed=done)
    standing = _standstills(lowered, plan, never, partial)
    exchanged = hangs & (ops.stream % STREAMS != Stream.COMPUTE)
    waiting = [wait.since for wait in standing if wait.waits_for]
    return Stopped(
        lowered=lowered, played=partial, under_way=_hanging_ops(lowered, plan, hangs), standing=standing,
        hung=float(min([*start[exchanged], *waiting], default=time)),
    )  # fmt: skip


def _joins(ops: Ops) -> SmallInts:
    return ops.join if len(ops.join) else np.full(len(ops.stream), -1, np.int32)


def _keep_ops(ops: Ops, kept: Bools, join: SmallInts, seconds: Floats) -> Ops:
    """Some of the ops, with all edges among them."""
    number = np.cumsum(kept) - 1
    inside = kept[ops.before] & kept[ops.after]
    numbers = np.full(int(kept.sum()), -1, np.int32)
    met = join[kept] >= 0
    numbers[met] = np.unique(join[kept][met], return_inverse=True)[1]
    return replace(
        ops, stream=ops.stream[kept], seconds=seconds[kept], before=number[ops.before[inside]].astype(np.int32),
        after=number[ops.after[inside]].astype(np.int32), join=numbers,
        transfer=ops.transfer[kept] if len(ops.transfer) else ops.transfer,
    )  # fmt: skip


def _blocked_ops(ops: Ops, first: Bools) -> Bools:
    """The ops that never end: these, those that wait for them, later ones on their streams, and the others of their
    joins.
    """
    n = len(ops.stream)
    order = np.argsort(ops.stream, kind="stable")
    same = ops.stream[order][1:] == ops.stream[order][:-1]
    join = _joins(ops).astype(np.int64)
    joined = np.flatnonzero(join >= 0)
    meeting = n + join[joined]  # a join is one more node: whoever never comes to it holds up all others
    pointer, after = by_key(
        np.concatenate([ops.before, order[:-1][same], joined, meeting]),
        np.concatenate([ops.after, order[1:][same], meeting, joined]),
        n + int(join.max(initial=-1)) + 1,
    )
    marked = np.zeros(len(pointer) - 1, bool)
    reached = np.flatnonzero(first)
    while len(reached):
        marked[reached] = True
        following = after[entries(pointer, reached)[1]]
        reached = np.unique(following[~marked[following]])
    return marked[:n]


def _hanging_ops(lowered: Lowered, plan: Plan, hangs: Bools) -> tuple[str, ...]:
    """Ops that had begun and never end, in words."""
    owner = _owners(lowered)
    return tuple(
        dict.fromkeys(
            f"{ranks_text(lowered.classes, plan, int(owner[op]))}: {lowered.pieces[int(lowered.what[op])].name}"
            for op in np.flatnonzero(hangs)
        )
    )


def _standstills(lowered: Lowered, plan: Plan, never: Bools, played: Played) -> tuple[Standing, ...]:
    """Since when each class stands still, at what, and for whom; in the order in which they stop."""
    ops, owner, join = lowered.ops, _owners(lowered), _joins(lowered.ops)
    sources: dict[int, list[int]] = {}
    for a, z in zip(
        ops.before[never[ops.before]].tolist(), ops.after[never[ops.before]].tolist(), strict=True
    ):
        sources.setdefault(z, []).append(a)
    heads: dict[int, int] = {}
    for op in np.flatnonzero(never).tolist():
        heads.setdefault(int(ops.stream[op]), op)
    out = []
    for c in range(lowered.classes.count):
        ran = np.flatnonzero((owner == c) & ~never)
        since = float(played.end[ran].max(initial=0.0))
        blocked = [op for stream, op in heads.items() if stream // STREAMS == c]
        if not blocked:
            continue
        op, other = _blockers(blocked, c, owner, join, sources, heads, ops.stream)
        out.append(
            Standing(
                ranks=ranks_text(lowered.classes, plan, c),
                since=since,
                op=lowered.pieces[int(lowered.what[op])].name,
                waits_for="" if other < 0 else ranks_text(lowered.classes, plan, other),
            )
        )
    return tuple(sorted(out, key=lambda wait: wait.since))


def _blockers(
    blocked: list[int], c: int, owner: Ints, join: SmallInts, sources: dict[int, list[int]], heads: dict[int, int],
    stream: SmallInts,
) -> tuple[int, int]:  # fmt: skip
    """(the op that a class is held up at, the class that it waits for: -1 for none)."""
    for op in sorted(blocked):
        for source in sources.get(op, []):
            if owner[source] != c:
                return op, int(owner[source])
        if any(owner[source] == c for source in sources.get(op, [])):
            continue  # held up by what another of its own streams is held up at
        if join[op] >= 0:
            absent = [
                int(owner[other]) for other in np.flatnonzero(join == join[op]).tolist()
                if owner[other] != c and heads[int(stream[other])] != other
            ]  # fmt: skip
            present = [int(owner[o]) for o in np.flatnonzero(join == join[op]).tolist() if owner[o] != c]
            return op, (absent or present or [-1])[0]
    return min(blocked), -1


def outside_step_error(time: float, seconds: float) -> SimulationError:
    """A failure that the step does not see."""
    return SimulationError(
        f"a failure after {time:g} s: the step is over after {seconds:g} s; give a time from 0 to less than that"
    )
