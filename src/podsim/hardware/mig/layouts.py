"""Layouts of instances on a GPU: how to read, check and enumerate them.

The rules: an instance occupies `size` memory slices from one of its profile's starts; no two instances share a memory
slice; the compute slices of all instances are at most those of the GPU; a profile occurs at most `most` times; at most
one instance has the media engines. The order of existing instances does not matter. The order of creation does, since
instances cannot move.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from podsim.errors import MigError, raise_all
from podsim.hardware.mig.profiles import Profile, Slicing, find_profile


@dataclass(frozen=True, kw_only=True, order=True)
class Instance:
    """An instance with its position."""

    start: int
    """The first memory slice."""
    profile: str
    """The name of its profile."""
    size: int
    """The number of memory slices."""
    compute: int
    """The number of compute slices."""

    @property
    def slices(self) -> range:
        """The memory slices of the instance."""
        return range(self.start, self.start + self.size)

    def __str__(self) -> str:
        """The text that podsim reads: 3g.20gb@4."""
        return f"{self.profile}@{self.start}"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The instances of one GPU."""

    slicing: str
    """The name of the table of profiles."""
    instances: tuple[Instance, ...]
    """The instances, by first memory slice."""

    def __str__(self) -> str:
        """The text that podsim reads: 2g.10gb@0 3g.20gb@4."""
        return " ".join(str(instance) for instance in self.instances) or "empty"

    @property
    def compute(self) -> int:
        """The number of compute slices in use."""
        return sum(instance.compute for instance in self.instances)

    @property
    def memory(self) -> int:
        """The number of memory slices in use."""
        return sum(instance.size for instance in self.instances)

    @property
    def profiles(self) -> tuple[str, ...]:
        """The profiles of the instances, sorted."""
        return tuple(sorted(instance.profile for instance in self.instances))


def make_instance(profile: Profile, start: int) -> Instance:
    """The instance of a profile at a start."""
    return Instance(profile=profile.name, start=start, size=profile.size, compute=profile.compute)


def problems_of(slicing: Slicing, instances: Iterable[Instance]) -> list[str]:
    """The broken rules of a set of instances, as messages."""
    given = sorted(instances)
    by_name = {profile.name: profile for profile in slicing.profiles}
    problems = []
    for instance in given:
        starts = by_name[instance.profile].starts
        if instance.start not in starts:
            problems.append(
                f"{instance}: {instance.profile} may start at memory slice {', '.join(map(str, starts))}"
            )
    for number, instance in enumerate(given):
        for other in given[number + 1 :]:
            both = sorted(set(instance.slices) & set(other.slices))
            if both:
                problems.append(
                    f"{_span_text(instance)} and {_span_text(other)} both need memory slice {', '.join(map(str, both))}"
                )
    compute = sum(instance.compute for instance in given)
    if compute > slicing.compute_slices:
        needs = _sum_text((instance.compute, instance.profile) for instance in given)
        problems.append(f"{needs} = {compute} compute slices; {slicing.name} has {slicing.compute_slices}")
    for name, count in Counter(instance.profile for instance in given).items():
        if count > by_name[name].most:
            problems.append(f"{count} x {name}: a GPU holds {by_name[name].most} at most")
    media = [str(instance) for instance in given if by_name[instance.profile].media]
    if len(media) > 1:
        problems.append(f"{', '.join(media)}: one instance of a GPU at most has its media engines (+me)")
    return problems


def _span_text(instance: Instance) -> str:
    last = instance.start + instance.size - 1
    span = f"slices {instance.start} to {last}" if instance.size > 1 else f"slice {instance.start}"
    return f"{instance} (memory {span})"


def check(slicing: Slicing, instances: Iterable[Instance]) -> Layout:
    """The layout of instances. Raises MigError with the conflicting instances and all broken rules."""
    given = tuple(sorted(instances))
    problems = problems_of(slicing, given)
    raise_all(problems, MigError)
    return Layout(slicing=slicing.name, instances=given)


