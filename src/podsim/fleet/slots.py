"""The placement of MIG instances: the GPUs of a machine, the legal starts on them, and the choice among them.

A GPU is in MIG mode or not.  In MIG mode it has instances with a job (busy) and idle ones (kept). A job may reuse an idle
instance; for a new instance, idle ones in its way are destroyed.  Busy instances never move.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from podsim.hardware.mig.layouts import Instance, Layout, counts_hold, extensions, make_instance
from podsim.hardware.mig.profiles import Profile, Slicing, find_profile, slicings

PACKERS = {
    "first-fit": "the first GPU and the first legal start",
    "best-fit": "the fullest GPU, and on it the start that leaves the most layouts open",
    "fgd": "the GPU and start with the least growth of the share that is useless to the jobs of the trace",
}
WHOLE = ""
"""The profile of a job on full GPUs."""
Kinds: TypeAlias = tuple[tuple[str, float], ...]
"""(profile, share of the jobs that request it)"""


class Gpu(NamedTuple):
    """The state of a GPU."""

    busy: tuple[Instance, ...] = ()
    kept: tuple[Instance, ...] | None = None
    """The idle instances; None if MIG is off."""


@lru_cache(maxsize=100_000)
def legal_starts(name: str, busy: tuple[Instance, ...], profile: str) -> tuple[int, ...]:
    """The memory slices at which an instance can start, next to the busy ones; (0,) for a full idle GPU.

    `name` is that of the slicing, here and below: hashing a table of profiles takes long.
    """
    slicing = slicings()[name]
    if profile == WHOLE:
        return () if busy else (0,)
    taken = {at for instance in busy for at in instance.slices}
    wanted = find_profile(slicing, profile)
    return tuple(
        start
        for start in wanted.starts
        if taken.isdisjoint(range(start, start + wanted.size))
        and counts_hold(slicing, (*busy, make_instance(wanted, start)))
    )


def free_share(slicing: Slicing, busy: Iterable[Instance]) -> float:
    """The share of a GPU's compute slices without a job."""
    return 1.0 - sum(instance.compute for instance in busy) / slicing.compute_slices


@lru_cache(maxsize=100_000)
def lost_share(name: str, busy: tuple[Instance, ...], kinds: Kinds) -> float:
    """The share of a GPU that is free but useless to a job, in the mean over kinds of jobs.

    Weng et al. 2023 with positions: the free share is useless to a kind without a legal start on the GPU.
    """
    useless = sum(weight for profile, weight in kinds if not legal_starts(name, busy, profile))
    return useless * free_share(slicings()[name], busy)


@lru_cache(maxsize=100_000)
def _best_start(
    name: str, gpu: Gpu, profile: str, packer: str, kinds: Kinds
) -> tuple[tuple[float, ...], int] | None:
    """(score, start) of the best start for an instance on one GPU, smaller scores first; None if there is none."""
    slicing = slicings()[name]
    wanted = find_profile(slicing, profile)
    options: list[tuple[tuple[float, ...], int]] = []
    for start in legal_starts(name, gpu.busy, profile):
        instance = make_instance(wanted, start)
        after = tuple(sorted((*gpu.busy, instance)))
        fresh = gpu.kept is None or instance not in gpu.kept
        score: tuple[float, ...] = ()
        if packer != "first-fit":
            closed = -extensions(slicing, Layout(slicing=slicing.name, instances=after))
            score = (free_share(slicing, gpu.busy), fresh, closed)
        if packer == "fgd":
            grown = lost_share(name, after, kinds) - lost_share(name, gpu.busy, kinds)
            score = (round(grown, 9), *score)
        options.append((score, start))
    return min(options, default=None)


