"""Instances on a GPU: reading, checking and enumerating layouts.

The rule: an instance of a profile takes `size` memory slices from one of the profile's starts; no memory slice is
taken twice, the compute slices of all instances are at most those of the GPU, a profile is there at most `most` times,
and one instance at most has the media engines. That is all: order does not matter once instances are there, but
instances cannot be moved, so it matters while they are created.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from podsim.errors import MigError
from podsim.hardware.mig.profiles import Profile, Slicing, find_profile


@dataclass(frozen=True, kw_only=True, order=True)
class Instance:
    """One instance at its place."""

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
        """Memory slices it takes."""
        return range(self.start, self.start + self.size)

    def __str__(self) -> str:
        """As podsim reads it: 3g.20gb@4."""
        return f"{self.profile}@{self.start}"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Instances that stand on one GPU together, by first memory slice."""

    slicing: str
    """The name of the table of profiles."""
    instances: tuple[Instance, ...]
    """The instances, by first memory slice."""

    def __str__(self) -> str:
        """As podsim reads it: 2g.10gb@0 3g.20gb@4."""
        return " ".join(str(one) for one in self.instances) or "empty"

    @property
    def compute(self) -> int:
        """Compute slices in use."""
        return sum(one.compute for one in self.instances)

    @property
    def memory(self) -> int:
        """Memory slices in use."""
        return sum(one.size for one in self.instances)

    @property
    def profiles(self) -> tuple[str, ...]:
        """Names, sorted: what is there, wherever it stands."""
        return tuple(sorted(one.profile for one in self.instances))


def instance(profile: Profile, start: int) -> Instance:
    """The instance of a profile at a start."""
    return Instance(profile=profile.name, start=start, size=profile.size, compute=profile.compute)


def problems_of(slicing: Slicing, instances: Iterable[Instance]) -> list[str]:
    """Everything that is wrong with instances standing together, each with the rule."""
    given = sorted(instances)
    by_name = {one.name: one for one in slicing.profiles}
    problems = []
    for one in given:
        starts = by_name[one.profile].starts
        if one.start not in starts:
            problems.append(f"{one}: {one.profile} may start at memory slice {', '.join(map(str, starts))}")
    for place, one in enumerate(given):
        for other in given[place + 1 :]:
            both = sorted(set(one.slices) & set(other.slices))
            if both:
                problems.append(
                    f"{_where(one)} and {_where(other)} both need memory slice {', '.join(map(str, both))}"
                )
    compute = sum(one.compute for one in given)
    if compute > slicing.compute_slices:
        needs = _sum((one.compute, one.profile) for one in given)
        problems.append(f"{needs} = {compute} compute slices; {slicing.name} has {slicing.compute_slices}")
    for name, count in Counter(one.profile for one in given).items():
        if count > by_name[name].most:
            problems.append(f"{count} x {name}: a GPU holds {by_name[name].most} at most")
    media = [str(one) for one in given if by_name[one.profile].media]
    if len(media) > 1:
        problems.append(f"{', '.join(media)}: one instance of a GPU at most has its media engines (+me)")
    return problems


def _where(one: Instance) -> str:
    last = one.start + one.size - 1
    return f"{one} (memory slice{'s' if one.size > 1 else ''} {one.start}{f' to {last}' if one.size > 1 else ''})"


def check(slicing: Slicing, instances: Iterable[Instance]) -> Layout:
    """The layout of instances. Raises MigError that names the conflicting ones, and every rule that is broken."""
    given = tuple(sorted(instances))
    problems = problems_of(slicing, given)
    if problems:
        raise MigError(problems)
    return Layout(slicing=slicing.name, instances=given)


@cache
def layouts(slicing: Slicing, *, every: bool = False) -> tuple[Layout, ...]:
    """Every layout but the empty one, of the basic profiles; with `every`, of all (1g.10gb and +me, too).

    The A100 has 297 of the basic ones.  Found by walking over memory slices: at each, leave it free or start an
    instance there.
    """
    profiles = slicing.profiles if every else slicing.basic
    found: list[tuple[Instance, ...]] = []

    def walk(at: int, taken: tuple[Instance, ...]) -> None:
        if at >= slicing.memory_slices:
            found.append(taken)
            return
        walk(at + 1, taken)
        for profile in profiles:
            if at in profile.starts:
                more = (*taken, instance(profile, at))
                if counts_hold(slicing, more):
                    walk(at + profile.size, more)

    walk(0, ())
    return tuple(Layout(slicing=slicing.name, instances=one) for one in sorted(found) if one)


def counts_hold(slicing: Slicing, instances: tuple[Instance, ...]) -> bool:
    """Whether compute slices, numbers of a profile and media engines are enough."""
    counts = Counter(one.profile for one in instances)
    limits = {one.name: (one.most, one.media) for one in slicing.profiles}
    return (
        sum(one.compute for one in instances) <= slicing.compute_slices
        and all(count <= limits[name][0] for name, count in counts.items())
        and sum(count for name, count in counts.items() if limits[name][1]) <= 1
    )


@cache
def maximal(slicing: Slicing, *, every: bool = False) -> tuple[Layout, ...]:
    """The layouts to which no instance can be added: 19 of the A100 with its basic profiles."""
    profiles = slicing.profiles if every else slicing.basic
    return tuple(
        one for one in layouts(slicing, every=every) if not _can_grow(slicing, profiles, one.instances)
    )