@cache
def layouts(slicing: Slicing, *, every: bool = False) -> tuple[Layout, ...]:
    """All layouts of the basic profiles but the empty one; with `every`, of all profiles (also 1g.10gb and +me).

    The A100 has 297 layouts of basic profiles.  The search walks over the memory slices: it leaves each one free or
    starts an instance there.
    """
    profiles = slicing.profiles if every else slicing.basic
    sets: list[tuple[Instance, ...]] = []

    def walk(at: int, taken: tuple[Instance, ...]) -> None:
        if at >= slicing.memory_slices:
            sets.append(taken)
            return
        walk(at + 1, taken)
        for profile in profiles:
            if at in profile.starts:
                more = (*taken, make_instance(profile, at))
                if counts_hold(slicing, more):
                    walk(at + profile.size, more)

    walk(0, ())
    return tuple(Layout(slicing=slicing.name, instances=instances) for instances in sorted(sets) if instances)


def counts_hold(slicing: Slicing, instances: tuple[Instance, ...]) -> bool:
    """Whether instances keep the limits of compute slices, of each profile, and of media engines."""
    counts = Counter(instance.profile for instance in instances)
    limits = {profile.name: (profile.most, profile.media) for profile in slicing.profiles}
    return (
        sum(instance.compute for instance in instances) <= slicing.compute_slices
        and all(count <= limits[name][0] for name, count in counts.items())
        and sum(count for name, count in counts.items() if limits[name][1]) <= 1
    )


@cache
def maximal(slicing: Slicing, *, every: bool = False) -> tuple[Layout, ...]:
    """The layouts without room for another instance: 19 on the A100 with basic profiles."""
    profiles = slicing.profiles if every else slicing.basic
    return tuple(
        layout
        for layout in layouts(slicing, every=every)
        if not _can_grow(slicing, profiles, layout.instances)
    )


def _can_grow(slicing: Slicing, profiles: tuple[Profile, ...], instances: tuple[Instance, ...]) -> bool:
    """Whether there is room for one more instance of any of these profiles."""
    taken = {at for instance in instances for at in instance.slices}
    return any(
        taken.isdisjoint(range(start, start + profile.size))
        and counts_hold(slicing, (*instances, make_instance(profile, start)))
        for profile in profiles
        for start in profile.starts
    )


def extensions(slicing: Slicing, layout: Layout) -> int:
    """The number of layouts that contain this one, itself included: the layouts that the GPU can still reach.

    It counts basic profiles only, unless one of these instances has another profile.
    """
    own = set(layout.instances)
    every = not {instance.profile for instance in own} <= {profile.name for profile in slicing.basic}
    return sum(own <= set(other.instances) for other in layouts(slicing, every=every))


def place(slicing: Slicing, wanted: Iterable[Profile], *, fixed: Iterable[Instance] = ()) -> Layout:
    """The layout of `wanted` and the instances of `fixed` that leaves the most other layouts open.

    Exact: every placement is tried.  Raises MigError with the blocking instances if there is none.
    """
    stays = tuple(sorted(fixed))
    rest = sorted(wanted, key=lambda profile: (-profile.size, -profile.compute, profile.name))
    placements: set[tuple[Instance, ...]] = set()

    def walk(left: list[Profile], taken: tuple[Instance, ...]) -> None:
        if not left:
            placements.add(tuple(sorted(taken)))
            return
        alike = taken[-1] if len(taken) > len(stays) and taken[-1].profile == left[0].name else None
        for start in left[0].starts:
            instance = make_instance(left[0], start)
            if alike is not None and start < alike.start:
                continue  # equal instances in order only; seven have 5,040 orders
            if not any(set(instance.slices) & set(other.slices) for other in taken):
                walk(left[1:], (*taken, instance))

    totals = problems_of(slicing, stays)
    totals += (
        []
        if totals
        else _totals(slicing, [*stays, *(make_instance(profile, profile.starts[0]) for profile in rest)])
    )
    if not totals:
        walk(rest, stays)
    if not placements:
        raise MigError(totals or [_no_room_text(slicing, rest, stays)])
    options = [Layout(slicing=slicing.name, instances=instances) for instances in sorted(placements)]
    return max(options, key=lambda layout: extensions(slicing, layout))


