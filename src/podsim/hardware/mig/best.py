"""The best layout for a mix of jobs: exact for one GPU; for a fleet a greedy start and local search.

More room never hurts, so only maximal sets of profiles matter: 14 of the A100's basic profiles, some dozens of all
profiles.  For one GPU each of them is tried. Dynamic programming over the remaining jobs of each kind assigns jobs to
its instances.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from math import ceil, inf, prod
from typing import TypeAlias

from podsim.errors import MigError, NoFitError, raise_all
from podsim.hardware.mig.layouts import Layout, maximal, place
from podsim.hardware.mig.profiles import Profile, Slicing, find_profile
from podsim.hardware.mig.scaling import relative_speed, share_of

OBJECTIVES = ("throughput", "slowest")
"""The quantities to maximise: the sum of the jobs' relative speeds, or the smallest of them."""

_ROUNDS = 2_000
_STATES = 20_000
"""The largest number of combinations that `fewest_gpus` searches exhaustively."""


@dataclass(frozen=True, kw_only=True)
class Wish:
    """A kind of job, and its demands on an instance."""

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
        """The relative speed on an instance; 0 if the job does not fit."""
        if self.profile:
            return float(profile.name == find_profile(slicing, self.profile).name)
        if profile.memory < self.memory:
            return 0.0
        return float(relative_speed(self.fixed, share_of(slicing, profile)))


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """A layout with the job of each instance."""

    layout: Layout
    """The instances that have a job."""
    jobs: tuple[str, ...]
    """The job on each instance, "" for none."""
    speeds: tuple[float, ...]
    """share. The speed of each job relative to the whole GPU; 1 for a job that asked for a profile."""
    value: float
    """factor. The objective, over the jobs of this GPU."""


@dataclass(frozen=True, kw_only=True)
class _Mix:
    """The jobs to place on equal GPUs, and the quantity to maximise."""

    slicing: Slicing
    kinds: tuple[Wish, ...]
    objective: str


State: TypeAlias = tuple[int, ...]
"""The jobs of each kind on one GPU; a fleet is a count of GPUs for each state."""
Solution: TypeAlias = tuple[float, tuple[tuple[str, int], ...]]
"""(objective, (profile, kind of job) of each instance)"""


@cache
def patterns(slicing: Slicing, media: bool) -> tuple[tuple[Profile, ...], ...]:
    """The distinct sets of profiles of all maximal layouts; with `media`, also those with +me."""
    by_name = {profile.name: profile for profile in slicing.profiles}
    sets = {layout.profiles for layout in maximal(slicing, every=True)}
    kept = [names for names in sets if media or not any(by_name[name].media for name in names)]
    return tuple(
        tuple(sorted((by_name[n] for n in names), key=lambda p: (-p.compute, -p.size)))
        for names in sorted(kept)
    )


@lru_cache(maxsize=100_000)
def _solve(mix: _Mix, counts: State) -> Solution | None:
    """The best way to run `counts` jobs of each kind on one GPU; None if there is none."""
    media = any(kind.profile.endswith("+me") for kind in mix.kinds)
    best: tuple[float, int, tuple[tuple[str, int], ...]] | None = None
    for pattern in patterns(mix.slicing, media):
        solution = _fill(mix, counts, pattern)
        if solution is None:
            continue
        used = sum(find_profile(mix.slicing, name).compute for name, _ in solution[1])
        if best is None or (solution[0], -used) > (best[0] + 1e-12, -best[1]):
            best = (solution[0], used, solution[1])
    return None if best is None else (best[0], best[2])


def _fill(mix: _Mix, counts: State, pattern: tuple[Profile, ...]) -> Solution | None:
    """The best assignment of all jobs to the instances of one pattern; None if they do not fit."""
    if sum(counts) > len(pattern):
        return None
    speeds = {
        (p.name, k): kind.speed(mix.slicing, p) for p in set(pattern) for k, kind in enumerate(mix.kinds)
    }
    memo: dict[tuple[int, State], Solution | None] = {}

    def walk(at: int, left: State) -> Solution | None:
        if not any(left):
            return (0.0 if mix.objective == "throughput" else inf), ()
        if sum(left) > len(pattern) - at:
            return None
        if (at, left) in memo:
            return memo[at, left]
        best = walk(at + 1, left)
        for kind, number in enumerate(left):
            speed = speeds[pattern[at].name, kind] if number else 0.0
            rest = walk(at + 1, (*left[:kind], number - 1, *left[kind + 1 :])) if speed else None
            if rest is not None:
                value = rest[0] + speed if mix.objective == "throughput" else min(rest[0], speed)
                if best is None or value > best[0] + 1e-12:
                    best = (value, ((pattern[at].name, kind), *rest[1]))
        memo[at, left] = best
        return best

    return walk(0, counts)


