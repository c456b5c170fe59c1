"""Rows of llm_training in their sources' words -> canonical columns, by the reader of podsim validate --rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from podsim.accuracy.measured_runs import NotExpressible, write_settings
from podsim.accuracy.own_rows import own_training_run, stated_row
from podsim.accuracy.row_remarks import counted_cells
from podsim.accuracy.tables import find_kind
from podsim.errors import PodsimError
from podsim.training.plan import Plan
from reference.csv_rows import each_row

COLUMNS = ("network", "cluster", "plan", "scope", "chosen", "implied", "reason")


def curated(rows: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """The canonical rows of rows of llm_training."""
    columns = [column for column in find_kind("llm").columns if column != "tables"]
    return each_row(rows, columns, lambda row: {**counted_cells(row), **canonical(row)})


def canonical(row: Mapping[str, str]) -> dict[str, str]:
    """The canonical columns of a row: its network, cluster and plan, or the reason why it has none."""
    blank = dict.fromkeys(COLUMNS, "")
    try:
        cells, run = stated_row(row).cells, own_training_run(row)
    except (PodsimError, NotExpressible) as problem:
        return blank | {"reason": str(problem)}
    return blank | {
        "network": cells["network"], "cluster": cells["cluster"], "plan": plan_settings(run.plan),
        "scope": cells.get("scope", ""), "chosen": run.chosen, "implied": run.implied,
    }  # fmt: skip


def plan_settings(plan: Plan) -> str:
    """The settings of a plan that are not the defaults, as text in the order of their names."""
    default = Plan().describe()
    return write_settings(
        "",
        {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in sorted(plan.describe().items())
            if value != default[name]
        },
    )
