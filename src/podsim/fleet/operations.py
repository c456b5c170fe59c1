"""What happens to the machine of a queue: failures, drains, maintenance, reservations and partitions of its nodes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import inf

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Floats, Ints
from podsim.errors import PodsimError, raise_all, unknown_name
from podsim.fleet.jobs import Jobs
from podsim.fleet.queue_state import OUTAGE_RECORD, WINDOW_RECORD, Plant, Records
from podsim.units import parse_quantity

_SPAN = re.compile(r"(?P<nodes>[^@+:]+)(?:@(?P<start>[^+:]+))?(?:\+(?P<length>[^:]+))?(?::(?P<user>.+))?")
_NODES = re.compile(r"\d{1,7}(?:-\d{1,7})?")
_DRAWN = 256
"""The expected number of failures that are drawn at once."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """Some nodes for some time."""

    text: str
    """The words of the user, for messages."""
    ranges: tuple[tuple[int, int], ...]
    """The first and last node of each range."""
    start: float = 0.0
    """s. The start."""
    end: float = inf
    """s. The end; infinite for good."""
    user: str = ""
    """The user who may run jobs meanwhile; "" for nobody."""

    def mask(self, nodes: int) -> NDArray[np.bool_]:
        """Whether it has each node of a machine."""
        mask = np.zeros(nodes, bool)
        for first, last in self.ranges:
            mask[first : last + 1] = True
        return mask


def read_span(text: str, nodes: int, what: str) -> Span:
    """A span of text such as 0-19,30@2d+12h:alice: nodes, start, length and user. Raises PodsimError."""
    match = _SPAN.fullmatch(text.strip())
    parts = [] if match is None else [part.strip() for part in match["nodes"].split(",")]
    ranges = []
    for part in ["0-" + str(nodes - 1)] if parts == ["all"] else parts:
        first, _, last = part.partition("-")
        if not _NODES.fullmatch(part) or int(last or first) < int(first):
            raise PodsimError(
                f"{what}={text[:60]!r}: give nodes, as 0-19,30 or all, then @START and +LENGTH: 0-3@2d+8h"
            )
        ranges.append((int(first), int(last or first)))
    if match is None or max(last for _, last in ranges) >= nodes:
        many = (
            f"{nodes:,} nodes, 0 to {nodes - 1}"
            if nodes > 1
            else "one node, 0; give nodes, as 8x8, or a cluster"
        )
        raise PodsimError(f"{what}={text[:60]!r}: the machine has {many}")
    start = parse_quantity(match["start"], "s", what=what) if match["start"] else 0.0
    length = parse_quantity(match["length"], "s", what=what) if match["length"] else inf
    if not (0 <= start < inf and length > 0):
        raise PodsimError(f"{what}={text[:60]!r}: it must start at 0 or later, and last longer than 0 s")
    return Span(text=text, ranges=tuple(ranges), start=start, end=start + length, user=match["user"] or "")


@dataclass(frozen=True, kw_only=True)
class Operations:
    """What nodes go through while a queue runs. By default, nothing."""

    rate: float = 0.0
    """1/s. The failure rate of a node."""
    spread: float = 0.0
    """factor. The standard deviation of the logarithm of the failure rate over nodes."""
    drain: float = 0.0
    """share. The failures that take the node out of service; after others, a restart is enough."""
    repair: float = 0.0
    """s. The mean time until such a node is back."""
    drains: tuple[Span, ...] = ()
    """The nodes that end their jobs and take no others."""
    windows: tuple[Span, ...] = ()
    """The times for nobody (maintenance) or for a user, known in advance: jobs that would run into one do not start."""
    partitions: Mapping[str, tuple[Span, int]] = field(default_factory=dict)
    """The nodes and the tier of each partition; the first is the default."""
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise PodsimError with all problems."""
        values = {"failures": self.rate * 86400, "spread": self.spread, "repair": self.repair}
        problems = [
            f"{name}={value:g}; it must be finite and not negative"
            for name, value in values.items()
            if not 0 <= value < inf
        ]
        problems += ["spread: at most 3"] if self.spread > 3 else []
        problems += [
            f"{span.text}: say how long, as {span.text}+8h" for span in self.windows if span.end == inf
        ]
        for first, second in combinations(self.windows, 2):
            shared = any(a <= d and c <= b for a, b in first.ranges for c, d in second.ranges)
            if shared and first.start < second.end and second.start < first.end:
                problems.append(
                    f"{first.text} and {second.text} overlap: give each node one window at a time"
                )
        raise_all(problems)

    @property
    def is_empty(self) -> bool:
        """Whether nothing happens to the machine."""
        return not (self.rate or self.drains or self.windows or self.partitions)

    def access_of(self, jobs: Jobs, nodes: int) -> tuple[Ints, NDArray[np.bool_], list[set[str]]]:
        """(the access of each job, whether jobs of each access may use each node, the users of each access).

        Jobs have equal access if they are in one partition and own the same reservations. Raises PodsimError for
        unknown partitions.
        """
        names = list(self.partitions) or [""]
        partition = [name or names[0] for name in jobs.partition] or [names[0]] * len(jobs)
        unknown = sorted(set(partition) - set(names))
        if self.partitions and unknown:
            raise PodsimError(unknown_name("partition", unknown[0], names))
        owners = {span.user for span in self.windows if span.user}
        if owners - set(jobs.users):
            raise PodsimError(unknown_name("user", min(owners - set(jobs.users)), jobs.users))
        pairs: dict[tuple[str, str], int] = {}
        access = np.zeros(len(jobs), np.int64)
        if len(names) > 1 or owners:
            user = [jobs.users[at] if jobs.users[at] in owners else "" for at in jobs.user.tolist()]
            for j, pair in enumerate(zip(partition, user, strict=True)):
                access[j] = pairs.setdefault(pair, len(pairs))
        known = list(pairs) or [(names[0], "")]
        masks = [
            self.partitions[name][0].mask(nodes) if self.partitions else np.ones(nodes, bool)
            for name, _ in known
        ]
        return access, np.array(masks), [{user} - {""} for _, user in known]

    def tiers_of(self, jobs: Jobs) -> Ints:
        """The tier of each job: by the tier of its partition, then by its rank, as small numbers."""
        names = list(self.partitions) or [""]
        levels = {name: tier for name, (_, tier) in self.partitions.items()}
        level = [levels.get(name or names[0], 0) for name in jobs.partition] or [
            levels.get(names[0], 0)
        ] * len(jobs)
        pairs = np.stack([np.array(level, np.float64), jobs.rank], axis=1)
        return np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)

    def room_for(self, jobs: Jobs, nodes: int, per_node: int) -> Ints:
        """The number of GPUs that each job can ever have: those of its partition that are not drained for good."""
        access, allowed, _ = self.access_of(jobs, nodes)
        for span in self.drains:
            if span.end == inf:
                allowed &= ~span.mask(nodes)
        room: Ints = (allowed.sum(axis=1) * per_node)[access]
        return room

    def change(self, plant: Plant, jobs: Jobs) -> tuple[Plant, Ints]:
        """(the machine with all that is known in advance, the access of each job)."""
        access, allowed, users = self.access_of(jobs, plant.nodes)
        rows = [(span.start, span.end, first, last) for span in self.windows for first, last in span.ranges]
        owner = [span.user for span in self.windows for _ in span.ranges]
        bell = np.unique([time for span in self.windows for time in (span.start, span.end)])
        changed = plant._replace(
            changes=True, accesses=len(allowed), allowed=allowed.astype(np.uint8).reshape(-1),
            window=np.array(rows, WINDOW_RECORD), windows=len(rows), bell=bell.astype(np.float64), bells=len(bell),
            opens=np.array([user in some for user in owner for some in users], np.uint8),
        )  # fmt: skip
        return changed, access