def _mix(slicing: Slicing, wishes: Sequence[Wish], objective: str) -> _Mix:
    """The wishes, checked. Raises MigError with all wishes that no instance can meet."""
    if objective not in OBJECTIVES:
        raise MigError([f"objective={objective!r} may be {', '.join(OBJECTIVES)}"])
    problems = []
    for wish in wishes:
        if not 0 <= wish.fixed <= 1:
            problems.append(f"{wish.name}: a fixed share of {wish.fixed:g}; it must be from 0 to 1")
        elif not any(wish.speed(slicing, profile) for profile in slicing.profiles):
            most = max(profile.memory for profile in slicing.profiles)
            problems.append(
                f"{wish.name}: needs {wish.memory / 1e9:.3g} GB; the largest instance has {most / 1e9:.3g} GB"
            )
    raise_all(problems, MigError)
    return _Mix(slicing=slicing, kinds=tuple(wishes), objective=objective)


def _assignment(mix: _Mix, solution: Solution) -> Assignment:
    """The instances with a job, each in its position."""
    value, chosen = solution
    profiles = [find_profile(mix.slicing, name) for name, _ in chosen]
    layout = place(mix.slicing, profiles)
    waiting = sorted(chosen)
    jobs, speeds = [], []
    for instance in layout.instances:
        pair = next(pair for pair in waiting if pair[0] == instance.profile)
        waiting.remove(pair)
        wish = mix.kinds[pair[1]]
        jobs.append(wish.name)
        speeds.append(wish.speed(mix.slicing, find_profile(mix.slicing, instance.profile)))
    return Assignment(layout=layout, jobs=tuple(jobs), speeds=tuple(speeds), value=value)


