"""What comes out of a run or a prediction, as plain values that name no formula.

`Measurement` is one published or local number; `Comparison` holds predictions against measurements, row by
row, with the rows that could not be expressed; `Score` is what such a table adds up to, for one role only:
rows that constants were fitted on (`calibrate`) and rows that were only looked at (`test`) never share a
figure.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from podsim.answers.answer import Answer, View
from podsim.answers.fabric_verdict import FabricVerdict
from podsim.errors import TableError, check_name, unknown_name
from podsim.records import dataclass, field, fields, replace

ROLES = ("calibrate", "test")
"""calibrate: constants may be fitted on the row; test: the row is only reported"""
BROKEN = "broken"
"""The role of rows of a machine that did not work as it should: they are listed and never scored."""

QUANTITIES = {
    "seconds per step": ("s", False),
    "seconds": ("s", False),
    "seconds to train": ("s", False),
    "seconds of own samples": ("s", False),
    "samples to a target": ("1", False),
    "steps to a target": ("1", False),
    "result in a metric": ("1", True),
    "nats": ("nats", False),
    "samples/s": ("1/s", True),
    "tokens/s per GPU": ("1/s", True),
    "FLOP/s per GPU": ("FLOP/s", True),
    "B/s": ("B/s", True),
    "bytes": ("B", False),
}
"""what is measured -> (SI unit, whether more is better)"""


def _check(what: str, role: str, values: Iterable[float], where: str) -> None:
    """Raise TableError unless the quantity and role are known and the values finite and positive."""
    problems = []
    if what not in QUANTITIES:
        problems.append(unknown_name("quantity", what, QUANTITIES))
    if role not in (*ROLES, BROKEN):
        problems.append(unknown_name("role", role, ROLES))
    problems += [f"{v!r} is not a finite positive number" for v in values if not (math.isfinite(v) and v > 0)]
    if problems:
        raise TableError(f"{where}: {'; '.join(problems)}")


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The result of a real run, with its machine and its source; raises TableError without a source."""

    id: str
    what: str
    """The measured quantity, a key of QUANTITIES."""
    value: float
    """SI. The value, in s, 1/s, FLOP/s, B/s or B."""
    source: str
    role: str
    machine: str = ""
    """The machine, in words."""

    def __post_init__(self) -> None:
        """Hold the rules."""
        _check(self.what, self.role, [self.value], f"measurement {self.id!r}")
        if not self.source.strip():
            raise TableError(f"measurement {self.id!r}: no source; say where the number comes from")


@dataclass(frozen=True, kw_only=True)
class ComparedRow:
    """One prediction against one measurement, in the same SI unit."""

    id: str
    role: str
    table: str
    predicted: float
    """SI. The prediction, in the unit of the measurement."""
    measured: float
    """SI. The measurement, in the unit of the table's quantity."""
    note: str = ""
    group: str = ""
    """The class of the row in a breakdown, such as "tp=8, pp=1"."""
    sweep: str = ""
    """The sweep: rows with the same text do the same work and compete; "" competes with none."""
    plan: str = ""
    """The plan of the row, in words: rows of one sweep and plan repeat each other; "" is a plan of its own."""
    ideal: float | None = None
    """SI. The value at full peak, for the skill against a constant efficiency; None if unknown."""
    weight: float = 1.0
    """factor. The weight of the row in mean errors; rows of one cluster share what a cluster counts."""
    low: float | None = None
    """SI. The lower end of the error band of the prediction, None where there is none."""
    high: float | None = None
    """SI. The upper end of the error band."""

    @property
    def error(self) -> float:
        """Signed relative error, predicted / measured - 1 (0.1 is 10 % too much)."""
        return self.predicted / self.measured - 1.0


@dataclass(frozen=True, kw_only=True)
class BandCoverage:
    """How the error bands of one source's runs hold, where the source is in no fit and in no band."""

    source: str
    role: str
    rows: int
    coverage: float
    """share. The runs inside their 80 % band."""
    width: float
    """share. The median width of the bands, of the predicted time."""
    score: float
    """share. The mean interval score of the bands: their width, and ten times each miss."""
    constant_score: float
    """share. The same of one constant band for all runs."""


@dataclass(frozen=True, kw_only=True)
class ClassScore:
    """Errors of one class of rows."""

    name: str
    rows: int
    mae: float
    """share. The mean absolute relative error."""
    bias: float
    """share. The mean signed relative error."""
    worst_id: str
    worst_error: float
    """share. The relative error of that row."""


