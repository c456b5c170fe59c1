"""Reference tables, each number with its source, and how predictions stand against them.

    rows = load("korthikanti")
    comparison = compare(rows, {row.id: seconds_of(row) for row in rows})
    comparison.score("test").mae

    compare_steps(read_kineto("trace.json.gz"), simulated)   a profile of a real step beside a simulated one

Nothing here knows how a prediction is made.
"""

from podsim.verify.compare import compare
from podsim.verify.kineto import read_kineto
from podsim.verify.kineto_compare import compare_steps
from podsim.verify.measurements import measurement, quantities
from podsim.verify.reading import read_rows
from podsim.verify.rows import Row, Rows
from podsim.verify.score import (
    assess,
    best_constant,
    kendall_tau,
    mean_absolute_error,
    regrets,
    relative_errors,
    score,
    skill,
    sweep_tau,
)
from podsim.verify.tables import NAMED, NamedTable, load, named, names

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
