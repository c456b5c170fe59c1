"""What the ports of an emulated cluster carry while ranks run on it, and what is wrong with them on purpose.

A port is slow if traffic waits in its queue while it carries less than its capacity: in a ring every link runs at the
pace of the slowest, so rates alone do not tell. A process among the bridges reads the kernel's counters every few
milliseconds: bytes and queues of the shaped links by netlink, as `tc -s qdisc` does, and what each rank's process
wrote to its disk (/proc). In the end it reads how often links went down (`ip -s`), and the address behind each port
(`bridge fdb`). Ports have the names of a simulation. A lap is the time from the end of one exchange of all ranks to
the first bytes from or to a rank in the next; a sender waits for its receiver, too.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from podsim.answers.lab import Emulated
from podsim.answers.saved_run import write_run
from podsim.answers.telemetry import DEPTHS, PortRow, Telemetry
from podsim.lab import links
from podsim.lab.namespaces import configure, enter, tool_path
from podsim.programs import ask

BINS = 96
_TICK = 0.004
"""s between readings"""
_PAUSE = 0.03
"""s without traffic of any rank that end an exchange"""
_LEAST = 16 << 10
"""B from which on a rank is taking part in an exchange"""
_WRITTEN = 1 << 20
"""B from which on a rank is writing to its disk"""
_FLAP = 0.5
"""s from one fall of a flapping link to the next"""
_NEW_QDISC, _GET_QDISC, _DONE, _DUMP, _ROOT = 36, 38, 3, 0x301, 0xFFFFFFFF
_STATS, _BASIC, _QUEUE = 7, 1, 3
"""numbers of linux/rtnetlink.h and linux/gen_stats.h"""


@dataclass(frozen=True, kw_only=True)
class Injected:
    """What is wrong with an emulated cluster."""

    slow_link: Mapping[int, float] = field(default_factory=dict)
    """The share of its adapter's bandwidth that each rank has left."""
    flap: Mapping[int, float] = field(default_factory=dict)
    """share. The share of time in which each rank's adapter is down."""
    swap: Mapping[int, int] = field(default_factory=dict)
    """The pairs of ranks whose adapters have each other's cable."""
    slow_disk: Mapping[int, float] = field(default_factory=dict)
    """factor. The slowdown of each rank's disk."""

    def plug(self, rank: int) -> int:
        """The rank whose cable is in the port of a rank."""
        return {**self.swap, **{other: rank for rank, other in self.swap.items()}}.get(rank, rank)


