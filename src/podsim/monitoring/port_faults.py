"""Faults that the record of a run shows: ports and ranks that differ from their peers or from the plan.

Each rule reads what an operator could read: counters, cables, queues, rates and laps. A port is slow if traffic waits for
it while it carries less than it could. A full port of a switch with emptier ports beside it is a clash. A rank is late if
its laps are longer than those of its peers, and hot if they grow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby, islice

import numpy as np
from numpy.typing import NDArray

from podsim.answers.telemetry import Fault, PortRow, Telemetry
from podsim.units import format_quantity

SLOW_PORT = 0.85
"""The share of its capacity below which a port with waiting traffic is slow."""
CLASHED = 0.03
"""The share of its busy time in which traffic waits for a full port of a switch."""
WAITING = {"simulated": 0.1}
"""The share of its busy time in which traffic waits for a slow port, by source; real queues also hold short bursts."""
_WAITING_FOR_REAL, _LEAST_WAIT, _FASTER, _ABOVE = 0.3, 0.2, 1.5, 0.08
"""The same of runs that were measured, the least s in which traffic waits, and how seldom a port is how much faster."""
SECOND = 0.3
"""The least waiting at a slow port, as a share of that at the one where most waits."""
LATE, NOISE = 0.04, 5.0
"""The least excess of a late rank's laps over its peers', and the multiple of the peers' own spread."""
_LATE_FOR_REAL, _CLOCK, _OFTEN = 0.12, 0.01, 3
"""The same of runs that were measured, s that their clocks may err, and the least laps of a late rank."""
GROWTH, _LAPS = 0.03, 20
"""The growth of a hot GPU's laps over a run, above that of its peers; the laps of a measured run that show it."""
SLOW_DISK, _SLOW_FOR_REAL, _WRITING = 0.6, 0.42, 0.05
"""The share of its peers' rate below which storage is slow; of runs that were measured, with the least s of writing."""
HOST_WAYS = {"GPUDirect off": "no-gpudirect", "wrong NUMA": "wrong-numa"}
"""The faults of a server's host, with the way that its traffic takes (hardware.fabrics.host_ways)."""
_DETOUR = 3.0
"""The bytes through a server's processors, over those of most servers, from which on its traffic takes another way."""
UNEVEN = 1.3
"""The load of a full port over that of the emptiest port beside it."""
_RANKS = re.compile("[0-9]{1,9}(-[0-9]{1,9})?")
_DOWNS = 4
"""The falls of a real link that are a fault: Azure's health agent (cyclecloud-healthagent) allows three."""
_ERRORS = 100
"""The damaged packets from which on a cable is bad."""


def faults_of(run: Telemetry) -> tuple[Fault, ...]:
    """The faults that a record shows, one for each part; flapping and exchanged cables explain slow ports."""
    ports = [row for row in run.rows if not row.collective and row.kind not in ("compute", "storage")]
    laps = [row for row in run.rows if row.kind == "compute"]
    storage = [row for row in run.rows if row.kind == "storage" and not row.collective]
    known: dict[str, Fault] = {}
    if any(row.expected and row.neighbour != row.expected for row in ports if row.neighbour):
        ports = [row for row in ports if row.kind == "adapter"]  # switches carry what the cables brought them
    late = _by_node([*_late(laps, run.source == "simulated")], ports)
    rules = (
        _flapping(ports, _DOWNS if run.source == "real" else 1),
        _cables(ports),
        _hosts(ports),
        _slow(ports, run),
        _clashes(ports, run),
        late,
        _disks(storage, run.source == "simulated"),
    )
    for fault in (fault for rule in rules for fault in rule):
        parts = set(fault.port.split(" and "))
        same_port = any(parts & set(port.split(" and ")) for port in known)
        same_port |= fault.kind == "slow link" and fault.port.partition("/")[0] in known  # its host slows it
        same_rank = fault.port == f"rank {fault.ranks}" and any(
            fault.ranks == each.ranks for each in known.values()
        )
        if not same_port and not same_rank:
            known[fault.port] = fault
    return tuple(known.values())


def _fault(kind: str, row: PortRow, evidence: str, remedy: str) -> Fault:
    return Fault(kind=kind, port=row.part, ranks=row.owner or row.ranks, evidence=evidence, remedy=remedy)


def _flapping(ports: Sequence[PortRow], least: int) -> Iterator[Fault]:
    """Ports whose link went down, and those with damaged packets."""
    for row in ports:
        if row.downs >= least:
            yield _fault(
                "flapping port", row, f"its link went down {row.downs} times", "a sound cable or transceiver"
            )
        elif row.errors >= _ERRORS:
            yield _fault(
                "bad cable",
                row,
                f"{row.errors:,} packets were damaged or dropped",
                "a sound cable, or room in its queue",
            )


