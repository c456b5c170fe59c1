"""From the present instances to the requested ones: those that stay, those that go, and those that prevent it.

Instances cannot be moved or resized: one that is in the way must be destroyed, and its job stopped.  How long the
driver takes for it is in no published measurement, so the cost is given in instances and jobs, never in seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from podsim.errors import MigError
from podsim.hardware.mig.layouts import Instance, Layout, layouts, place
from podsim.hardware.mig.profiles import Slicing, find_profile


@dataclass(frozen=True, kw_only=True)
class Change:
    """What must be done to one GPU."""

    target: Layout
    """The layout that is reached."""
    keep: tuple[Instance, ...]
    """The instances that stay."""
    destroy: tuple[Instance, ...]
    """The instances to destroy, in this order, before any is created."""
    create: tuple[Instance, ...]
    """The instances to create after that."""
    stopped: tuple[Instance, ...]
    """The busy instances that would have to be destroyed; empty if the layout can be reached."""

    @property
    def reachable(self) -> bool:
        """Whether no busy instance is in the way."""
        return not self.stopped


def change_to(
    slicing: Slicing,
    now: Iterable[Instance],
    target: Layout,
    *,
    free: bool = True,
    busy: Iterable[Instance] = (),
) -> Change:
    """How to reach the instances of `target` from those there are now.

    With `free`, only which profiles are there matters, and the placement is chosen that stops the fewest busy instances,
    then destroys the fewest.  Exact: every placement is compared.
    """
    present, occupied = set(now), set(busy)
    assert occupied <= present, occupied - present
    choices = [target]
    if free:
        wanted = Counter(target.profiles)
        basic = {one.name for one in slicing.basic}
        every = not set(wanted) <= basic
        choices += [one for one in layouts(slicing, every=every) if Counter(one.profiles) == wanted]

    def cost(one: Layout) -> tuple[int, int, tuple[Instance, ...]]:
        gone = present - set(one.instances)
        return len(gone & occupied), len(gone), one.instances

    best = min(choices, key=cost)
    kept = present & set(best.instances)
    return Change(
        target=best,
        keep=tuple(sorted(kept)),
        destroy=tuple(sorted(present - kept)),
        create=tuple(sorted(set(best.instances) - kept)),
        stopped=tuple(sorted((present - kept) & occupied)),
    )


def additions(slicing: Slicing, layout: Layout) -> dict[str, int]:
    """The number of further instances of each profile, alone, that could be added to a layout."""
    found: dict[str, int] = {}
    for profile in slicing.profiles:
        number = 0
        while number < profile.most:
            try:
                place(slicing, [find_profile(slicing, profile.name)] * (number + 1), fixed=layout.instances)
            except MigError:
                break
            number += 1
        found[profile.name] = number
    return found
