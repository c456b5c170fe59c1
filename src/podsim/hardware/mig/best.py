"""The best layout for a mix of jobs: exact for one GPU; for a fleet a greedy start and local search.

A layout only matters through its maximal extension: more room never hurts.  So for one GPU every maximal set of
profiles is tried (14 of the A100's basic profiles, some dozens of all), and jobs are given to its instances by dynamic
programming over how many of each kind are left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from math import ceil, inf, prod
from typing import TypeAlias

from podsim.errors import MigError, NoFitError
from podsim.hardware.mig.layouts import Layout, maximal, place
from podsim.hardware.mig.profiles import Profile, Slicing, find_profile
from podsim.hardware.mig.scaling import relative_speed, share_of

OBJECTIVES = ("throughput", "slowest")
"""what is made large: the sum of the jobs' relative speeds, or the least of them"""

_ROUNDS = 2_000
_STATES = 20_000
"""combinations of what is left up to which `fewest` searches all of them"""


@dataclass(frozen=True, kw_only=True)
class Wish:
    """A kind of job, and what it needs of an instance."""

    name: str
    """The name of the job."""
    count: int = 1
    """The number of jobs of this kind."""
    profile: str = ""
    """The profile of the instance; "" for any that is large enough."""
    memory: float = 0.0
    """B. The memory that the job needs."""
    fixed: float = 0.0
    """share. The share of its time on the whole GPU that does not depend on the slice."""

    def speed(self, slicing: Slicing, profile: Profile) -> float:
        """Relative speed on an instance, 0 where it does not run."""
        if self.profile:
            return float(profile.name == find_profile(slicing, self.profile).name)
        if profile.memory < self.memory:
            return 0.0
        return float(relative_speed(self.fixed, share_of(slicing, profile)))


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """A layout, and which job runs on which of its instances."""

    layout: Layout
    """The instances that have a job."""
    jobs: tuple[str, ...]
    """The job on each instance, "" for none."""
    speeds: tuple[float, ...]
    """share. The speed of each job relative to the whole GPU; 1 for a job that asked for a profile."""
    value: float
    """factor. The objective, over the jobs of this GPU."""


@cache
def patterns(slicing: Slicing, media: bool) -> tuple[tuple[Profile, ...], ...]:
    """Profiles of every maximal layout, each set once; with `media` also those of +me."""
    by_name = {one.name: one for one in slicing.profiles}
    sets = {layout.profiles for layout in maximal(slicing, every=True)}
    kept = [one for one in sets if media or not any(by_name[name].media for name in one)]
    return tuple(
        tuple(sorted((by_name[n] for n in names), key=lambda p: (-p.compute, -p.size)))
        for names in sorted(kept)
    )


@lru_cache(maxsize=100_000)
def _solve(
    slicing: Slicing, kinds: tuple[Wish, ...], counts: tuple[int, ...], objective: str
) -> tuple[float, tuple[tuple[str, int], ...]] | None:
    """(value, ((profile, kind), …)) of the best way to run a number of jobs of each kind on one GPU; None for none."""
    media = any(one.profile.endswith("+me") for one in kinds)
    best: tuple[float, int, tuple[tuple[str, int], ...]] | None = None
    for pattern in patterns(slicing, media):
        found = _fill(slicing, kinds, counts, pattern, objective)
        if found is None:
            continue
        used = sum(find_profile(slicing, name).compute for name, _ in found[1])
        if best is None or (found[0], -used) > (best[0] + 1e-12, -best[1]):
            best = (found[0], used, found[1])
    return None if best is None else (best[0], best[2])