@dataclass(frozen=True, kw_only=True)
class GroupRank:
    """How well predictions rank the plans of one group: rows that do the same work. Repeats count with their median."""

    name: str
    rows: int
    plans: int
    tau: float
    """factor. Kendall's tau-b of the plans' predictions and their measured medians."""
    limit: float
    """factor. Kendall's tau-b of these medians and the measured rows: the most that any prediction reaches."""
    regret: float
    """share. The measured loss of the plan that is predicted fastest, against the best; 0 is perfect."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """What the rows of one role add up to; None where a figure has no meaning. Errors: 0.1 is 10 %."""

    role: str
    rows: int
    mae: float
    """share. The mean absolute relative error, of predicted / measured - 1."""
    median: float
    """share. The median absolute relative error."""
    bias: float
    """share. The mean signed relative error."""
    p95: float
    """share. The 95th percentile of the absolute error, linear between ranks."""
    worst_id: str
    worst_error: float
    """share. The relative error of that row."""
    classes: tuple[ClassScore, ...] = ()
    sweeps: int = 0
    """The number of sweeps of two rows or more."""
    tau: float | None = None
    """factor. Kendall's tau-b within sweeps, weighted by their pairs."""
    regret: float | None = None
    """factor. The measured time of the row predicted fastest over the best measured, as a mean over sweeps; 1 is
    perfect."""
    worst_regret: float | None = None
    """factor. The largest regret of a sweep."""
    ranks: tuple[GroupRank, ...] = ()
    """The ranks within each sweep of at least five plans."""
    skill: float | None = None
    """factor. The skill, 1 - MAE / (MAE of the best single constant efficiency); above 0 beats that guess."""
    skill_basis: str = ""
    """The rows on which that constant was chosen."""


@dataclass(frozen=True, kw_only=True)
class Comparison(
    Answer, view=View(report="report.collectives:log_report", rows="rows", figure="report.plot_accuracy:plot")
):
    """Predictions against the measurements of one table."""

    table: str
    title: str
    what: str
    """The measured quantity, a key of QUANTITIES."""
    rows: tuple[ComparedRow, ...]
    not_expressed: tuple[tuple[str, str], ...] = ()
    """The rows without a prediction, as (id, reason)."""
    sources: tuple[str, ...] = ()
    scores: tuple[Score, ...] = ()
    """The scores of each role; `podsim.accuracy.score.assess` computes them."""
    fabric: FabricVerdict | None = None
    """The verdict on the fabric that a log of collectives comes from."""
    remarks: tuple[str, ...] = ()
    """The remarks on the file that holds the rows."""
    left_out: Mapping[str, tuple[str, float | None]] = field(default_factory=dict)
    """SI. The role and the measured value, or None, of the rows of `not_expressed`, by id; data show them as rows."""

    def __post_init__(self) -> None:
        """Raise TableError on an unknown quantity, role or repeated id, or a value that is not positive."""
        if self.what not in QUANTITIES:
            raise TableError(f"{self.table}: {unknown_name('quantity', self.what, QUANTITIES)}")
        for row in self.rows:
            values = [row.predicted, row.measured, 1.0 if row.ideal is None else row.ideal]
            _check(self.what, row.role, values, f"{self.table}: row {row.id!r}")
        ids = [row.id for row in self.rows] + [id for id, _ in self.not_expressed]
        if len(ids) != len(set(ids)):
            twice = sorted(id for id, count in Counter(ids).items() if count > 1)
            raise TableError(f"{self.table}: ids given more than once: {', '.join(twice[:10])}")

    def shown_fields(self) -> dict[str, Any]:
        """The fields as data show them: `rows` has every row, those without a prediction last and with their reason."""
        shown = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "left_out"}
        shared = {"quantity": self.what, "reason": ""}
        rows = [
            {**{each.name: getattr(row, each.name) for each in fields(row)}, **shared} for row in self.rows
        ]
        blank = {**{each.name: None for each in fields(ComparedRow)}, **shared, "table": self.table}
        for id, reason in self.not_expressed:
            role, measured = self.left_out.get(id, ("", None))
            rows.append({**blank, "id": id, "role": role, "measured": measured, "reason": reason})
        return {**shown, "rows": rows}

    @property
    def missing_extras(self) -> Mapping[str, int]:
        """The extras without which rows have no prediction, with the number of these rows."""
        needs = (re.search(r"pip install '[.\w]+\[(\w+)\]'", reason) for _, reason in self.not_expressed)
        return Counter(need[1] for need in needs if need)

    @property
    def unit(self) -> str:
        """SI unit of predicted and measured values."""
        return QUANTITIES[self.what][0]

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles present, test first: that is the figure to quote."""
        present = {row.role for row in self.rows}
        return tuple(role for role in reversed(ROLES) if role in present)

    def only(self, role: str) -> Comparison:
        """The rows of one role, and that role's score."""
        check_name("role", role, ROLES, TableError)
        rows = tuple(row for row in self.rows if row.role == role)
        return replace(self, rows=rows, scores=tuple(s for s in self.scores if s.role == role))

    def score(self, role: str) -> Score | None:
        """The score of one role; None if it was not assessed or has no rows."""
        return next((score for score in self.scores if score.role == role), None)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether the predictions of a table are as right as they are meant to be."""

    table: str
    role: str
    of: str
    """The class of its rows, or "all"."""
    rows: int
    metric: str
    """The metric: mae, median or regret (at most the limit), skill (more than it) or tau (at least)."""
    value: float | None
    """factor. The value of the metric; None if the table has none."""
    limit: float
    """factor. The bar."""
    bias: float | None = None
    """share. The mean signed error of the rows, if it has a bar too."""
    bias_limit: float | None = None
    """share. The bar of the bias, if there is one."""
    met: bool
    note: str = ""
