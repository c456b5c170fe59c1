"""What pipeline schedules hold: micro-batches in flight and copies of weights, for many plans at once.

Source: Narayanan et al. 2021 (micro-batches in flight); each schedule's own numbers are in `schedules/entries.py`.
"""

from __future__ import annotations

import numpy as np

from podsim.axes import Shaped
from podsim.schedules.entries import SCHEDULES, ScheduleEntry
from podsim.training.plan import Plan
from podsim.training.plan_values import SCHEDULE_CODES, Array


def micro_batches_in_flight(plan: Plan, first: Shaped[Array, "stage plan"]) -> Shaped[Array, "stage plan"]:
    """Micro-batches (of a whole stage) whose activations a stage holds at once.

    1F1B: as many as stages from here to the end.  Interleaved: 2 (p - i - 1) + (v - 1) p + 1 chunks.  GPipe: all.
    Each schedule says its own (`schedules/entries.py`); it is what a play of its table holds at most, if weight
    gradients free what split backward passes hold.
    """
    return np.asarray(
        schedule_number(plan, first, "activations") / np.asarray(plan.virtual_stages, dtype=float)
    )


def weight_copies(
    plan: Plan, first: Shaped[Array, "stage plan"]
) -> tuple[Shaped[Array, "stage plan"], Shaped[Array, "stage plan"]] | None:
    """(homes, versions): copies of a stage's parameters that are trained, and of its weights that are kept.

    None where no plan has more than one of either.

    DualPipe trains each part on two ranks, so that a rank has twice its share of weights, gradients and optimizer.
    Asynchronous schedules train one copy and keep older versions of its weights for backward passes to come.
    """
    if not any(code in _COPIED for code in plan.schedule_codes):
        return None
    copies = schedule_number(plan, first, "copies")
    endless = np.isin(plan.schedule, _ENDLESS)
    return np.where(endless, 1.0, copies), np.where(endless, copies, 1.0)


_ENTRIES = {int(SCHEDULE_CODES[name]): entry for name, entry in SCHEDULES.items()}
_ENDLESS = tuple(code for code, entry in _ENTRIES.items() if not entry.flush)
_COPIED = tuple(code for code, entry in _ENTRIES.items() if entry.copies is not ScheduleEntry.copies)
"""The schedules that keep more than one copy of weights."""


def schedule_number(plan: Plan, first: Shaped[Array, "stage plan"], what: str) -> Shaped[Array, "stage plan"]:
    """The number that each plan's schedule has for its sizes."""
    sizes = [np.asarray(x, dtype=float) for x in (plan.pp, plan.virtual_stages, plan.micro_batches)]
    codes = plan.schedule_codes
    number = getattr(_ENTRIES[codes[0]], what)(*sizes, first)
    for code in codes[1:]:
        own = getattr(_ENTRIES[code], what)(*sizes, first)
        number = np.where(np.asarray(plan.schedule) == code, own, number)
    return np.asarray(number + 0.0 * first)  # of their common shape
