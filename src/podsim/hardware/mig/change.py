"""The change from the present instances to a target layout: instances to keep, destroy and create.

Instances cannot move or change size: one in the way must be destroyed, and its job stopped.  No published
measurement gives the driver's time for this, so the cost is in instances and jobs, never in seconds.
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
    """The steps that change one GPU."""

    target: Layout
    """The layout after the change."""
    keep: tuple[Instance, ...]
    """The instances to keep."""
    destroy: tuple[Instance, ...]
    """The instances to destroy, in this order, before any is created."""
    create: tuple[Instance, ...]
    """The instances to create after that."""
    stopped: tuple[Instance, ...]
    """The busy instances in the way; empty if the layout is reachable."""

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
    """The change from the instances `now` to those of `target`.

    With `free`, only the profiles of the target matter: of all placements, the result stops the fewest busy instances,
    then destroys the fewest.  Exact: every placement is compared.
    """
    present, occupied = set(now), set(busy)
    assert occupied <= present, occupied - present
    choices = [target]
    if free:
        wanted = Counter(target.profiles)
        basic = {profile.name for profile in slicing.basic}
        every = not set(wanted) <= basic
        choices += [layout for layout in layouts(slicing, every=every) if Counter(layout.profiles) == wanted]

    def cost(layout: Layout) -> tuple[int, int, tuple[Instance, ...]]:
        gone = present - set(layout.instances)
        return len(gone & occupied), len(gone), layout.instances

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
    """The number of further instances of each profile, alone, that fit next to a layout."""
    counts: dict[str, int] = {}
    for profile in slicing.profiles:
        number = 0
        while number < profile.most:
            try:
                place(slicing, [find_profile(slicing, profile.name)] * (number + 1), fixed=layout.instances)
            except MigError:
                break
            number += 1
        counts[profile.name] = number
    return counts