def _totals(slicing: Slicing, instances: list[Instance]) -> list[str]:
    """The problems of any placement: too many compute slices, memory slices, or instances of a profile."""
    spread = [text for text in problems_of(slicing, instances) if "memory slice" not in text]
    memory = sum(instance.size for instance in instances)
    if memory > slicing.memory_slices:
        needs = _sum_text((instance.size, instance.profile) for instance in instances)
        spread.append(f"{needs} = {memory} memory slices; {slicing.name} has {slicing.memory_slices}")
    return spread


def _sum_text(needs: Iterable[tuple[int, str]]) -> str:
    """ "4 (3g.20gb) + 2 x 1 (1g.5gb)", the largest first."""
    counted = sorted(Counter(needs).items(), reverse=True)
    return " + ".join(
        f"{f'{count} x ' if count > 1 else ''}{need} ({name})" for (need, name), count in counted
    )


def _no_room_text(slicing: Slicing, rest: list[Profile], stays: tuple[Instance, ...]) -> str:
    """Why `rest` does not fit next to `stays`: the first profile without room, and its blockers."""
    for profile in dict.fromkeys(rest):
        blocked = [
            f"at {start} by {' '.join(str(other) for other in stays if set(instance.slices) & set(other.slices))}"
            for start in profile.starts
            for instance in [make_instance(profile, start)]
            if any(set(instance.slices) & set(other.slices) for other in stays)
        ]
        if len(blocked) == len(profile.starts):
            size = f"{profile.size} memory slice{'s' if profile.size > 1 else ''}"
            return f"{slicing.name}: no room for {profile.name}, which needs {size}: blocked {', '.join(blocked)}"
    needs = ", ".join(f"{profile.name} (start {'/'.join(map(str, profile.starts))})" for profile in rest)
    kept = f" next to {' '.join(map(str, stays))}" if stays else ""
    return f"{slicing.name}: no placement of {needs}{kept} without two instances on one memory slice"


_ITEM = re.compile(
    r"(?:(\d{1,15})\s*[x*]\s*)?([a-z0-9.+\- ]+?)(?:\s*[@:]\s*(\d{1,15})(?:\s*:\s*\d+)?)?", re.IGNORECASE
)


def read_layout(slicing: Slicing, text: str) -> Layout:
    """The layout that a text describes: "4g,2g,1g", "7x1g.5gb", or with positions "3g.20gb@4,1g.5gb@0".

    Commas or blanks separate instances. Each is a profile's name or number. "@START" (or ":START") fixes its position;
    "7x" before it makes several instances with free positions.  Raises MigError with all problems.
    """
    fixed: list[Instance] = []
    free: list[Profile] = []
    problems: list[str] = []
    items = [item for item in re.split(r"[,;\s]+", text.strip()) if item]
    if len(items) > 64:
        raise MigError([f"{len(items)} instances given; a GPU holds {slicing.memory_slices} at most"])
    for item in items:
        match = _ITEM.fullmatch(item)
        if match is None:
            problems.append(
                f"cannot read {item[:40]!r}; expected a profile such as 3g.20gb, 3g.20gb@4, 2x1g.5gb"
            )
            continue
        number, name, start = match.groups()
        count = int(number or 1)
        try:
            profile = find_profile(slicing, name)
        except MigError as error:
            problems += error.problems
            continue
        if not 1 <= count <= slicing.memory_slices or (start is not None and count > 1):
            problems.append(f"{item[:40]}: 1 to {slicing.memory_slices} instances, and one at a given start")
        elif start is None:
            free += [profile] * count
        else:
            fixed.append(make_instance(profile, int(start)))
    if not items:
        example = f"{slicing.basic[-2].name},{slicing.basic[0].name}"
        problems.append(f"no instances in {text[:40]!r}; name some, such as {example}")
    problems += problems_of(slicing, fixed)
    raise_all(problems, MigError)
    return place(slicing, free, fixed=fixed)
