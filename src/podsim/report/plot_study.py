"""Studies in charts: days, money and energy of designs, scaling over GPUs, and the front of two figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from textwrap import wrap

from markupsafe import Markup

from podsim.answers.study import FITS, StudyResult, StudyRow
from podsim.errors import PodsimError, check_name
from podsim.report.chart_marks import BLUE, MUTED, Axis, Bars, Chart, Mark, Series, Sheet
from podsim.report.matplotlib_charts import draw
from podsim.report.plots import figure_image
from podsim.report.study_tables import FIGURES, row_name, shown_rows
from podsim.report.theme import titled_figure

_WIDTH, _PANEL, _TITLE = 10.4, 3.4, 0.6
"""inches: the figure, the least height of a panel, what is above"""
_BAR = 0.26
"""inches of a bar"""
_NAMES = 32
"""characters of a design's name in a chart"""
_MOST_BARS = 16
_CHARTS = ("days", "money", "energy", "scaling", "pareto")


def titled_charts(result: StudyResult) -> list[Markup]:
    """Every chart that the study has data for, as a figure of a page."""
    return [
        titled_figure(figure_image(draw(_sheet("", [replace(chart, title="")], result)), "svg"), chart.title)
        for chart in _panels(result).values()
    ]


def study_figure(result: StudyResult, *, chart: str = "overview", axes: str = "money,days") -> Sheet:
    """A sheet of one chart: days, money, energy, scaling, pareto; or the overview, all that there is data for.

    `axes` names the two figures of the front, "money,days". Raises PodsimError for an unknown chart or axis, and for a
    chart without data.
    """
    read_axes(axes)
    known = _panels(result, axes)
    check_name("chart", chart, ("overview", *_CHARTS))
    names = list(known) if chart == "overview" else [chart]
    if not names or names[0] not in known:
        lack = (
            "numbers of GPUs that differ"
            if chart == "scaling"
            else "two designs that fit, with these figures"
        )
        raise PodsimError(f"chart={chart}: this study lacks {lack}; it has {', '.join(known) or 'no chart'}")
    return _sheet(result.title, [known[name] for name in names], result)


