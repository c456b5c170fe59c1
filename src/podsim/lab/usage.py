"""Who used the processor while something was timed: the ranks themselves, and everybody else on their machines.

Several ranks on few cores may wait for processors instead of links. Such a row is marked and left out: a fitted cost of
each message made predictions too high where links are the limit.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Mark:
    """Clocks at one moment: of the wall, of this process, of the whole machine; s."""

    wall: float
    own: float
    machine: float
    """s. The processor time of all programs, without idle time and the kernel's work on packets."""
    packets: float
    """s. The processor time of the kernel's work on packets, whoever sent them."""


def now_text() -> str:
    """The time now in UTC, as 2026-01-31T12:00:00+00:00."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def this_process() -> dict[str, Any]:
    """Where this process runs: host, cores and pid, as plain values that ranks exchange."""
    return {"host": platform.node(), "cores": cores(), "pid": os.getpid()}


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def crowd(ranks: int) -> float:
    """Ranks that share a core, where as many run here; at least one."""
    return max(ranks / cores(), 1.0)


def mark() -> Mark:
    """The clocks now."""
    machine, packets, _ = _machine()
    return Mark(wall=time.perf_counter(), own=time.process_time(), machine=machine, packets=packets)


def since(before: Mark) -> dict[str, float]:
    """s since then, by the names of Mark."""
    now = mark()
    return {
        name: getattr(now, name) - getattr(before, name) for name in ("wall", "own", "machine", "packets")
    }


def _machine() -> tuple[float, float, float]:
    """s since the machine started: of all programs, of packets, and of others on the host of a virtual machine; 0 where
    the system does not tell."""
    try:
        words = Path("/proc/stat").read_text("ascii").split("\n", 1)[0].split()
    except OSError:
        return 0.0, 0.0, 0.0
    tick = os.sysconf("SC_CLK_TCK")
    return sum(int(word) for word in words[1:4]) / tick, int(words[7]) / tick, int(words[8]) / tick


def busiest(
    used: Sequence[Mapping[str, float]], processes: Sequence[Mapping[str, Any]]
) -> tuple[float, float]:
    """(share of the ranks, share of others) on the machine whose processors were busiest.

    used: what `since` gave each rank; processes: what `this_process` gave it.
    The kernel's work on packets is not split by process, and counts as the ranks'.
    """
    names = ("wall", "own", "machine", "packets")
    room_of = {process["host"]: process["cores"] for process in processes}
    shares = []
    for host in sorted(room_of):
        here = [
            clocks_used
            for clocks_used, process in zip(used, processes, strict=True)
            if process["host"] == host
        ]
        most = {name: max(0.0, *(clocks_used[name] for clocks_used in here)) for name in names}
        room = max(most["wall"], 1e-9) * room_of[host]
        own = sum(clocks_used["own"] for clocks_used in here)
        others = most["machine"] - own
        shares.append((min((own + most["packets"]) / room, 1.0), min(max(others / room, 0.0), 1.0)))
    return max(shares, key=sum)


def clocks() -> tuple[float, float, float]:
    """(wall, this process and the children that it has waited for, all programs of the machine and its host), s."""
    own = os.times()
    used = own.user + own.system + own.children_user + own.children_system
    programs, _, stolen = _machine()
    return time.perf_counter(), used, programs + stolen


def others_since(before: tuple[float, float, float]) -> float:
    """Share of the processors' time that went to other programs since then."""
    wall, own, machine = (now - then for now, then in zip(clocks(), before, strict=True))
    return min(max((machine - own) / (max(wall, 1e-9) * cores()), 0.0), 1.0)