class _Queues:
    """The shaped links of a namespace."""

    def __init__(self, space: int) -> None:
        """Look into a namespace that a descriptor holds open; this process stays in it."""
        enter(space)
        self.names = dict(socket.if_nameindex())
        self.link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)

    def read(self) -> dict[str, tuple[int, int]]:
        """(bytes so far, packets that wait) of each link."""
        self.link.send(struct.pack("=IHHIIBxxxiIII", 36, _GET_QDISC, _DUMP, 0, 0, 0, 0, 0, 0, 0))
        out: dict[str, tuple[int, int]] = {}
        while True:
            data, at = self.link.recv(1 << 18), 0
            while at < len(data):
                length, kind = struct.unpack_from("=IH", data, at)
                if kind == _DONE or length < 16:
                    return out
                index, _, parent = struct.unpack_from("=iII", data, at + 20)
                if kind == _NEW_QDISC and parent == _ROOT:
                    stats = dict(_attributes(data[at + 36 : at + length])).get(_STATS, b"")
                    parts = dict(_attributes(stats))
                    if _BASIC in parts and _QUEUE in parts:
                        size, waiting = (
                            struct.unpack_from("=Q", parts[_BASIC]),
                            struct.unpack_from("=I", parts[_QUEUE]),
                        )
                        out[self.names.get(index, "")] = (size[0], waiting[0])
                at += length + 3 & ~3


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The attributes of a netlink message: (number, content)."""
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4:
            return
        yield kind & 0x3FFF, data[at + 4 : at + length]
        at += length + 3 & ~3


@dataclass(kw_only=True)
class Watcher:
    """The process that watches the ports of an emulated cluster, and spoils some."""

    made: Emulated
    injected: Injected
    pids: Mapping[int, int]
    """The process of each rank."""
    time: list[float] = field(default_factory=list)
    """s. The times of the readings."""
    readings: list[list[tuple[int, int]]] = field(default_factory=list)
    """The bytes and waiting packets of each rank's links: eth0 out and in, eth1 out and in; then bytes to disk."""
    is_down: dict[str, bool] = field(default_factory=dict)

    def work(self, spaces: Mapping[int, int], own: int, until: int, path: Path, job: str) -> int:
        """Watch until a pipe closes, then write the record; `own` is the namespace of the bridges."""
        with suppress(OSError):  # only root may: on a busy machine readings would come late
            os.setpriority(os.PRIO_PROCESS, 0, -10)
        ranks = [_Queues(spaces[rank]) for rank in sorted(spaces)]
        bridges = _Queues(own)
        changes, begun = _carrier_changes(), time.monotonic()
        while not select.select([until], [], [], _TICK)[0]:
            now = time.monotonic() - begun
            inner, outer = [queues.read() for queues in ranks], bridges.read()
            row = []
            for rank, mine in enumerate(inner):
                names = ((mine, "eth0"), (outer, f"in{rank}"), (mine, "eth1"), (outer, f"ex{rank}"))
                row += [links.get(name, (0, 0)) for links, name in names]
                row.append((_disk_bytes(self.pids[rank]), 0))
            self.time.append(now)
            self.readings.append(row)
            for rank, share in self.injected.flap.items():
                self._switch(
                    f"ex{rank}" if self.made.servers > 1 else f"in{rank}", now % _FLAP < share * _FLAP
                )
        fallen = {name: (count - changes.get(name, 0)) // 2 for name, count in _carrier_changes().items()}
        write_run(path, _record(self.made, self, fallen, _addresses(), job))
        return 0

    def _switch(self, device: str, down: bool) -> None:
        if self.is_down.get(device, False) != down:
            self.is_down[device] = down
            configure([f"link set dev {device} {'down' if down else 'up'}"], [])


def _disk_bytes(pid: int) -> int:
    """B that a process has written to drives so far; 0 after its end."""
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/io").read_text("ascii").splitlines():
            if line.startswith("write_bytes"):
                return int(line.split()[1])
    return 0


def _listing(tool: str, words: Sequence[str]) -> list[dict[str, Any]]:
    """What a tool of iproute2 lists as JSON."""
    out, _ = ask([tool_path(tool) or tool, *words])
    listed: list[dict[str, Any]] = json.loads(out or "[]")
    return listed


def _carrier_changes() -> dict[str, int]:
    """How often each link's carrier came or went."""
    listed = _listing("ip", ["-s", "-s", "-j", "link", "show"])
    return {entry["ifname"]: int(entry["stats64"]["tx"].get("carrier_changes", 0)) for entry in listed}


def _addresses() -> dict[str, str]:
    """The address that each port of the bridges learned."""
    listed = _listing("bridge", ["-j", "fdb", "show"])
    return {
        entry["ifname"]: entry["mac"]
        for entry in listed
        if entry.get("state") != "permanent" and "master" in entry
    }


def _record(
    made: Emulated, samples: Watcher, fallen: Mapping[str, int], addresses: Mapping[str, str], job: str
) -> Telemetry:
    """The samples as a record."""
    times = np.array(samples.time or [0.0])
    table = np.array(samples.readings or [[(0, 0)] * 5 * made.ranks], np.float64)
    table = table.reshape(len(times), made.ranks, 5, 2)
    table[..., 0] = np.maximum.accumulate(table[..., 0], axis=0)  # counters of a rank that ended read 0
    seconds = max(float(times[-1]), 1e-3)
    edges = np.linspace(0.0, seconds, BINS + 1)
    rows: list[PortRow] = []
    for rank in range(made.ranks):
        server, number = divmod(rank, made.local)
        for first, name, kind, rate, device in (
            (0, f"node{server}/gpu{number}", "nvlink", made.inside, f"in{rank}"),
            (2, f"node{server}/nic{number}", "adapter", made.between, f"ex{rank}"),
        ):
            for column, way in ((first, "out"), (first + 1, "in")):
                if table[-1, rank, column, 0] - table[0, rank, column, 0] >= _LEAST:
                    row = _port(f"{name} {way}", kind, rank, rate, (times, table[:, rank, column], edges))
                    rows.append(replace(row, downs=fallen.get(device, 0) if way == "in" else 0))
        rows += _disk(f"node{server}/disk{number}", rank, times, table[:, rank, 4, 0], edges)
        rows += _cable(made, rank, addresses.get(f"ex{rank}", ""))
    rows += _laps(times, table[:, :, :4, 0].sum(axis=2))
    return Telemetry(
        source="emulated",
        job=job,
        seconds=seconds,
        bins=BINS,
        ports=len({row.port for row in rows}),
        rows=tuple(rows),
    )


def _port(name: str, kind: str, rank: int, rate: float, counted: tuple[Any, Any, Any]) -> PortRow:
    """One port in one direction, from (times, bytes so far and packets that wait, the edges of bins)."""
    times, readings, edges = counted
    total, depth = readings[:, 0], readings[:, 1]
    width = np.maximum(np.diff(times), 1e-9)
    share = np.diff(total) / width / rate if rate else np.zeros(len(width))
    busy = share > 0.01
    tenth = np.minimum((share[busy] * 10).astype(np.int64), 9)
    waits = (depth[:-1] > 0) & (depth[1:] > 0)
    classes = np.where(waits, np.searchsorted(DEPTHS, depth[1:], side="right") - 1, 0)
    queued = float(width[waits].sum())
    return PortRow(
        port=name, kind=kind, owner=str(rank), ranks=str(rank), capacity=rate, busy=float(width[busy].sum()),
        values=tuple(np.diff(np.interp(edges, times, total)).round().tolist()),
        utilisation=tuple((np.bincount(tenth, width[busy], 10) * 1.0).tolist()),
        queue=tuple((np.bincount(classes, width, len(DEPTHS)) * 1.0).tolist()),
        queued_rate=float(np.diff(total)[waits].sum()) / queued if queued else 0.0,
    )  # fmt: skip


def _disk(name: str, rank: int, times: Any, total: Any, edges: Any) -> list[PortRow]:
    """A rank's disk, and its rate while it was written to."""
    moved = np.flatnonzero(np.diff(total) > 0)
    if total[-1] - total[0] < _WRITTEN:
        return []
    gaps = np.diff(times[moved])
    busy = float(gaps[gaps < _PAUSE].sum()) + _TICK
    return [
        PortRow(
            port=name,
            kind="storage",
            owner=str(rank),
            ranks=str(rank),
            busy=busy,
            queue=(0.0, busy),
            values=tuple(np.diff(np.interp(edges, times, total)).round().tolist()),
            queued_rate=float(total[-1] - total[0]) / busy,
        )
    ]


def _cable(made: Emulated, rank: int, address: str) -> list[PortRow]:
    """The port of the switch for a rank's adapter, with the adapter that is in it."""
    known = {links.hardware_address(other, "eth1"): other for other in range(made.ranks)}
    if address not in known:
        return []
    names = [f"node{each // made.local}/nic{each % made.local}" for each in (known[address], rank)]
    return [
        PortRow(
            port=f"spine port {rank}", kind="adapter", owner=str(rank), neighbour=names[0], expected=names[1]
        )
    ]


def _laps(times: Any, passed: Any) -> list[PortRow]:
    """The laps of each rank, from what each has sent and received so far; short ones are none."""
    ranks = passed.shape[1]
    moved = np.flatnonzero(np.diff(passed.sum(axis=1)) > 0.25 * _LEAST)
    ends = moved[np.flatnonzero(np.diff(times[moved]) > _PAUSE)] + 1 if len(moved) else moved
    laps: list[list[float]] = [[] for _ in range(ranks)]
    joined = 0
    for end in [0, *ends.tolist()]:
        if end < joined:  # some ranks wait for one that comes late
            continue
        begun = [int(np.searchsorted(passed[:, rank], passed[end, rank] + _LEAST)) for rank in range(ranks)]
        joined = max(begun)
        if joined >= len(times):
            break
        taken = [float(times[first] - times[end]) for first in begun]
        if np.median(taken) > _PAUSE:
            for rank, lap in enumerate(taken):
                laps[rank].append(lap)
    return [
        PortRow(port=f"rank {rank}", kind="compute", collective="job", ranks=str(rank), values=tuple(values))
        for rank, values in enumerate(laps)
        if values
    ]
