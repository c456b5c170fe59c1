"""Studies: designs side by side, with what differs, the best of each column, and the difference to the first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podsim.answers.study import FITS, StudyResult, StudyRow
from podsim.report.columns import Column, Table
from podsim.report.predictions import layout
from podsim.report.screen import Block, Paragraph, Rows, bold, dim
from podsim.units import duration, format_quantity

_MOST_ROWS = 25
"""rows of a table on a terminal; longer studies show their best"""
_DAY, _MWH = 86400.0, 3.6e9
_LONGEST_NAME = 30
_MOST_REASONS = 3


@dataclass(frozen=True)
class Figure:
    """A figure of a row, as tables and charts show it."""

    title: str
    field: str
    axis: str
    """The label of an axis, with its unit."""
    scale: float
    """The SI value of the axis's unit."""
    text: Callable[[float], str]
    is_high_better: bool = False


def _money(dollars: float) -> str:
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if dollars >= 0.9995 * size:
            return f"${dollars / size:,.3g}{unit}"
    return f"${dollars:,.0f}"


def _in(unit: str) -> Callable[[float], str]:
    return lambda value: format_quantity(value, unit, digits=3)


FIGURES: Mapping[str, Figure] = {
    figure.title: figure
    for figure in (
        Figure("GPUs", "gpus", "GPUs", 1.0, "{:,.0f}".format),
        Figure("days", "training", "days with failures", _DAY, lambda seconds: f"{seconds / _DAY:,.3g}"),
        Figure("money", "cost", "money, USD", 1.0, _money),
        Figure("energy", "energy", "energy, MWh", _MWH, lambda joules: f"{joules / _MWH:,.3g} MWh"),
        Figure("carbon", "carbon", "carbon dioxide, t", 1e3, lambda kg: f"{kg / 1e3:,.3g} t"),
        Figure("power", "power", "power, kW", 1e3, _in("W")),
        Figure("step", "step_time", "step, s", 1.0, _in("s")),
        Figure("tokens/s", "tokens_per_second", "tokens/s", 1.0, "{:,.0f}".format, is_high_better=True),
        Figure("MFU", "mfu", "MFU, %", 0.01, "{:.1%}".format, is_high_better=True),
        Figure("memory", "memory", "memory, GB", 1e9, lambda size: f"{size / 1e9:.1f} GB"),
        Figure("loss", "loss", "loss, nats", 1.0, "{:.3f}".format),
    )
}
"""by their titles, those of podsim.options.study_options.FIGURES"""
UNITS = {
    "training": "s", "work": "s", "cost": "USD", "cost_high": "USD", "energy": "J", "carbon": "kg", "power": "W",
    "step_time": "s", "tokens_per_second": "1/s", "mfu": "share", "memory": "B", "memory_limit": "B",
    "tokens": "count", "loss": "nat", "gpus": "count", "band_low": "share", "band_high": "share",
    "start": "s", "end": "s",
}  # fmt: skip
"""the units of the columns of `flat_rows`"""
_SHOWN = ("GPUs", "days", "loss", "money", "energy", "MFU", "memory", "step")
_COMPARED = ("days", "money", "energy")


def row_name(row: StudyRow, varied: Sequence[str]) -> str:
    """The name of a design and the settings in which it differs, in a line."""
    words = [] if not row.name else [row.name]
    hidden = ("gpus", "on") if row.name else ("gpus",)
    words += [
        f"{_short(name)}{row.settings[name]}"
        for name in varied
        if name in row.settings and name not in hidden
    ]
    return ", ".join(words) or row.cluster or str(row.settings.get("on", "")) or "design"


def _short(name: str) -> str:
    """A setting's name before its value; models and clusters speak for themselves."""
    return "" if name in ("model", "on") else f"{name.removeprefix('set.').removeprefix('limit.')}="