@dataclass(kw_only=True)
class Floor:
    """The GPUs of a machine, also grouped by state."""

    slicing: Slicing
    gpus: list[Gpu]
    """The GPUs by number, node by node."""
    alike: dict[Gpu, set[int]]
    per_node: int
    per_leaf: int
    """The number of nodes under a leaf switch."""

    def copy(self) -> Floor:
        """A copy, for trials."""
        return Floor(
            slicing=self.slicing, gpus=self.gpus.copy(), alike={gpu: set(ids) for gpu, ids in self.alike.items()},
            per_node=self.per_node, per_leaf=self.per_leaf,
        )  # fmt: skip

    def change(self, number: int, gpu: Gpu) -> None:
        """Change the state of one GPU."""
        old = self.gpus[number]
        self.alike[old].discard(number)
        if not self.alike[old]:
            del self.alike[old]
        self.alike.setdefault(gpu, set()).add(number)
        self.gpus[number] = gpu

    def lost(self, kinds: Kinds) -> float:
        """The number of GPUs that are free but useless to a job, in the mean over kinds of jobs."""
        return sum(
            lost_share(self.slicing.name, gpu.busy, kinds) * len(ids) for gpu, ids in self.alike.items()
        )

    def free(self) -> float:
        """The number of free GPUs, including parts."""
        return sum(free_share(self.slicing, gpu.busy) * len(ids) for gpu, ids in self.alike.items())

    def place(self, profile: str, gpus: int, packer: str, kinds: Kinds) -> list[tuple[int, Instance]] | None:
        """The (GPU, instance) pairs for a job, one for each full GPU; None if it does not fit now."""
        if profile == WHOLE:
            numbers = self._full_gpus(gpus)
            return None if numbers is None else [(number, _full_instance(self.slicing)) for number in numbers]
        best: tuple[tuple[float, ...], int, int] | None = None
        for gpu, ids in self.alike.items():
            option = _best_start(self.slicing.name, gpu, profile, packer, kinds)
            if option is not None and (best is None or option[0] <= best[0]):
                mine = (option[0], min(ids), option[1])
                best = mine if best is None else min(best, mine)
        if best is None:
            return None
        return [(best[1], make_instance(find_profile(self.slicing, profile), best[2]))]

    def _full_gpus(self, count: int) -> list[int] | None:
        """The numbers of idle GPUs for a job; None if it does not fit.

        They are on the fullest node with enough of them. A larger job takes idle nodes under few leaves, and GPUs of one
        more node for the rest.
        """
        idle: dict[int, list[int]] = {}
        for gpu, ids in self.alike.items():
            if not gpu.busy:
                for number in ids:
                    idle.setdefault(number // self.per_node, []).append(number)
        full, rest = divmod(count, self.per_node)
        if count == self.per_node:
            full, rest = 0, count
        empty = [node for node in sorted(idle) if len(idle[node]) == self.per_node]
        if full > len(empty):
            return None
        chosen = _choose_nodes(empty, full, self.per_leaf)
        left = [node for node in sorted(idle) if node not in chosen and len(idle[node]) >= rest]
        if rest and not left:
            return None
        numbers = [number for node in chosen for number in sorted(idle[node])]
        if rest:
            last = self._leaf(chosen[-1]) if chosen else -1
            node = min(left, key=lambda n: (len(idle[n]), self._leaf(n) != last, n))
            numbers += sorted(idle[node], key=lambda n: (self.gpus[n].kept is not None, n))[:rest]
        return numbers

    def _leaf(self, node: int) -> int:
        return node // self.per_leaf if self.per_leaf else 0

    def reach(self, places: list[tuple[int, Instance]]) -> int:
        """The distance class of GPUs: 0 on one node, 1 under one leaf, 2 under several leaves."""
        nodes = {number // self.per_node for number, _ in places}
        return 0 if len(nodes) == 1 else (1 if len({self._leaf(node) for node in nodes}) == 1 else 2)

    def take(self, number: int, instance: Instance) -> bool:
        """Give an instance, or a full GPU, to a job. True if this changed the layout of the GPU."""
        gpu = self.gpus[number]
        assert not any(set(instance.slices) & set(other.slices) for other in gpu.busy), (gpu, instance)
        busy = tuple(sorted((*gpu.busy, instance)))
        if instance.profile == WHOLE:
            self.change(number, Gpu(busy, None))
            return gpu.kept is not None
        kept = gpu.kept or ()
        fresh = instance not in kept
        stays = tuple(other for other in kept if not set(instance.slices) & set(other.slices))
        if not counts_hold(self.slicing, (*busy, *stays)):
            stays = ()
        self.change(number, Gpu(busy, stays))
        return fresh

    def give_back(self, number: int, instance: Instance) -> None:
        """Release the instance of a job; it stays, idle."""
        gpu = self.gpus[number]
        busy = tuple(other for other in gpu.busy if other != instance)
        kept = None if instance.profile == WHOLE else tuple(sorted((*(gpu.kept or ()), instance)))
        self.change(number, Gpu(busy, kept))


def _full_instance(slicing: Slicing) -> Instance:
    return Instance(profile=WHOLE, start=0, size=slicing.memory_slices, compute=slicing.compute_slices)


def _choose_nodes(nodes: list[int], count: int, per_leaf: int) -> list[int]:
    """`count` of these nodes under few leaves: of the smallest leaf with enough of them, else of the largest first."""
    chosen: list[int] = []
    while len(chosen) < count:
        left: dict[int, list[int]] = {}
        for node in nodes:
            if node not in chosen:
                left.setdefault(node // per_leaf if per_leaf else 0, []).append(node)
        need = count - len(chosen)
        enough = [leaf for leaf in left if len(left[leaf]) >= need]
        leaf = min(enough, key=lambda key: (len(left[key]), key)) if enough else min(
            left, key=lambda key: (-len(left[key]), key)
        )  # fmt: skip
        chosen += left[leaf][:need]
    return chosen


def new_floor(slicing: Slicing, nodes: int, per_node: int, per_leaf: int) -> Floor:
    """A machine with undivided, idle GPUs."""
    count = nodes * per_node
    return Floor(
        slicing=slicing,
        gpus=[Gpu()] * count,
        alike={Gpu(): set(range(count))},
        per_node=per_node,
        per_leaf=per_leaf,
    )


def job_kinds(profiles: Iterable[str]) -> Kinds:
    """The kinds of jobs, each with its share of the jobs."""
    counts: Mapping[str, int] = Counter(profiles)
    total = sum(counts.values())
    return tuple((profile, count / total) for profile, count in sorted(counts.items()))


def job_gpus(slicing: Slicing, profile: str, gpus: int) -> float:
    """The number of GPUs that a job holds; for an instance the share of its compute slices."""
    found_profile: Profile | None = find_profile(slicing, profile) if profile != WHOLE else None
    return float(gpus) if found_profile is None else found_profile.compute / slicing.compute_slices
