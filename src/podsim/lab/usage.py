"""Who used the processor while something was timed: the ranks themselves, and everybody else on their machines."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Mark", "busiest", "mark", "since"]


@dataclass(frozen=True, kw_only=True)
class Mark:
    """Clocks at one moment: of the wall, of this process, of the whole machine; s."""

    wall: float
    own: float
    machine: float


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def mark() -> Mark:
    """The clocks now."""
    used = os.times()
    return Mark(wall=time.perf_counter(), own=used.user + used.system, machine=_machine())


def since(before: Mark) -> dict[str, float]:
    """s since then: wall, own (of this process), machine (of all programs, whatever they are)."""
    now = mark()
    return {
        "wall": now.wall - before.wall,
        "own": now.own - before.own,
        "machine": now.machine - before.machine,
    }


def _machine() -> float:
    """Processor seconds since the machine started that were not idle; 0 where the system does not tell."""
    try:
        words = Path("/proc/stat").read_text("ascii").split("\n", 1)[0].split()
    except OSError:
        return 0.0
    busy = sum(int(word) for word in words[1:9]) - int(words[4]) - int(words[5])
    return busy / os.sysconf("SC_CLK_TCK")


def busiest(told: Iterable[Mapping[str, float]], hosts: Iterable[str], cores_of: Mapping[str, int]) -> tuple[float, float]:
    """(share of the ranks, share of others) on the machine whose processors were busiest."""
    own: dict[str, float] = {}
    wall: dict[str, float] = {}
    machine: dict[str, float] = {}
    for one, host in zip(told, hosts, strict=True):
        own[host] = own.get(host, 0.0) + one["own"]
        wall[host] = max(wall.get(host, 0.0), one["wall"], 1e-9)
        machine[host] = max(machine.get(host, 0.0), one["machine"])
    shares = []
    for host, used in own.items():
        room = wall[host] * cores_of[host]
        shares.append((min(used / room, 1.0), min(max((machine[host] - used) / room, 0.0), 1.0)))
    return max(shares, key=sum)