def study_report(result: StudyResult) -> Iterator[Block]:
    """What is common, the table with the best of each column marked, differences to the first row, and what failed."""
    yield bold(result.title)
    yield dim(_counts(result))
    common = ", ".join(f"{name.removeprefix('set.')}={value}" for name, value in result.common.items())
    if common:
        yield f"All: {common}"
    rows = shown_rows(result)
    if rows:
        yield from ("", Rows(_table(result, rows), rows))
        chosen = (
            ""
            if len(result.rows) <= _MOST_ROWS
            else f"; the first {len(rows)} by {_order(result)}, --csv has all"
        )
        if not result.is_sequential:
            yield dim(f"* the best of a column; percentages are differences to the first row{chosen}")
        if len(rows) <= _MOST_REASONS + 2:
            yield from _unmeasured(rows)
    if result.duration is not None:
        money = "" if result.cost is None else f", ${result.cost:,.0f}"
        yield bold(f"All jobs: {_days(result.duration)} days{money}, with failures.")
    yield from _failures(result)


def shown_rows(result: StudyResult) -> list[StudyRow]:
    """The rows that a terminal shows: all with figures, or the first by money, or by days."""
    answered = [row for row in result.rows if row.step_time is not None]
    if len(result.rows) <= _MOST_ROWS:
        return answered
    figure = FIGURES[_order(result)]
    answered = [row for row in answered if row.status == FITS] or answered
    return sorted(answered, key=lambda row: getattr(row, figure.field) or float("inf"))[:_MOST_ROWS]


def _order(result: StudyResult) -> str:
    """The figure by which a long study is ordered: money if all designs have a price, else days."""
    has_costs = all(row.cost is not None for row in result.rows if row.training is not None)
    return "money" if has_costs else "days"


def _counts(result: StudyResult) -> str:
    partly = "" if result.complete else " (interrupted: the rows so far)"
    kept = f", {result.reused:,} of them from {result.store}" if result.reused and result.store else ""
    count = f"{len(result.rows):,} design{'s' if len(result.rows) > 1 else ''}"
    return f"{count} in {duration(result.seconds)}{partly}{kept}"


def _table(result: StudyResult, rows: Sequence[StudyRow]) -> Table:
    """A column for each setting in which designs differ, and for each figure that a row has."""
    columns = [] if len({_design(row) for row in rows}) == 1 < len(rows) else [Column("design", _design)]
    hidden = ("gpus", "on") if all(row.name for row in rows) else ("gpus",)
    columns += [_setting_column(name, rows) for name in result.varied if name not in hidden]
    if result.is_sequential:
        columns += [] if "tokens" in result.varied else [Column("tokens", "", _in(""))]
        columns += [Column(title, name, _days) for title, name in (("from day", "start"), ("to day", "end"))]
    for number, title in enumerate(_SHOWN):
        if title == "GPUs" and "gpus" in result.common:
            continue
        if any(getattr(row, FIGURES[title].field) is not None for row in rows):
            drop = 0 if title in ("GPUs", "days", "loss", "money") else len(_SHOWN) - number
            columns.append(Column(title, _cell(FIGURES[title], rows), align="r", drop=drop))
    if any(row.measured == 0 for row in rows):
        columns.append(Column("measured", _measured))
    columns.append(Column("", lambda row: "" if row.status == FITS else row.status, optional=True))
    columns.append(Column("plan", lambda row: _plan_text(row).partition(", ")[0], drop=1))
    return Table(*columns, indent=0)


def _days(seconds: float) -> str:
    return f"{seconds / _DAY:,.1f}" if seconds >= _DAY else f"{seconds / _DAY:.2g}"


def _measured(row: StudyRow) -> str:
    """How many measured runs are behind a row's error band."""
    return f"{row.measured} runs" if row.measured else "none"


def _unmeasured(rows: Sequence[StudyRow]) -> Iterator[Block]:
    """Which designs no measured run resembles, with their bands."""
    for row in rows:
        if row.measured == 0 and row.band_low is not None and row.band_high is not None:
            band = f"{row.band_low:+.0%} to {row.band_high:+.0%}"
            yield dim(f"{_design(row)}: no measured run resembles it; assumptions leave {band}")
        elif row.measured == 0:
            yield dim(f"{_design(row)}: no measured run resembles it, so it has no band")


def _design(row: StudyRow) -> str:
    """The name of a design, or of its cluster."""
    return row.name or row.cluster.partition(" (")[0]