def _cables(ports: Sequence[PortRow]) -> Iterator[Fault]:
    """Ports whose cable leads elsewhere than planned; exchanged cables are one fault."""
    wrong = {
        row.part: row for row in ports if row.neighbour and row.expected and row.neighbour != row.expected
    }
    while wrong:
        part, row = next(iter(wrong.items()))
        del wrong[part]
        back = next(
            (o for o, r in wrong.items() if (r.expected, r.neighbour) == (row.neighbour, row.expected)), ""
        )
        if not back:
            evidence = f"its cable leads to {row.neighbour}, the plan has {row.expected}"
            yield _fault("wrong cable", row, evidence, "the planned cable")
            continue
        other = wrong.pop(back)
        yield Fault(
            kind="wrong cable", port=f"{part} and {back}", ranks=f"{row.owner},{other.owner}",
            evidence=f"{part} is on {row.neighbour}, {back} on {other.neighbour}: the cables are exchanged",
            remedy="the planned cables",
        )  # fmt: skip


def _hosts(ports: Sequence[PortRow]) -> Iterator[Fault]:
    """Servers whose traffic passes their processors, or the link between these, while that of most servers does not."""
    adapters = [row for row in ports if row.kind == "adapter" and "/" in row.part]
    through = {row.part.partition("/")[0]: [0.0, 0.0] for row in adapters}
    for row in ports:
        node = row.port.partition("/")[0]
        if node in through and (row.kind == "socket" or (row.kind == "pcie" and "/cpu" in row.port)):
            through[node][row.kind == "socket"] += row.bytes
    table = np.array([*through.values()]).reshape(-1, 2)
    usual = [lower_median(table[:, column], np.ones(len(table), np.int64)) for column in (0, 1) if len(table)]
    for node, (up, across) in through.items():
        own = {rank for row in adapters if row.part.startswith(f"{node}/") for rank in numbers_of(row.owner)}
        if across > _DETOUR * usual[1]:
            what, carried, least = "wrong NUMA", across, usual[1]
            where, remedy = (
                "the link between its sockets",
                "adapters of the GPU's own socket (binding, NCCL_IB_HCA)",
            )
        elif up > _DETOUR * usual[0]:
            what, carried, least = "GPUDirect off", up, usual[0]
            where, remedy = "its processors", "GPUDirect (nvidia-peermem, NCCL_NET_GDR_LEVEL; ACS off)"
        else:
            continue
        evidence = (
            f"{format_quantity(carried, 'B')} pass {where}, of most servers {format_quantity(least, 'B')}"
        )
        yield Fault(
            kind=what, port=node, ranks=_names(sorted(own)) if own else "", evidence=evidence, remedy=remedy
        )


def _slow(ports: Sequence[PortRow], run: Telemetry) -> Iterator[Fault]:
    """Ports that carry less than their capacity while traffic waits for them, the slowest first."""
    least = WAITING.get(run.source, _WAITING_FOR_REAL)
    short = 0.0 if run.source == "simulated" else _LEAST_WAIT
    slow = [
        row
        for row in ports
        if row.capacity
        and row.queued > max(least * row.busy, short)
        and row.queued_rate < SLOW_PORT * row.capacity
        and (not short or _above(row) < _ABOVE * row.busy)
    ]
    longest = max((row.queued for row in slow), default=0.0)
    slow = [row for row in slow if row.queued >= SECOND * longest]  # the others wait for the slow ones
    for row in sorted(slow, key=lambda each: each.queued_rate / each.capacity):
        rates = f"{format_quantity(row.queued_rate, 'B/s')} of {format_quantity(row.capacity, 'B/s')}"
        times = f"{format_quantity(row.queued, 's')} of {format_quantity(run.seconds, 's')}"
        yield _fault(
            "slow link",
            row,
            f"it carries {rates} while traffic waits for it, {times}",
            "a sound cable, or room in its queue",
        )


def _above(row: PortRow) -> float:
    """Seconds in which a port carried clearly more than while traffic waited for it: bursts, not its limit."""
    limit = _FASTER * row.queued_rate / row.capacity
    return sum(seconds for tenth, seconds in enumerate(row.utilisation) if tenth / 10 >= limit)


def _clashes(ports: Sequence[PortRow], run: Telemetry) -> Iterator[Fault]:
    """The worst full port of switches whose other ports carry less."""
    switches = [row for row in ports if row.kind in ("leaf", "spine")]
    full: list[tuple[float, PortRow]] = []
    for _, rows in groupby(sorted(switches, key=_tail), key=_tail):
        beside = list(rows)
        least = min(row.bytes for row in beside)
        full += [
            (row.queued, row)
            for row in beside
            if row.queued > CLASHED * row.busy and (row.bytes > UNEVEN * least or len(beside) == 1)
        ]
    if full:
        _, row = max(full, key=lambda each: (each[0], each[1].port))
        evidence = (
            f"flows of ranks {row.ranks} share it, full for {format_quantity(row.queued, 's')} of "
            f"{format_quantity(run.seconds, 's')}, while ports beside it have room"
        )
        more = f"; so do {len(full) - 1} more ports" if len(full) > 1 else ""
        yield _fault("clash", row, evidence + more, "adaptive routing")


def _tail(row: PortRow) -> str:
    return row.port.partition(">")[0]


