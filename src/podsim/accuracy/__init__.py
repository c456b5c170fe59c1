"""Reference tables, each number with its source, and how predictions stand against them.

    rows = load("korthikanti")
    comparison = compare(rows, {row.id: row_seconds(row) for row in rows})
    comparison.score("test").mae

    compare_steps(read_kineto("trace.json.gz"), simulated)   a profile of a real step beside a simulated one

Nothing here knows how a prediction is made.
"""

from podsim.accuracy.reading import read_rows
from podsim.accuracy.score import (
    assess,
    best_constant,
    compare,
    kendall_tau,
    mean_absolute_error,
    regrets,
    relative_errors,
    score,
    skill,
    sweep_tau,
)
from podsim.accuracy.tables import NAMED, NamedTable, Row, Rows, load, measurement, named, names, quantities
from podsim.timeline.kineto import read_kineto
from podsim.timeline.kineto_compare import compare_steps

__all__ = [
    "NAMED",
    "NamedTable",
    "Row",
    "Rows",
    "assess",
    "best_constant",
    "compare",
    "compare_steps",
    "kendall_tau",
    "load",
    "mean_absolute_error",
    "measurement",
    "named",
    "names",
    "quantities",
    "read_kineto",
    "read_rows",
    "regrets",
    "relative_errors",
    "score",
    "skill",
    "sweep_tau",
]