def _setting_column(name: str, rows: Sequence[StudyRow]) -> Column:
    """The values of a setting in which designs differ."""
    values = [row.settings.get(name) for row in rows]
    align = "r" if all(isinstance(value, int | float) for value in values) else "l"
    heading = name.removeprefix("set.").removeprefix("limit.")
    return Column(
        heading, lambda row: str(row.settings.get(name, ""))[:_LONGEST_NAME], align=align, optional=True
    )


def _cell(figure: Figure, rows: Sequence[StudyRow]) -> Callable[[StudyRow], str]:
    """The figure of a row, with a star on the best design that fits."""
    values = [
        value for row in rows if row.status == FITS and (value := getattr(row, figure.field)) is not None
    ]
    best = (max if figure.is_high_better else min)(values, default=None)
    is_marked = rows[0].start is None and len(set(values)) > 1  # jobs that follow each other have no best one
    first = getattr(rows[0], figure.field)
    is_compared = is_marked and figure.title in _COMPARED

    def cell(row: StudyRow) -> str:
        value = getattr(row, figure.field)
        if value is None:
            return "-"
        star = "*" if is_marked and row.status == FITS and value == best else ""
        change = f" {_difference(value, first, row is rows[0]):>5}" if is_compared else ""
        return f"{star}{figure.text(value)}{change}"

    return cell


def _difference(value: float, first: float | None, is_first: bool) -> str:
    """The difference of a figure to that of the first row, in percent; "" for that row."""
    if is_first or not first:
        return ""
    change = value / first - 1
    return f"{change:+.0%}" if abs(change) < 9.995 else f"x{value / first:,.0f}"


def _failures(result: StudyResult) -> Iterator[Block]:
    """Designs without a plan that fits: how many, and the first reasons."""
    reasons: dict[str, list[str]] = {}
    failed = [row for row in result.rows if row.status != FITS]
    for row in failed:
        reasons.setdefault(row.reason or row.status, []).append(row_name(row, result.varied))
    if failed:
        counts = Counter(row.status for row in failed)
        yield from (
            "",
            "; ".join(f"{status}: {count:,} of {len(result.rows):,}" for status, count in counts.items()),
        )
    for reason, names in list(reasons.items())[:_MOST_REASONS]:
        more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        yield Paragraph(f"{names[0]}{more}: {reason}", "warning", indent="    ", first="  ")
    if len(reasons) > _MOST_REASONS:
        yield dim(f"  {len(reasons) - _MOST_REASONS} more in --csv")


def flat_rows(result: StudyResult) -> list[dict[str, Any]]:
    """A line of plain columns for each row: the design, its settings, its figures in SI, its plan."""
    settings = list(dict.fromkeys(name for row in result.rows for name in row.settings))
    fields = list(dict.fromkeys(name for row in result.rows for name in row.plan))

    return [
        {
            "design": row.name, "question": row.question, "status": row.status, "reason": row.reason,
            **{f"setting.{name}": row.settings.get(name) for name in settings},
            "model": row.model, "cluster": row.cluster,
            **{name: getattr(row, name) for name in UNITS},
            "price": row.price, "bottleneck": row.bottleneck,
            **{f"plan.{name}": row.plan.get(name) for name in fields},
        }
        for row in result.rows
    ]  # fmt: skip


def _plan_text(row: StudyRow) -> str:
    """The layout of a plan; of a benchmark that is taken to its target, the batch."""
    if "tp" in row.plan:
        return layout(row.plan)
    return ", ".join(f"{name} {value:,.0f}" for name, value in row.plan.items() if isinstance(value, float))


def row_report(row: StudyRow) -> Iterator[Block]:
    """One design: its figures, its plan, and the numbers of GPUs tried."""
    yield bold(f"{row_name(row, ())} with {row.gpus:,} GPUs: {row.status}" if row.gpus else row.status)
    if row.reason:
        yield row.reason
    if row.plan:
        yield _plan_text(row)
    values = ((figure, getattr(row, figure.field)) for figure in FIGURES.values())
    texts = [f"{figure.title} {figure.text(value)}" for figure, value in values if value is not None]
    yield ", ".join(texts)
    if row.tried:
        days = (
            f"{count}: {'no plan' if s is None else f'{s / _DAY:,.3g} days'}"
            for count, s in row.tried.items()
        )
        yield dim(f"GPUs tried: {', '.join(days)}")