def _fill(
    slicing: Slicing,
    kinds: tuple[Wish, ...],
    counts: tuple[int, ...],
    pattern: tuple[Profile, ...],
    objective: str,
) -> tuple[float, tuple[tuple[str, int], ...]] | None:
    """The best assignment to the instances of one pattern, all jobs placed; None if they cannot be."""
    if sum(counts) > len(pattern):
        return None
    speeds = {(p.name, k): kind.speed(slicing, p) for p in set(pattern) for k, kind in enumerate(kinds)}
    memo: dict[tuple[int, tuple[int, ...]], tuple[float, tuple[tuple[str, int], ...]] | None] = {}

    def walk(at: int, left: tuple[int, ...]) -> tuple[float, tuple[tuple[str, int], ...]] | None:
        if not any(left):
            return (0.0 if objective == "throughput" else inf), ()
        if sum(left) > len(pattern) - at:
            return None
        if (at, left) in memo:
            return memo[at, left]
        best = walk(at + 1, left)
        for kind, number in enumerate(left):
            speed = speeds[pattern[at].name, kind] if number else 0.0
            rest = walk(at + 1, (*left[:kind], number - 1, *left[kind + 1 :])) if speed else None
            if rest is not None:
                value = rest[0] + speed if objective == "throughput" else min(rest[0], speed)
                if best is None or value > best[0] + 1e-12:
                    best = (value, ((pattern[at].name, kind), *rest[1]))
        memo[at, left] = best
        return best

    return walk(0, counts)


def best_layout(slicing: Slicing, wishes: Sequence[Wish], *, objective: str = "throughput") -> Assignment:
    """The layout of one GPU on which all these jobs run best, and who gets which instance.

    Exact: no layout and no assignment is better.  Raises NoFitError if one GPU cannot hold them all.
    """
    kinds = _kinds(slicing, wishes, objective)
    found = _solve(slicing, kinds, tuple(one.count for one in kinds), objective)
    if found is None:
        told = ", ".join(f"{one.count} x {one.name}" for one in wishes)
        raise NoFitError([f"no layout of one {slicing.name} holds {told}"])
    return _assignment(slicing, kinds, found)


def _kinds(slicing: Slicing, wishes: Sequence[Wish], objective: str) -> tuple[Wish, ...]:
    """The wishes, each checked. Raises MigError for one that no instance can meet, with all of them."""
    if objective not in OBJECTIVES:
        raise MigError([f"objective={objective!r} may be {', '.join(OBJECTIVES)}"])
    problems = []
    for one in wishes:
        if not 0 <= one.fixed <= 1:
            problems.append(f"{one.name}: a fixed share of {one.fixed:g}; it must be from 0 to 1")
        elif not any(one.speed(slicing, profile) for profile in slicing.profiles):
            most = max(profile.memory for profile in slicing.profiles)
            problems.append(
                f"{one.name}: needs {one.memory / 1e9:.3g} GB; the largest instance has {most / 1e9:.3g} GB"
            )
    if problems:
        raise MigError(problems)
    return tuple(wishes)


def _assignment(
    slicing: Slicing, kinds: tuple[Wish, ...], found: tuple[float, tuple[tuple[str, int], ...]]
) -> Assignment:
    """Instances placed, each with its job; only those with a job are created."""
    value, chosen = found
    profiles = [find_profile(slicing, name) for name, _ in chosen]
    layout = place(slicing, profiles)
    waiting = sorted(chosen)
    jobs, speeds = [], []
    for one in layout.instances:
        pair = next(pair for pair in waiting if pair[0] == one.profile)
        waiting.remove(pair)
        jobs.append(kinds[pair[1]].name)
        speeds.append(kinds[pair[1]].speed(slicing, find_profile(slicing, one.profile)))
    return Assignment(layout=layout, jobs=tuple(jobs), speeds=tuple(speeds), value=value)


def fewest(slicing: Slicing, counts: dict[str, int]) -> int:
    """The number of GPUs that hold the instances of each profile: the least one if all ways can be tried, else a bound.

    The bound is that of compute slices, of memory slices and of each profile's own number per GPU.
    """
    profiles = [find_profile(slicing, name) for name in counts]
    numbers = tuple(counts.values())
    compute = sum(p.compute * n for p, n in zip(profiles, numbers, strict=True))
    memory = sum(p.size * n for p, n in zip(profiles, numbers, strict=True))
    bound = max(
        ceil(compute / slicing.compute_slices), ceil(memory / slicing.memory_slices),
        *(ceil(n / p.most) for p, n in zip(profiles, numbers, strict=True)),
    )  # fmt: skip
    packed = packing(slicing, counts)
    return bound if packed is None else len(packed)