class Outages:
    """The outages of nodes in order, drawn as the clock of a queue needs them."""

    def __init__(self, operations: Operations, nodes: int) -> None:
        """Start at time 0."""
        self.operations, self.rng = operations, np.random.default_rng([operations.seed, 1])
        spread = operations.spread
        rate = operations.rate * np.exp(spread * self.rng.standard_normal(nodes) - spread * spread / 2)
        self.total = float(rate.sum())
        self.chance = rate / self.total if self.total else rate

    def extend(self, plant: Plant, begin: float) -> Plant:
        """The machine with its outages from a time on, until its new horizon."""
        operations = self.operations
        end = begin + _DRAWN / self.total if self.total else inf
        known = [
            (span.start, span.end, node, 0)
            for span in operations.drains if begin <= span.start < end
            for node in np.flatnonzero(span.mask(plant.nodes)).tolist()
        ]  # fmt: skip
        outage = np.concatenate([np.array(known, OUTAGE_RECORD), self._draw(begin, end)])
        return plant._replace(
            outage=outage[np.argsort(outage["start"], kind="stable")], outages=len(outage), horizon=end
        )

    def _draw(self, begin: float, end: float) -> Records:
        """Failures of a Poisson process. Some are over at once, after others the node is repaired."""
        count = int(self.rng.poisson(_DRAWN)) if self.total else 0
        made = np.zeros(count, OUTAGE_RECORD)
        if count:
            made["start"], made["fails"] = self.rng.uniform(begin, end, count), 1
            made["node"] = self.rng.choice(len(self.chance), count, p=self.chance)
            is_long = self.rng.random(count) < self.operations.drain
            made["end"] = (
                made["start"] + self.operations.repair * self.rng.standard_exponential(count) * is_long
            )
        return made


def read_partitions(texts: Sequence[str], nodes: int) -> dict[str, tuple[Span, int]]:
    """Partitions of texts such as debug=0-3 or urgent=0-559:2, whose tier is 2. Raises PodsimError."""
    made: dict[str, tuple[Span, int]] = {}
    for text in texts:
        name, equals, rest = text.partition("=")
        span = read_span(rest, nodes, "partition") if equals and name.strip() else None
        if span is None or span.start or span.end != inf or not (span.user or "0").isdigit():
            raise PodsimError(
                f"partition={text[:60]!r}: give a name and nodes, as debug=0-3, with a tier as urgent=all:2"
            )
        if name.strip() in made:
            raise PodsimError(f"partition={name.strip()[:40]}: it is given more than once")
        made[name.strip()] = (span, int(span.user or 0))
    return made


def endless_jobs(jobs: Jobs, operations: Operations, per_node: int, cycle: float, lead: float) -> list[str]:
    """The jobs that failures would never let end: names with the expected number of tries of one checkpoint."""
    nodes = np.ceil(jobs.gpus / per_node)
    length: Floats = (np.minimum(jobs.seconds, cycle) if cycle else jobs.seconds) + lead
    hazard = nodes * operations.rate * length
    return [
        f"job {str(jobs.ids[j])[:40]} on {nodes[j]:,.0f} nodes" for j in np.flatnonzero(hazard > 12.0)[:5]
    ]
