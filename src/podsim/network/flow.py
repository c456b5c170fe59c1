"""Max-min fair sharing of links: mathematics only, no hardware.

Every flow follows a route of links. Rates rise together from zero (in proportion to the flows' weights); when a link
is full, the flows through it stop rising; the rest goes on. The result is the one allocation in which no flow can gain
without a flow of equal or smaller rate losing (D. Bertsekas, R. Gallager, Data Networks, 2nd ed., 1992, section 6.5.2).

Routes are in compressed rows: flow f uses links[indptr[f] : indptr[f + 1]]. A flow without links is local: infinite rate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from podsim.axes import Floats, Ints
from podsim.errors import ClusterError
from podsim.native import c_function, is_compiled


class Flows(NamedTuple):
    """Flows on links: flow f uses links[starts[f] : ends[f]]."""

    starts: Ints
    ends: Ints
    links: Ints
    use: Floats
    """B. The bytes of a link that a unit of a flow's rate takes, [entries]."""
    weights: Floats
    capacity: Floats
    """B/s. The capacity of each link."""


class Scratch(NamedTuple):
    """Cells of each link for the C sources to write in."""

    left: Floats
    """B/s. The rate that no flow has taken yet."""
    load: Floats
    """factor. The load that the rising flows put on the link per unit of rate; below 0 once it is full."""
    users: Ints
    """The number of rising flows; 0 on entry and exit."""
    busy: Ints
    """The links that have rising flows, in a list."""


_fill = c_function("flow_fill", Ints, int, Flows, Floats, Scratch)
"""Max-min rates of the first of `todo`, written to `rates`; others are taken as absent. `todo` is used up. A flow listed
twice counts twice."""


_FEW = 10_000
"""Route entries up to which rates need no C library, where none is there."""
_LEVEL = 1.0 + 1e-12
"""links that fill within this factor of each other fill together, as in flow.c"""


def _filled_rates(flows: Flows) -> Floats:
    """Max-min rates of all flows, as flow.c computes them."""
    owner = np.repeat(np.arange(len(flows.starts)), flows.ends - flows.starts)
    links, load = flows.links, flows.use * flows.weights[owner]
    rates, left = np.full(len(flows.starts), np.inf), flows.capacity.copy()
    rising = np.ones(len(rates), np.bool_)
    while np.any(rising[owner]):
        on = rising[owner]
        total = np.bincount(links[on], load[on], len(left))
        levels = np.divide(left, total, out=np.full(len(left), np.inf), where=total > 0)
        level = levels.min()
        stopped = rising & (np.bincount(owner, levels[links] <= level * _LEVEL, len(rates)) > 0)
        rates[stopped] = level * flows.weights[stopped]
        on = stopped[owner]
        left = np.maximum(left - np.bincount(links[on], level * load[on], len(left)), 0.0)
        rising &= ~stopped
    return rates


def _problems(indptr: Ints, links: Ints, copies: Floats, weights: Floats, capacity: Floats) -> list[str]:
    """What is wrong with the arguments, with the first row of each kind named."""
    flows = len(indptr) - 1
    if flows < 0 or indptr[0] != 0 or indptr[-1] != len(links) or np.any(np.diff(indptr) < 0):
        return [
            f"indptr must rise from 0 to {len(links)}, the number of route entries, one value more than flows"
        ]
    if len(weights) != flows or len(copies) != flows:
        return [f"{len(weights)} weights and {len(copies)} copies for {flows} flows; give one of each a flow"]
    problems = []

    def row(entry: int) -> int:
        return int(np.searchsorted(indptr, entry, side="right")) - 1

    for entry in np.flatnonzero((links < 0) | (links >= len(capacity)))[:1]:
        problems.append(
            f"flow {row(entry)} uses link {links[entry]}; there are links 0 to {len(capacity) - 1}"
        )
    for link in np.flatnonzero(~(capacity >= 0.0))[:1]:
        problems.append(
            f"link {link} has capacity {capacity[link]:g}; it must be a number of B/s, not negative"
        )
    for what, values in (("weight", weights), ("copies", copies)):
        for f in np.flatnonzero(~((values > 0.0) & np.isfinite(values)))[:1]:
            problems.append(f"flow {f} has {what} {values[f]:g}; it must be positive and finite")
    if not problems:
        for entry in np.flatnonzero(capacity[links] == 0.0)[:1]:
            problems.append(
                f"flow {row(entry)} goes through link {links[entry]} of zero capacity: it would never end"
            )
    return problems


def _use_problems(indptr: Ints, use: Floats) -> list[str]:
    """What is wrong with the use of the links."""
    if len(use) != indptr[-1]:
        return [f"{len(use)} values of use for {indptr[-1]} route entries; give one each"]
    wrong = np.flatnonzero(~((use > 0.0) & np.isfinite(use)))[:1]
    rule = "it must be positive and finite"
    return [
        f"flow {int(np.searchsorted(indptr, i, side='right')) - 1} has use {use[i]:g}; {rule}" for i in wrong
    ]


def max_min_rates(
    routes: tuple[ArrayLike, ArrayLike],
    capacities: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    copies: ArrayLike | None = None,
    use: ArrayLike | None = None,
) -> Floats:
    """Rate of every flow (B/s), shape [flows]; infinite for a flow without links.

    routes: (indptr [flows + 1], links [entries]). capacities: B/s, [links]; an infinite link never binds.
    weights: share of a flow against others on a full link, [flows], default 1 (of like size: within a factor of 1e9).
    copies: how many equal flows a row stands for, [flows], default 1; the rate returned is that of one copy.
    use: how much of the link a unit of a flow's rate takes, [entries], default 1: a flow striped over four links uses a
    quarter of each, and a link may count something else than bytes (processor seconds a byte).
    Raises ClusterError (a ValueError) naming the row: index out of range, zero or negative capacity, NaN.
    """
    indptr, links = (np.ascontiguousarray(part, np.int64) for part in routes)
    capacity = np.ascontiguousarray(capacities, np.float64)
    flows = max(len(indptr) - 1, 0)
    weight = np.ones(flows) if weights is None else np.ascontiguousarray(weights, np.float64)
    copy = np.ones(flows) if copies is None else np.ascontiguousarray(copies, np.float64)
    taken = np.ones(len(links)) if use is None else np.ascontiguousarray(use, np.float64)
    problems = _problems(indptr, links, copy, weight, capacity)
    if problems or (problems := _use_problems(indptr, taken)):
        raise ClusterError("; ".join(problems))
    taken = np.repeat(copy, np.diff(indptr)) * taken
    if len(links) <= _FEW and not is_compiled():
        return _filled_rates(Flows(indptr[:-1], indptr[1:], links, taken, weight, capacity))
    rates = np.empty(flows)
    scratch = Scratch(*(np.zeros(len(capacity), kind) for kind in (float, float, np.int64, np.int64)))
    routed = Flows(indptr[:-1], indptr[1:], links, taken, weight, capacity)
    _fill(np.arange(flows), flows, routed, rates, scratch)
    return rates
