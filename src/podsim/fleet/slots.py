"""Where an instance goes: the GPUs of a machine as they stand, legal places on them, and which of those to take.

A GPU is in MIG mode or not.  In MIG mode it has instances that jobs hold (busy) and instances that are idle (kept): a job
may take over an idle one as it is; to create another, idle ones in its way are destroyed.  Busy ones are never moved.
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
    "best-fit": "the fullest GPU; there the place that leaves most layouts open",
    "fgd": "where the share of the GPU that is of no use to the jobs of the trace grows least",
}
WHOLE = ""
"""profile of a job that takes whole GPUs"""
Kinds: TypeAlias = tuple[tuple[str, float], ...]
"""(profile, share of the jobs that ask for it)"""


class Gpu(NamedTuple):
    """A GPU as it stands."""

    busy: tuple[Instance, ...] = ()
    kept: tuple[Instance, ...] | None = None
    """idle instances; None where MIG is off"""


@lru_cache(maxsize=100_000)
def legal_starts(name: str, busy: tuple[Instance, ...], profile: str) -> tuple[int, ...]:
    """Memory slices at which an instance can stand beside those that jobs hold; (0,) for a whole idle GPU.

    `name` is that of the slicing, here and below: a table of profiles takes long to hash.
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
    """Share of a GPU's compute slices that no job holds."""
    return 1.0 - sum(instance.compute for instance in busy) / slicing.compute_slices


@lru_cache(maxsize=100_000)
def lost_share(name: str, busy: tuple[Instance, ...], kinds: Kinds) -> float:
    """Share of a GPU that is free and of no use to a job, in the mean over kinds of jobs.

    Weng et al. 2023 with positions: all that is free is of no use to a kind that has no legal start on the GPU.
    """
    useless = sum(weight for profile, weight in kinds if not legal_starts(name, busy, profile))
    return useless * free_share(slicings()[name], busy)


@lru_cache(maxsize=100_000)
def _best_start(
    name: str, gpu: Gpu, profile: str, packer: str, kinds: Kinds
) -> tuple[tuple[float, ...], int] | None:
    """(score, smaller first; start) of the best place for an instance on one GPU; None if it has none."""
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
    """All GPUs; those that stand alike are kept together."""

    slicing: Slicing
    gpus: list[Gpu]
    """by number; node by node"""
    alike: dict[Gpu, set[int]]
    per_node: int
    per_leaf: int
    """nodes under a leaf switch"""

    def copy(self) -> Floor:
        """The same GPUs, to try something on."""
        return Floor(
            slicing=self.slicing, gpus=self.gpus.copy(), alike={gpu: set(ids) for gpu, ids in self.alike.items()},
            per_node=self.per_node, per_leaf=self.per_leaf,
        )  # fmt: skip

    def change(self, number: int, gpu: Gpu) -> None:
        """Let one GPU stand otherwise."""
        old = self.gpus[number]
        self.alike[old].discard(number)
        if not self.alike[old]:
            del self.alike[old]
        self.alike.setdefault(gpu, set()).add(number)
        self.gpus[number] = gpu

    def lost(self, kinds: Kinds) -> float:
        """GPUs that are free and of no use to a job, in the mean over kinds of jobs."""
        return sum(
            lost_share(self.slicing.name, gpu.busy, kinds) * len(ids) for gpu, ids in self.alike.items()
        )

    def free(self) -> float:
        """GPUs that no job holds, parts of them added up."""
        return sum(free_share(self.slicing, gpu.busy) * len(ids) for gpu, ids in self.alike.items())

    def place(self, profile: str, gpus: int, packer: str, kinds: Kinds) -> list[tuple[int, Instance]] | None:
        """(GPU, instance) for a job; of whole GPUs one for each; None if it does not fit now."""
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
        """Idle GPUs: of the fullest node that has enough; of more than a node idle nodes under few leaves, and a rest."""
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
        """0 if the GPUs are of one node, 1 if under one leaf, 2 if under more."""
        nodes = {number // self.per_node for number, _ in places}
        return 0 if len(nodes) == 1 else (1 if len({self._leaf(node) for node in nodes}) == 1 else 2)

    def take(self, number: int, instance: Instance) -> bool:
        """Give an instance, or a whole GPU, to a job; whether the GPU had to be divided anew for it."""
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
        """A job leaves; its instance stays, idle."""
        gpu = self.gpus[number]
        busy = tuple(other for other in gpu.busy if other != instance)
        kept = None if instance.profile == WHOLE else tuple(sorted((*(gpu.kept or ()), instance)))
        self.change(number, Gpu(busy, kept))


def _full_instance(slicing: Slicing) -> Instance:
    return Instance(profile=WHOLE, start=0, size=slicing.memory_slices, compute=slicing.compute_slices)


def _choose_nodes(nodes: list[int], count: int, per_leaf: int) -> list[int]:
    """So many of these nodes: of the leaf with fewest that has enough of them, else of the one with most, and so on."""
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
    """A machine whose GPUs are all whole and idle."""
    count = nodes * per_node
    return Floor(
        slicing=slicing,
        gpus=[Gpu()] * count,
        alike={Gpu(): set(range(count))},
        per_node=per_node,
        per_leaf=per_leaf,
    )


def job_kinds(profiles: Iterable[str]) -> Kinds:
    """Kinds of jobs, and the share of the jobs that each is."""
    counts: Mapping[str, int] = Counter(profiles)
    total = sum(counts.values())
    return tuple((profile, count / total) for profile, count in sorted(counts.items()))


def job_gpus(slicing: Slicing, profile: str, gpus: int) -> float:
    """GPUs that a job holds: a share of one by compute slices, or whole ones."""
    found_profile: Profile | None = find_profile(slicing, profile) if profile != WHOLE else None
    return float(gpus) if found_profile is None else found_profile.compute / slicing.compute_slices
