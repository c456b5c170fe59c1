"""Faults of a simulated day: kinds from faults.toml, and where and when they happen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.errors import PodsimError, check_name
from podsim.hardware.cluster import Cluster
from podsim.packaged import packaged_toml
from podsim.units import parse_quantity

WORDS = ("part", "says", "needs")
"""The entries of a kind that are no effects."""
_EXAMPLE = "hot-gpu@3/5@6h+2h: GPU 5 of node 3, from hour 6, for two hours"
_FAULT = re.compile(r"([a-z-]+)@(\d{1,6})(?:/(\d{1,4}))?(?:@([^+@]+)(?:\+([^+@]+))?)?")
_RANDOM = re.compile(r"random(?::(\d{1,4}))?")
_LEAST = 2400.0
"""s. The least time that a random fault has, so that a scrape every few minutes sees it."""
_TRIES = 100


@dataclass(frozen=True, kw_only=True, eq=False)
class Stay:
    """GPUs that are in use for a time."""

    start: float
    end: float
    gpus: NDArray[np.int64]
    """The numbers of the GPUs in the machine."""
    nodes: int
    """The number of their nodes."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Something that is broken for a time."""

    kind: str
    """A key of faults.toml."""
    node: int
    part: int
    """The GPU or port of the node; 0 for a node."""
    start: float
    """s. The start, since the start of the day."""
    end: float
    """s. The end."""

    def __str__(self) -> str:
        """As `--fault` takes it."""
        part = "" if fault_kinds()[self.kind]["part"] == "node" else f"/{self.part}"
        return f"{self.kind}@{self.node}{part}@{self.start:.0f}s+{self.end - self.start:.0f}s"

    def gpus(self, cluster: Cluster) -> NDArray[np.int64]:
        """The numbers of the GPUs that it touches: one, the one behind a port, or those of a node."""
        per, part = cluster.gpus_per_node, fault_kinds()[self.kind]["part"]
        here = {"gpu": [self.part], "port": [port_owner(self.part, cluster)], "node": range(per)}[part]
        return self.node * per + np.array(here, np.int64)

    def lacks(self, cluster: Cluster, stays: Sequence[Stay]) -> str:
        """What it needs to show, and lacks all its time: a job, or traffic between nodes; "" where it shows."""
        needs, mine = fault_kinds()[self.kind].get("needs", ""), self.gpus(cluster)
        at_once = [stay for stay in stays if stay.start < self.end and self.start < stay.end]
        is_there = any(
            (stay.nodes > 1 or needs == "job") and np.isin(mine, stay.gpus).any() for stay in at_once
        )
        return "" if is_there else needs


def fault_kinds() -> Mapping[str, Mapping[str, Any]]:
    """The effects of each kind of fault."""
    return packaged_toml("monitoring/faults.toml")


def port_owner(port: int, cluster: Cluster) -> int:
    """The GPU of a node whose traffic a port carries."""
    return port * cluster.gpus_per_node // max(cluster.nics, 1)


def read_faults(
    texts: Sequence[str], cluster: Cluster, length: float, stays: Sequence[Stay], seed: int
) -> tuple[Fault, ...]:
    """The faults of texts such as "hot-gpu@3/5@6h+2h" or "random:7", the latter on GPUs in use.

    Raises PodsimError for anything unusable.
    """
    faults: list[Fault] = []
    for text in texts:
        if match := _RANDOM.fullmatch(text.strip()):
            faults += _random_faults(int(match[1] or 1), cluster, stays, seed)
        else:
            faults.append(_read_fault(text, cluster, length))
    return tuple(faults)


def _read_fault(text: str, cluster: Cluster, length: float) -> Fault:
    match = _FAULT.fullmatch(text.strip())
    if match is None:
        raise PodsimError(f"fault {text[:60]!r}: expected KIND@NODE/PART@START+LENGTH, such as {_EXAMPLE}")
    kind, node, part = match[1], int(match[2]), int(match[3] or 0)
    check_name("kind of fault", kind, fault_kinds())
    which = fault_kinds()[kind]["part"]
    counts = {"gpu": cluster.gpus_per_node, "port": cluster.nics, "node": 1}
    for what, number, count in (("node", node, cluster.nodes), (f"{which} of a {kind}", part, counts[which])):
        if number >= count:
            ends = f"they are 0 to {count - 1}" if count else "the machine has none"
            raise PodsimError(f"fault {text[:60]!r}: there is no {what} {number}; {ends}")
    start = parse_quantity(match[4], "s", what="fault: start") if match[4] else 0.0
    lasts = parse_quantity(match[5], "s", what="fault: length") if match[5] else length
    if not 0 <= start < length or not lasts > 0:
        raise PodsimError(f"fault {text[:60]!r}: it must start in the day of {length / 3600:g} h, and last")
    return Fault(kind=kind, node=node, part=part, start=start, end=start + lasts)


def _random_faults(count: int, cluster: Cluster, stays: Sequence[Stay], seed: int) -> list[Fault]:
    """Faults of kinds that follow each other, drawn from the seed: each where jobs run, on GPUs without another."""
    rng, faults, ill = np.random.default_rng(seed), list[Fault](), set[int]()
    kinds = rng.permutation(list(fault_kinds())).tolist()
    for number in range(_TRIES * count):
        kind = kinds[number % len(kinds)]
        part, needs = fault_kinds()[kind]["part"], fault_kinds()[kind].get("needs")
        fitting = [
            stay for stay in stays
            if stay.end - stay.start > 1.5 * _LEAST and (stay.nodes > 1 or needs != "traffic")
        ]  # fmt: skip
        if not fitting or (part == "port" and not cluster.nics):
            continue
        stay = fitting[int(rng.integers(len(fitting)))]
        node, gpu = divmod(int(rng.choice(stay.gpus)), cluster.gpus_per_node)
        behind = [port for port in range(cluster.nics) if port_owner(port, cluster) == gpu]
        start = float(rng.uniform(stay.start, stay.end - _LEAST))
        fault = Fault(
            kind=kind, node=node, part={"gpu": gpu, "port": (behind or [0])[0], "node": 0}[part], start=start,
            end=float(rng.uniform(start + _LEAST, stay.end)),
        )  # fmt: skip
        if not ill & (touched := set(fault.gpus(cluster).tolist())):
            ill |= touched
            faults.append(fault)
        if len(faults) == count:
            return faults
    raise PodsimError(
        f"fault random:{count}: too few GPUs run jobs for so many; take fewer, or more and longer jobs"
    )