def packing(slicing: Slicing, counts: dict[str, int]) -> tuple[tuple[int, ...], ...] | None:
    """How many of each profile (in the order of `counts`) go on each GPU, on the fewest GPUs; None for too many ways.

    Breadth first: after each GPU, everything that can be left.
    """
    profiles = [find_profile(slicing, name) for name in counts]
    numbers = tuple(counts.values())
    if prod(number + 1 for number in numbers) > _STATES:
        return None
    media = any(one.media for one in profiles)
    have = {tuple(pattern.count(one) for one in profiles) for pattern in patterns(slicing, media)}
    useful = sorted(
        one
        for one in have
        if not any(one != o and all(a <= b for a, b in zip(one, o, strict=True)) for o in have)
    )
    paths: dict[tuple[int, ...], tuple[tuple[int, ...], ...]] = {numbers: ()}
    while not any(not any(left) for left in paths):
        following: dict[tuple[int, ...], tuple[tuple[int, ...], ...]] = {}
        for left, path in paths.items():
            for one in useful:
                used = tuple(min(a, b) for a, b in zip(left, one, strict=True))
                rest = tuple(a - b for a, b in zip(left, used, strict=True))
                if any(used) and rest not in following:
                    following[rest] = (*path, used)
        paths = following
    return next(path for left, path in paths.items() if not any(left))


def best_fleet(
    slicing: Slicing, gpus: int, wishes: Sequence[Wish], *, objective: str = "throughput"
) -> tuple[Assignment | None, ...]:
    """An assignment for each of a number of equal GPUs; None for one that is left whole.

    Jobs that asked for a profile are packed first, largest first, each on the fullest GPU that takes it (where that
    fails, by trying all ways); others go where the objective gains most; then single jobs are moved and pairs swapped
    while that improves the sum.  The fleet's objective is the sum over GPUs (throughput) or the least (slowest).  Raises
    NoFitError if they do not fit, with the least number of GPUs that the profiles asked for need.
    """
    kinds = _kinds(slicing, wishes, objective)
    held = _dealt(slicing, kinds, gpus, objective)
    _improve(slicing, kinds, held, objective)
    made: list[Assignment | None] = []
    for counts, number in sorted(held.items(), key=lambda item: (-sum(item[0]), [-n for n in item[0]])):
        found = _solve(slicing, kinds, counts, objective) if any(counts) else None
        made += [None if found is None else _assignment(slicing, kinds, found)] * number
    return tuple(made)


def _dealt(slicing: Slicing, kinds: tuple[Wish, ...], gpus: int, objective: str) -> Counter[State]:
    """Every job on a GPU. Raises NoFitError where that cannot be."""
    held: Counter[State] = Counter({(0,) * len(kinds): gpus})
    failed = _deal(slicing, kinds, held, objective)
    if failed is None:
        return held
    packed = _packed(slicing, kinds, gpus)
    if packed is None or _deal(slicing, kinds, packed, objective) is not None:
        raise NoFitError([_too_many(slicing, gpus, kinds, kinds[failed])])
    return packed


def _deal(slicing: Slicing, kinds: tuple[Wish, ...], held: Counter[State], objective: str) -> int | None:
    """Give every job that has no GPU yet one; the kind of the first that finds none, None if all do."""
    for kind in sorted(range(len(kinds)), key=lambda k: _need(slicing, kinds[k])):
        there = sum(counts[kind] * number for counts, number in held.items())
        for _ in range(kinds[kind].count - there):
            at = _where(slicing, kinds, held, kind, objective)
            if at is None:
                return kind
            _move(held, at, _changed(at, -1, kind))
    return None


def _packed(slicing: Slicing, kinds: tuple[Wish, ...], gpus: int) -> Counter[State] | None:
    """The jobs that asked for a profile on the fewest GPUs, the others on none; None where they cannot be, or for
    too many ways to try."""
    own = [find_profile(slicing, one.profile).name if one.profile else "" for one in kinds]
    counts: Counter[str] = Counter()
    for name, one in zip(own, kinds, strict=True):
        counts[name] += one.count if name else 0
    found = packing(slicing, {name: number for name, number in counts.items() if number})
    if found is None or len(found) > gpus:
        return None
    left = [one.count if name else 0 for name, one in zip(own, kinds, strict=True)]
    held: Counter[State] = Counter({(0,) * len(kinds): gpus - len(found)})
    for used in found:
        state = [0] * len(kinds)
        for name, number in zip((name for name in counts if counts[name]), used, strict=True):
            rest = number
            for kind in (k for k, other in enumerate(own) if other == name):
                state[kind] = min(rest, left[kind])
                left[kind] -= state[kind]
                rest -= state[kind]
        held[tuple(state)] += 1
    return +held