def _late(laps: Sequence[PortRow], exact: bool) -> Iterator[Fault]:
    """Ranks whose laps are longer than those of their peers: by how much throughout, or by how much in the end."""
    for _, rows in groupby(sorted(laps, key=lambda row: row.collective), key=lambda row: row.collective):
        peers = list(rows)
        count = min(len(row.values) for row in peers)
        if sum(rank_count(row) for row in peers) < 2:
            continue
        yield from (
            _fault("late rank", row, f"it has not joined the last {row.errors} collectives", "")
            for row in peers
            if row.errors
        )
        if count < 1:
            continue
        least = LATE if exact else _LATE_FOR_REAL
        table = np.array([row.values[:count] for row in peers], np.float64)
        weight = np.array([rank_count(row) for row in peers])
        usual = np.array([lower_median(table[:, lap], weight) for lap in range(count)])
        chosen = usual < 3.0 * np.median(usual)  # not the laps in which programs start
        table, usual, count = table[:, chosen], usual[chosen], int(chosen.sum())
        excess = table / np.maximum(usual, 1e-12) - 1.0
        mean = np.median(excess, axis=1)
        spread = lower_median(np.abs(mean - lower_median(mean, weight)), weight)
        third = max(count // 3, 1)
        growth = excess[:, -third:].mean(axis=1) - excess[:, :third].mean(axis=1)
        for position, row in enumerate(peers):
            worst = max(float(mean[position]), float(excess[position, -third:].mean()))
            longer = table[position] - usual
            if not exact:
                worst = float(longer.sum() / usual.sum())
                if np.sum(longer > np.maximum(_CLOCK, 0.5 * _LATE_FOR_REAL * usual)) < max(
                    _OFTEN, 0.5 * count
                ):
                    continue
            if worst <= max(least, NOISE * spread):
                continue
            own = f"{100 * worst:.0f} % longer than those of its peers"
            if count >= (3 if exact else _LAPS) and growth[position] > max(GROWTH, 0.3 * worst):
                yield _fault("hot GPU", row, f"its laps grow to be {own}", "cooling, or another GPU")
            else:
                yield _fault("late rank", row, f"its laps are {own}", "a sound GPU and host")


def _by_node(late: Sequence[Fault], ports: Sequence[PortRow]) -> Iterator[Fault]:
    """The late ranks, with one fault for a node of which most ranks are late in the same way."""
    members: dict[str, set[int]] = {}
    for row in ports:
        if "/" in row.part and row.owner:
            members.setdefault(row.part.partition("/")[0], set()).update(numbers_of(row.owner))
    left = list(late)
    for node, ranks in members.items():
        for kind in ("late rank", "hot GPU"):
            mine = [fault for fault in left if fault.kind == kind and set(numbers_of(fault.ranks)) <= ranks]
            slow = sorted(rank for fault in mine for rank in numbers_of(fault.ranks))
            if len(slow) > max(len(ranks) / 2, 1):
                left = [fault for fault in left if fault not in mine]
                evidence = f"{len(slow)} of its {len(ranks)} ranks are late; of rank {mine[0].ranks}, {mine[0].evidence}"
                yield replace(
                    mine[0], port=node, ranks=_names(slow), evidence=evidence, remedy="a sound node"
                )
    yield from left


def _names(ranks: Sequence[int]) -> str:
    """Ascending ranks as text: "8-15"."""
    is_range = ranks[-1] - ranks[0] == len(ranks) - 1
    return f"{ranks[0]}-{ranks[-1]}" if is_range and len(ranks) > 1 else ",".join(map(str, ranks))


def _spans(ranks: str) -> list[range]:
    ends = [text.split("-") for text in ranks.split(",") if _RANKS.fullmatch(text)]
    return [range(int(end[0]), int(end[-1]) + 1) for end in ends]


def numbers_of(ranks: str) -> list[int]:
    """The ranks of a text such as "0-7,12"; the first hundred thousand of more."""
    return list(islice(chain.from_iterable(_spans(ranks)), 100_000))


def rank_count(row: PortRow) -> int:
    """The number of ranks that a row stands for."""
    return max(sum(map(len, _spans(row.ranks))), 1)


def lower_median(values: NDArray[np.float64], weight: NDArray[np.int64]) -> float:
    """The median of weighted values; of two in the middle the lower."""
    order = np.argsort(values)
    position = np.searchsorted(np.cumsum(weight[order]), (weight.sum() + 1) // 2)
    return float(values[order][position])


def _disks(storage: Sequence[PortRow], exact: bool) -> Iterator[Fault]:
    """Storage that gives less than that of most others."""
    rates = {row.port: row.queued_rate for row in storage if row.queued_rate > 0}
    ordered = sorted(rates.values())
    usual = (
        ordered[len(ordered) // 2 if len(ordered) < 4 else (len(ordered) - 1) // 2]
        if len(ordered) > 1
        else 0.0
    )
    least = SLOW_DISK if exact else _SLOW_FOR_REAL
    for row in storage:
        if 0 < row.queued_rate < least * usual and (exact or row.busy > _WRITING):
            pair = f"{format_quantity(row.queued_rate, 'B/s')}, its peers {format_quantity(usual, 'B/s')}"
            yield _fault("slow disk", row, f"it gives {pair}", "a sound drive, or less load on it")
