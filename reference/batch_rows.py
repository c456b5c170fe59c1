"""Steps to a target by batch in canonical columns.

curated(rows)    canonical rows of batch_steps.csv and its like
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from podsim.accuracy.tables import find_kind
from reference.csv_rows import each_row

_TARGET = "steps to reach "
"""How metrics begin that are counts of steps."""


def curated(rows: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
    """The canonical rows of a table of runs by batch, as many and in order; what is no count of steps has a reason."""
    return each_row(rows, (*find_kind("batch-steps").columns, "reason"), _cells)


def _cells(row: Mapping[str, str]) -> dict[str, str]:
    is_steps = row["metric"].startswith(_TARGET)
    return {
        "name": _name(row), "model": row["task"], "data": row["dataset"],
        "steps": row["steps"] if is_steps else "", "metric": row["metric"].removeprefix(_TARGET),
        "value": "" if is_steps else row["value"],
        "reason": "" if is_steps else f"{row['metric'][:60]}: podsim predicts steps to a target, no accuracy by batch",
    }  # fmt: skip


def _name(row: Mapping[str, str]) -> str:
    """The first word of the study, and the model or its size: what rows of one law share."""
    size = re.search(r"\b\d+(?:\.\d+)?[MB]\b", row["task"])
    words = size[0] if size else row["task"]
    return "-".join(
        re.findall(r"[a-z0-9.]+", f"{row['study'].partition(' ')[0].partition('-')[0]} {words}".lower())
    )