def _can_grow(slicing: Slicing, profiles: tuple[Profile, ...], instances: tuple[Instance, ...]) -> bool:
    """Whether one more instance of some profile has a place."""
    taken = {at for one in instances for at in one.slices}
    return any(
        taken.isdisjoint(range(start, start + profile.size))
        and counts_hold(slicing, (*instances, instance(profile, start)))
        for profile in profiles
        for start in profile.starts
    )


def extensions(slicing: Slicing, layout: Layout) -> int:
    """Layouts that hold all these instances where they are, this one included: what can still become of the GPU.

    Of the basic profiles, unless one of these instances has another.
    """
    own = set(layout.instances)
    every = not {one.profile for one in own} <= {one.name for one in slicing.basic}
    return sum(own <= set(one.instances) for one in layouts(slicing, every=every))


def place(slicing: Slicing, wanted: Iterable[Profile], *, fixed: Iterable[Instance] = ()) -> Layout:
    """The layout that holds `wanted` in addition to the instances of `fixed`, and leaves the most other layouts open.

    Exact: every way to place them is tried.  Raises MigError if there is none, with what is in the way.
    """
    stays = tuple(sorted(fixed))
    rest = sorted(wanted, key=lambda one: (-one.size, -one.compute, one.name))
    found: set[tuple[Instance, ...]] = set()

    def walk(left: list[Profile], taken: tuple[Instance, ...]) -> None:
        if not left:
            found.add(tuple(sorted(taken)))
            return
        alike = taken[-1] if len(taken) > len(stays) and taken[-1].profile == left[0].name else None
        for start in left[0].starts:
            one = instance(left[0], start)
            if alike is not None and start < alike.start:
                continue  # equal ones in order, or seven would be tried in 5,040
            if not any(set(one.slices) & set(other.slices) for other in taken):
                walk(left[1:], (*taken, one))

    totals = problems_of(slicing, stays)
    totals += [] if totals else _totals(slicing, [*stays, *(instance(one, one.starts[0]) for one in rest)])
    if not totals:
        walk(rest, stays)
    if not found:
        raise MigError(totals or [_no_room(slicing, rest, stays)])
    made = [Layout(slicing=slicing.name, instances=one) for one in sorted(found)]
    return max(made, key=lambda one: extensions(slicing, one))


def _totals(slicing: Slicing, instances: list[Instance]) -> list[str]:
    """The problems that no placement solves: too many compute slices, or too many of a profile."""
    spread = [text for text in problems_of(slicing, instances) if "memory slice" not in text]
    memory = sum(one.size for one in instances)
    if memory > slicing.memory_slices:
        needs = _sum((one.size, one.profile) for one in instances)
        spread.append(f"{needs} = {memory} memory slices; {slicing.name} has {slicing.memory_slices}")
    return spread


def _sum(needs: Iterable[tuple[int, str]]) -> str:
    """ "4 (3g.20gb) + 2 x 1 (1g.5gb)", the largest first."""
    counted = sorted(Counter(needs).items(), reverse=True)
    return " + ".join(
        f"{f'{count} x ' if count > 1 else ''}{need} ({name})" for (need, name), count in counted
    )


def _no_room(slicing: Slicing, rest: list[Profile], stays: tuple[Instance, ...]) -> str:
    """Why the rest does not fit next to what stays: the first instance that is blocked everywhere, and by what."""
    for profile in dict.fromkeys(rest):
        blocked = [
            f"at {start} by {' '.join(str(other) for other in stays if set(one.slices) & set(other.slices))}"
            for start in profile.starts
            for one in [instance(profile, start)]
            if any(set(one.slices) & set(other.slices) for other in stays)
        ]
        if len(blocked) == len(profile.starts):
            size = f"{profile.size} memory slice{'s' if profile.size > 1 else ''}"
            return f"{slicing.name}: no room for {profile.name}, which needs {size}: blocked {', '.join(blocked)}"
    needs = ", ".join(f"{one.name} (start {'/'.join(map(str, one.starts))})" for one in rest)
    kept = f" next to {' '.join(map(str, stays))}" if stays else ""
    return f"{slicing.name}: no placement of {needs}{kept} without two instances on one memory slice"


_ITEM = re.compile(r"(?:(\d+)\s*[x*]\s*)?([a-z0-9.+\- ]+?)(?:\s*[@:]\s*(\d+)(?:\s*:\s*\d+)?)?", re.IGNORECASE)


def read_layout(slicing: Slicing, text: str) -> Layout:
    """The layout that a text describes: "4g,2g,1g", "7x1g.5gb", with places "3g.20gb@4,1g.5gb@0".

    Instances are divided by commas or blanks; each is a profile's name or number, with "@START" (or ":START") where
    its place matters, and with "7x" before it for several, which are then placed freely.  Raises MigError with
    everything that is wrong.
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
            problems.append(f"{item[:40]}: 1 to {slicing.memory_slices} instances, and one at a given place")
        elif start is None:
            free += [profile] * count
        else:
            fixed.append(instance(profile, int(start)))
    if not items:
        example = f"{slicing.basic[-2].name},{slicing.basic[0].name}"
        problems.append(f"no instances in {text[:40]!r}; name some, such as {example}")
    problems += problems_of(slicing, fixed)
    if problems:
        raise MigError(problems)
    return place(slicing, free, fixed=fixed)
