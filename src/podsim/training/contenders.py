"""Which plans of a search need a time: those that may be the fastest of their layout, or on the front of memory and time.

A step takes at least the time of its passes and sends without exchanges, which plans of one layout share. A plan
whose least time is above the time of another plan of its degrees, and of one with no more memory, can be neither.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from podsim.axes import Shaped
from podsim.records import dataclass
from podsim.training.layout import Layout
from podsim.training.plan import Plan
from podsim.training.plan_values import Array
from podsim.training.software import Software
from podsim.training.step import through_seconds, wire_seconds

_DEGREES = ("tp", "pp", "cp", "ep")
"""The degrees that make two plans on one number of GPUs different layouts to a user."""
_TIED = 1 + 1e-6
"""factor. A plan within this of the fastest of its degrees keeps its time."""


def least_layout_seconds(layout: Layout, software: Software, core_share: float) -> Shaped[Array, "plan"]:
    """s that no step of a layout is below, whatever its ranks divide and overlap; its optimizer comes on top.

        least = max(longest path, work of the busiest rank + its sends, sends on a wire) + host

    Exchanges only add to that, except where pairs of passes hide them or ranks share cores: there it is 0.
    """
    if layout.passes.exchanges is not None or core_share < 1:
        return np.zeros_like(layout.micro_batches)
    busiest = layout.micro_batches * layout.stage_seconds.max(axis=0)
    sends = 2 * layout.micro_batches * layout.chunks * layout.charge_seconds
    through = through_seconds(layout.path_seconds.max(axis=0), busiest, sends)
    return np.maximum(through, wire_seconds(layout)) + software.host_step


def runs_of_degrees(plans: Plan) -> tuple[Shaped[Array, "plan"], Shaped[Array, "run"]]:
    """(the number of each plan's run of equal degrees, the number of each run's degrees)."""
    values = np.stack([np.broadcast_to(getattr(plans, name), plans.size) for name in _DEGREES])
    changes = np.append(True, (values[:, 1:] != values[:, :-1]).any(axis=0))
    degrees = np.unique(values[:, changes], axis=1, return_inverse=True)[1].ravel()
    return np.cumsum(changes) - 1, degrees


@dataclass(frozen=True, kw_only=True)
class Contenders:
    """Bounds of all plans, from which the ones that need a time follow."""

    runs: Shaped[Array, "plan"]
    """The number of each plan's run of equal degrees, ascending."""
    degrees: Shaped[Array, "run"]
    """The number of each run's degrees."""
    least_seconds: Shaped[Array, "plan"]
    """s. The least time of each; infinite where it is unknown."""
    memory_bytes: Shaped[Array, "plan"]
    roomy_bytes: float = np.inf
    """B. The memory up to which a plan has headroom: the fastest of these, too, gets a time."""

    @cached_property
    def _is_roomy(self) -> Shaped[Array, "plan"]:
        return np.asarray(self.memory_bytes <= self.roomy_bytes)

    @cached_property
    def _starts(self) -> Shaped[Array, "run"]:
        """The first plan of each run that has one."""
        return np.flatnonzero(np.diff(self.runs, prepend=-1))

    @cached_property
    def _degrees(self) -> Shaped[Array, "run"]:
        return np.asarray(self.degrees[self.runs[self._starts]])

    def _of_runs(self, values: Shaped[Array, "run"]) -> Shaped[Array, "plan"]:
        return np.repeat(values, np.diff(np.append(self._starts, self.least_seconds.size)))

    def first(self) -> Shaped[Array, "position"]:
        """Plans to time first: of each run those with the lowest bound, with headroom too, and with the least memory."""
        least = self._least_of_runs(self.least_seconds)
        lightest = self._least_of_runs(np.where(np.isfinite(self.least_seconds), self.memory_bytes, np.inf))
        positions = [least, lightest]
        if not self._is_roomy.all():
            positions.append(self._least_of_runs(np.where(self._is_roomy, self.least_seconds, np.inf)))
        return np.unique(np.concatenate(positions))

    def _least_of_runs(self, values: Shaped[Array, "plan"]) -> Shaped[Array, "position"]:
        least = np.minimum.reduceat(values, self._starts)
        equal = np.flatnonzero((values == self._of_runs(least)) & np.isfinite(values))
        run = np.searchsorted(self._starts, equal, side="right")
        return equal[np.flatnonzero(np.diff(run, prepend=-1))]

    def _best_of_degrees(self, timed: Array, seconds: Shaped[Array, "position"]) -> Shaped[Array, "plan"]:
        """The time within which a plan may be the fastest of its degrees."""
        best = np.full(int(self._degrees.max()) + 1, np.inf)
        run = np.searchsorted(self._starts, timed, side="right") - 1
        np.minimum.at(best, self._degrees[run], seconds)
        return self._of_runs(best[self._degrees] * _TIED)

    def after(self, timed: Shaped[Array, "position"], seconds: Shaped[Array, "position"]) -> Array:
        """Positions that the times of some plans do not exclude, those plans among them."""
        near = self.least_seconds <= self._best_of_degrees(timed, seconds)
        if not self._is_roomy.all():
            roomy = np.where(self._is_roomy[timed], seconds, np.inf)
            near |= self._is_roomy & (self.least_seconds <= self._best_of_degrees(timed, roomy))
        order = np.lexsort((seconds, self.memory_bytes[timed]))
        memory, fastest = self.memory_bytes[timed][order], np.minimum.accumulate(seconds[order])
        # every plan has at least the memory of the first: only those below its time can be on the front
        doubtful = np.flatnonzero(~near & (self.least_seconds <= fastest[0]))
        below = fastest[np.searchsorted(memory, self.memory_bytes[doubtful], side="right") - 1]
        near[doubtful] = below >= self.least_seconds[doubtful]
        return np.flatnonzero(near & np.isfinite(self.least_seconds))
