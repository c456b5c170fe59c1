"""A row that does not state its micro-batch: podsim takes the fastest plan that fits of those the row leaves open.

Whoever publishes a rate has tuned for it, so the best plan is the likeliest. What the row states stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podsim.accuracy.express_row import stated
from podsim.errors import NoFitError
from podsim.hardware.cluster import Cluster
from podsim.training.plan import Plan
from podsim.training.search import search
from podsim.units import format_quantity
from podsim.workload.graph import Model

# a plan's field -> the column that states it
_COLUMNS = {
    "tp": "tp",
    "pp": "pp",
    "virtual_stages": "virtual_pp",
    "cp": "cp",
    "ep": "ep",
    "sequence_parallel": "seq_parallel",
    "zero": "zero_stage_or_fsdp",
    "recompute": "recompute",
}
_ALWAYS = {"cp": 1, "ep": 1}
"""what a blank column means where a run that had it would say so"""


def settle(known: Plan, row: Mapping[str, str], model: Model, cluster: Cluster) -> tuple[Plan, list[str]]:
    """(the plan, what was chosen, worded); NoFitError when none fits, PlanError when none is legal.

    `known` has what the row states, and anything in the fields that it does not.
    """
    given: dict[str, Any] = {}
    for field, column in _COLUMNS.items():
        if stated(row, column):
            given[field] = (int(getattr(known, field)),)
        elif field in _ALWAYS:
            given[field] = (_ALWAYS[field],)
    if "recompute" in given:
        given["recompute_layers"] = (0,)
    wanted = {"flash": (bool(known.flash),), **given}
    found = search(model, cluster, known, gpus=int(known.gpus), wanted=wanted)
    if found.order.size == 0:
        least, room = (format_quantity(float(b), "B") for b in (found.memory_C.min(), cluster.gpu.memory))
        raise NoFitError(
            [f"micro_batch is not given, and no plan that the row allows fits: {least} of {room}"]
        )
    plan = found.plan(int(found.order[0]))
    if stated(row, "global_batch"):
        given["global_batch"] = (int(plan.global_batch),)
    return plan, _worded(plan, given)


def _worded(plan: Plan, given: Mapping[str, Any]) -> list[str]:
    """The settings of a plan that were not given."""
    told = plan.describe()
    fields = ("tp", "pp", "dp") if "tp" not in given else ()
    names = [
        *fields,
        "global_batch",
        "micro_batch",
        "virtual_stages",
        "sequence_parallel",
        "zero",
        "recompute",
    ]
    return [f"{name}={told[name]}" for name in names if name not in given]