State: TypeAlias = tuple[int, ...]
"""jobs of each kind on one GPU; a fleet is a count of GPUs for each"""


def _changed(counts: State, out: int, back: int) -> State:
    """One job of kind `out` less, one of kind `back` more; -1 for none."""
    return tuple(n - (k == out) + (k == back) for k, n in enumerate(counts))


def _move(held: Counter[State], old: State, new: State) -> None:
    held[old] -= 1
    held[new] += 1
    if not held[old]:
        del held[old]


def _need(slicing: Slicing, wish: Wish) -> tuple[bool, int, int]:
    """Sorts wishes: those with a profile first, then by the least instance that holds them, large before small."""
    least = min((p for p in slicing.profiles if wish.speed(slicing, p)), key=lambda p: (p.size, p.compute))
    return not wish.profile, -least.size, -least.compute


def _value(slicing: Slicing, kinds: tuple[Wish, ...], counts: State, objective: str) -> float | None:
    if not any(counts):
        return 0.0 if objective == "throughput" else inf
    found = _solve(slicing, kinds, counts, objective)
    return None if found is None else found[0]


def _where(
    slicing: Slicing, kinds: tuple[Wish, ...], held: Counter[State], kind: int, objective: str
) -> State | None:
    """The GPU on which one more job of a kind gains most; of equals the fullest, then the one with the first jobs."""
    best: tuple[float, int, State] | None = None
    for counts in held:
        before = _value(slicing, kinds, counts, objective)
        after = _value(slicing, kinds, _changed(counts, -1, kind), objective)
        if after is None or before is None:
            continue
        rank = (round(after - before if objective == "throughput" else after, 9), sum(counts), counts)
        if best is None or rank > best:
            best = rank
    return None if best is None else best[2]


def _improve(slicing: Slicing, kinds: tuple[Wish, ...], held: Counter[State], objective: str) -> None:
    """Moves and swaps between two GPUs while they help; at most some thousand."""
    for _ in range(_ROUNDS):
        found = _step(slicing, kinds, held, objective)
        if found is None:
            return
        for old, new in found:
            _move(held, old, new)


def _step(
    slicing: Slicing, kinds: tuple[Wish, ...], held: Counter[State], objective: str
) -> tuple[tuple[State, State], tuple[State, State]] | None:
    """The first move or swap that helps, as (before, after) of two GPUs; None if none does."""
    for a in sorted(held):
        for b in sorted(held):
            now = None if a == b else _joint(slicing, kinds, a, b, objective)
            for out in (k for k, n in enumerate(a) if n and now is not None):
                for back in (-1, *(k for k, n in enumerate(b) if n and k != out)):
                    first, second = _changed(a, out, back), _changed(b, back, out)
                    then = _joint(slicing, kinds, first, second, objective)
                    if now is not None and then is not None and then > tuple(v + 1e-9 for v in now):
                        return (a, first), (b, second)
    return None


def _joint(
    slicing: Slicing, kinds: tuple[Wish, ...], a: State, b: State, objective: str
) -> tuple[float, ...] | None:
    """What two GPUs are worth together; None where one cannot hold its jobs."""
    one, two = (_value(slicing, kinds, counts, objective) for counts in (a, b))
    if one is None or two is None:
        return None
    return (one + two,) if objective == "throughput" else (min(one, two), max(one, two))


def _too_many(slicing: Slicing, gpus: int, kinds: tuple[Wish, ...], failed: Wish) -> str:
    asked: Counter[str] = Counter()
    for one in kinds:
        least = min((p for p in slicing.profiles if one.speed(slicing, p)), key=lambda p: (p.size, p.compute))
        asked[least.name] += one.count
    told = ", ".join(f"{count} x {name}" for name, count in asked.items())
    least_gpus = fewest(slicing, dict(asked))
    more = f"; they need {least_gpus} at least" if least_gpus > gpus else ""
    return f"{failed.name}: {told} do not fit on {gpus} GPU{'s' * (gpus != 1)} of {slicing.name}{more}"