def _sheet(title: str, charts: Sequence[Chart], result: StudyResult) -> Sheet:
    columns = 2 if len(charts) > 1 else 1
    height = max(_PANEL, 1.1 + _BAR * len(_bar_rows(result)))
    return Sheet(title, charts, size=(_WIDTH, _TITLE + height * -(-len(charts) // columns)), columns=columns)


def read_axes(axes: str) -> tuple[str, str]:
    """The two figures of a front, from "money,days"; PodsimError for others."""
    names = [name.strip() for name in axes.split(",")]
    exact = {title.lower(): title for title in FIGURES}
    if len(names) != 2 or names[0] == names[1] or any(name.lower() not in exact for name in names):
        raise PodsimError(f"axes={axes[:60]!r}: give two of {', '.join(FIGURES)}, such as money,days")
    return exact[names[0].lower()], exact[names[1].lower()]


def _panels(result: StudyResult, axes: str = "money,days") -> dict[str, Chart]:
    """Each chart that there is data for, by its name."""
    rows = _bar_rows(result)
    panels = {
        name: _bars(rows, result.varied, name)
        for name in ("days", "money", "energy")
        if any(_value(row, name) is not None for row in rows)
    }
    lines = _scaling_lines(result)
    if any(len(line) > 1 for line in lines.values()):
        panels["scaling"] = _scaling(lines)
    across, up = read_axes(axes)
    points = [
        row
        for row in result.rows
        if row.status == FITS and None not in (_value(row, across), _value(row, up))
    ]
    if len(points) > 1:
        panels["pareto"] = _pareto(points, (across, up), result.varied)
    return panels


def _bar_rows(result: StudyResult) -> list[StudyRow]:
    return [row for row in shown_rows(result) if row.status == FITS][:_MOST_BARS]


def _value(row: StudyRow, title: str) -> float | None:
    """A figure of a row in the unit of its axis."""
    figure = FIGURES[title]
    value = getattr(row, figure.field)
    return None if value is None else value / figure.scale


def _label(row: StudyRow, varied: Sequence[str]) -> str:
    """The name of a design, with its GPUs where they differ."""
    gpus = f", {row.gpus:,} GPUs" if row.gpus and ("gpus" in varied or row.question == "fewest") else ""
    text, room = row_name(row, varied), _NAMES - len(gpus)
    return (text if len(text) <= room else f"{text[: room - 1]}…") + gpus


def _axis(title: str, room: float) -> Axis:
    """An axis in the words of tables."""
    figure = FIGURES[title]
    return Axis(figure.axis, text=lambda value: figure.text(value * figure.scale), room=room)


def _bars(rows: Sequence[StudyRow], varied: Sequence[str], title: str) -> Chart:
    """A bar for each design, with its figure; the best stands out."""
    figure = FIGURES[title]
    chosen = [row for row in rows if _value(row, title) is not None]
    values = [_value(row, title) or 0.0 for row in chosen]
    colours = [BLUE if value == min(values) else MUTED for value in values]
    texts = [figure.text(getattr(row, figure.field)) for row in chosen]
    names = Axis(names=[_label(row, varied) for row in chosen], is_reversed=True)
    along = Axis(low=0.0, high=1.2 * max(values) or 1.0, is_bare=True)
    return Chart([Bars(values, colour=colours, texts=texts)], figure.axis, along, names)


def _scaling_lines(result: StudyResult) -> dict[str, list[tuple[int, float]]]:
    """(GPUs, tokens/s) of designs that differ in nothing else, by what they share."""
    others = tuple(name for name in result.varied if name != "gpus")
    lines: dict[str, list[tuple[int, float]]] = {}
    for row in result.rows:
        if row.status == FITS and row.gpus and row.tokens_per_second and row.question != "fewest":
            lines.setdefault(row_name(row, others), []).append((row.gpus, row.tokens_per_second))
    return {name: sorted(points) for name, points in lines.items() if len({gpus for gpus, _ in points}) > 1}


def _scaling(lines: dict[str, list[tuple[int, float]]]) -> Chart:
    """The rate over GPUs on logarithmic axes, and the ideal of each line as dashes."""
    marks: list[Mark] = []
    for colour, (name, points) in enumerate(lines.items()):
        counts, rates = [gpus for gpus, _ in points], [rate for _, rate in points]
        ideal = [rates[0] * count / counts[0] for count in counts]
        marks.append(Series(counts, rates, name[:_NAMES], colour, mark="o"))
        marks.append(Series(counts, ideal, "", colour, "--", width=0.8))
    every = sorted({gpus for points in lines.values() for gpus, _ in points})
    along = Axis("GPUs", "log", "{:,.0f}".format, ticks=every)
    return Chart(marks, "tokens/s over GPUs (dashed: ideal)", along, Axis(scale="log"))


def front(rows: Sequence[StudyRow], across: str, up: str) -> list[StudyRow]:
    """The rows that no other beats in both figures, in the order of the first."""
    signs = [-1.0 if FIGURES[name].is_high_better else 1.0 for name in (across, up)]

    def place_of(row: StudyRow) -> tuple[float, float]:
        return signs[0] * (_value(row, across) or 0.0), signs[1] * (_value(row, up) or 0.0)

    best: list[StudyRow] = []
    for row in sorted(rows, key=place_of):
        if not best or place_of(row)[1] < place_of(best[-1])[1]:
            best.append(row)
    return best


def _pareto(rows: Sequence[StudyRow], names: tuple[str, str], varied: Sequence[str]) -> Chart:
    """Every design, and the front: the designs that no other beats in both figures."""
    across, up = names

    def points(chosen: Sequence[StudyRow]) -> tuple[list[float], list[float]]:
        return [_value(row, across) or 0.0 for row in chosen], [_value(row, up) or 0.0 for row in chosen]

    best = front(rows, across, up)
    others = [row for row in rows if row not in best]

    def labels(chosen: Sequence[StudyRow]) -> list[str]:
        return ["\n".join(wrap(_label(row, varied), 28)) for row in chosen]

    marks: list[Mark] = [
        Series(
            *points(best), f"front: {len(best)} of {len(rows):,}", 0, "-", "o", width=1.2, labels=labels(best)
        ),
        Series(
            *points(others),
            "",
            MUTED,
            "",
            "o",
            size=4,
            labels=labels(others) if len(others) <= _MOST_BARS else (),
        ),
    ]
    return Chart(marks, f"{up} over {across}", _axis(across, 0.18), _axis(up, 0.12))