def fewest_gpus(slicing: Slicing, counts: dict[str, int]) -> int:
    """The fewest GPUs for these counts of each profile: exact if all ways can be tried, else a lower bound.

    The bound is that of compute slices, of memory slices, and of the instances of each profile per GPU.
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
    """The number of each profile (in the order of `counts`) on each of the fewest GPUs; None for too many ways.

    Breadth-first search over the instances that remain after each GPU.
    """
    profiles = [find_profile(slicing, name) for name in counts]
    numbers = tuple(counts.values())
    if prod(number + 1 for number in numbers) > _STATES:
        return None
    media = any(profile.media for profile in profiles)
    have = {tuple(pattern.count(profile) for profile in profiles) for pattern in patterns(slicing, media)}
    useful = sorted(
        most
        for most in have
        if not any(most != o and all(a <= b for a, b in zip(most, o, strict=True)) for o in have)
    )
    paths: dict[tuple[int, ...], tuple[tuple[int, ...], ...]] = {numbers: ()}
    while not any(not any(left) for left in paths):
        following: dict[tuple[int, ...], tuple[tuple[int, ...], ...]] = {}
        for left, path in paths.items():
            for most in useful:
                used = tuple(min(a, b) for a, b in zip(left, most, strict=True))
                rest = tuple(a - b for a, b in zip(left, used, strict=True))
                if any(used) and rest not in following:
                    following[rest] = (*path, used)
        paths = following
    return next(path for left, path in paths.items() if not any(left))


def best_fleet(
    slicing: Slicing, gpus: int, wishes: Sequence[Wish], *, objective: str = "throughput"
) -> tuple[Assignment | None, ...]:
    """An assignment for each of `gpus` equal GPUs; None for an undivided GPU.

    Jobs with a profile are packed first, in order of size, each on the fullest GPU with room; if that fails, all ways are
    tried.  Other jobs go where the objective gains most. Then moves and swaps of jobs follow while they help.  The
    fleet's objective is the sum over GPUs (throughput) or the minimum (slowest).  Raises NoFitError if the jobs do not
    fit, with the fewest GPUs for the requested profiles.
    """
    mix = _mix(slicing, wishes, objective)
    held = _deal_all(mix, gpus)
    _improve(mix, held)
    made: list[Assignment | None] = []
    for counts, number in sorted(held.items(), key=lambda item: (-sum(item[0]), [-n for n in item[0]])):
        solution = _solve(mix, counts) if any(counts) else None
        made += [None if solution is None else _assignment(mix, solution)] * number
    return tuple(made)


def _deal_all(mix: _Mix, gpus: int) -> Counter[State]:
    """All jobs on GPUs. Raises NoFitError if they do not fit."""
    held: Counter[State] = Counter({(0,) * len(mix.kinds): gpus})
    failed = _deal(mix, held)
    if failed is None:
        return held
    packed = _pack(mix, gpus)
    if packed is None or _deal(mix, packed) is not None:
        raise NoFitError([_no_fit_text(mix, gpus, mix.kinds[failed])])
    return packed


def _deal(mix: _Mix, held: Counter[State]) -> int | None:
    """Place every job that has no GPU yet. The kind of the first job without room; None if all jobs fit."""
    for kind in sorted(range(len(mix.kinds)), key=lambda k: _wish_order(mix.slicing, mix.kinds[k])):
        there = sum(counts[kind] * number for counts, number in held.items())
        for _ in range(mix.kinds[kind].count - there):
            at = _choose_gpu(mix, held, kind)
            if at is None:
                return kind
            _move(held, at, _swap_job(at, -1, kind))
    return None


def _pack(mix: _Mix, gpus: int) -> Counter[State] | None:
    """The jobs with a profile on the fewest GPUs, the others on none.

    None if they do not fit, or if there are too many ways to try.
    """
    slicing, kinds = mix.slicing, mix.kinds
    own = [find_profile(slicing, wish.profile).name if wish.profile else "" for wish in kinds]
    counts: Counter[str] = Counter()
    for name, wish in zip(own, kinds, strict=True):
        counts[name] += wish.count if name else 0
    packed = packing(slicing, {name: number for name, number in counts.items() if number})
    if packed is None or len(packed) > gpus:
        return None
    left = [wish.count if name else 0 for name, wish in zip(own, kinds, strict=True)]
    held: Counter[State] = Counter({(0,) * len(kinds): gpus - len(packed)})
    for used in packed:
        state = [0] * len(kinds)
        for name, number in zip((name for name in counts if counts[name]), used, strict=True):
            rest = number
            for kind in (k for k, other in enumerate(own) if other == name):
                state[kind] = min(rest, left[kind])
                left[kind] -= state[kind]
                rest -= state[kind]
        held[tuple(state)] += 1
    return +held


def _swap_job(counts: State, out: int, back: int) -> State:
    """The state without one job of kind `out` and with one more of kind `back`; -1 for no job."""
    return tuple(n - (k == out) + (k == back) for k, n in enumerate(counts))


def _move(held: Counter[State], old: State, new: State) -> None:
    held[old] -= 1
    held[new] += 1
    if not held[old]:
        del held[old]


def _smallest(slicing: Slicing, wish: Wish) -> Profile:
    """The smallest instance that runs a job."""
    return min((p for p in slicing.profiles if wish.speed(slicing, p)), key=lambda p: (p.size, p.compute))


def _wish_order(slicing: Slicing, wish: Wish) -> tuple[bool, int, int]:
    """The sort key of wishes: those with a profile first, then by their smallest instance, large before small."""
    least = _smallest(slicing, wish)
    return not wish.profile, -least.size, -least.compute


def _gpu_value(mix: _Mix, counts: State) -> float | None:
    if not any(counts):
        return 0.0 if mix.objective == "throughput" else inf
    solution = _solve(mix, counts)
    return None if solution is None else solution[0]


def _choose_gpu(mix: _Mix, held: Counter[State], kind: int) -> State | None:
    """The GPU on which one more job of a kind gains most; among equals the fullest, then the one with the first jobs."""
    best: tuple[float, int, State] | None = None
    for counts in held:
        before, after = _gpu_value(mix, counts), _gpu_value(mix, _swap_job(counts, -1, kind))
        if after is None or before is None:
            continue
        rank = (round(after - before if mix.objective == "throughput" else after, 9), sum(counts), counts)
        if best is None or rank > best:
            best = rank
    return None if best is None else best[2]


def _improve(mix: _Mix, held: Counter[State]) -> None:
    """Move and swap jobs between two GPUs while that helps, a limited number of times."""
    for _ in range(_ROUNDS):
        moves = _step(mix, held)
        if moves is None:
            return
        for old, new in moves:
            _move(held, old, new)


def _step(mix: _Mix, held: Counter[State]) -> tuple[tuple[State, State], tuple[State, State]] | None:
    """The first helpful move or swap, as (before, after) of two GPUs; None if there is none."""
    for a in sorted(held):
        for b in sorted(held):
            now = None if a == b else _joint_value(mix, a, b)
            for out in (k for k, n in enumerate(a) if n and now is not None):
                for back in (-1, *(k for k, n in enumerate(b) if n and k != out)):
                    first, second = _swap_job(a, out, back), _swap_job(b, back, out)
                    then = _joint_value(mix, first, second)
                    if now is not None and then is not None and then > tuple(v + 1e-9 for v in now):
                        return (a, first), (b, second)
    return None


def _joint_value(mix: _Mix, a: State, b: State) -> tuple[float, ...] | None:
    """The objective of two GPUs together; None if one cannot hold its jobs."""
    first, second = _gpu_value(mix, a), _gpu_value(mix, b)
    if first is None or second is None:
        return None
    return (first + second,) if mix.objective == "throughput" else (min(first, second), max(first, second))


def _no_fit_text(mix: _Mix, gpus: int, failed: Wish) -> str:
    asked: Counter[str] = Counter()
    for wish in mix.kinds:
        asked[_smallest(mix.slicing, wish).name] += wish.count
    jobs = ", ".join(f"{count} x {name}" for name, count in asked.items())
    least_gpus = fewest_gpus(mix.slicing, dict(asked))
    more = f"; they need {least_gpus} at least" if least_gpus > gpus else ""
    return f"{failed.name}: {jobs} do not fit on {gpus} GPU{'s' * (gpus != 1)} of {mix.slicing.name}{more}"
