"""Studies drawn: days, money and energy of designs, scaling over GPUs, and the front of two figures. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from markupsafe import Markup

from podsim.answers.study import FITS, StudyResult, StudyRow
from podsim.errors import PodsimError, unknown_name
from podsim.report.chart_marks import BLUE, COLOURS, INK, MUTED
from podsim.report.plots import STYLE, figure_image, load_matplotlib
from podsim.report.study_tables import FIGURES, row_name, shown_rows
from podsim.report.theme import titled_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


_WIDTH, _PANEL, _TITLE = 10.4, 3.4, 0.6
"""inches: the figure, the least height of a panel, what is above"""
_BAR = 0.26
"""inches of a bar"""
_NAMES = 46
"""characters of a design's name in a chart"""
_MOST_BARS = 16
_LABELS = 8
"""points of a front that bear their names"""


def study_charts(result: StudyResult) -> dict[str, bytes]:
    """SVG of every chart that the study has data for, by its name."""
    return {name: figure_image(study_figure(result, chart=name), "svg") for name in _panels(result)}


def titled_charts(result: StudyResult) -> list[Markup]:
    """The same as figures of a page."""
    return [titled_figure(svg, name.capitalize()) for name, svg in study_charts(result).items()]


def study_figure(result: StudyResult, *, chart: str = "overview", axes: str = "money,days") -> Figure:
    """A figure of one chart: days, money, energy, scaling, pareto; or the overview, all that there is data for.

    `axes` names the two figures of the front, "money,days". Raises PodsimError for an unknown chart or axis, for a
    chart without data, and without matplotlib.
    """
    read_axes(axes)
    known = _panels(result, axes)
    if chart not in ("overview", *_CHARTS):
        raise PodsimError(unknown_name("chart", chart, ("overview", *_CHARTS)))
    names = list(known) if chart == "overview" else [chart]
    if not names or names[0] not in known:
        lack = (
            "numbers of GPUs that differ"
            if chart == "scaling"
            else "two designs that fit, with these figures"
        )
        raise PodsimError(f"chart={chart}: this study lacks {lack}; it has {', '.join(known) or 'no chart'}")
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure

        columns = 2 if len(names) > 1 else 1
        lines = -(-len(names) // columns)
        height = max(_PANEL, 1.1 + _BAR * len(_bar_rows(result)))
        figure = Figure(figsize=(_WIDTH, _TITLE + height * lines), layout="constrained")
        figure.suptitle(result.title[:110], x=0.012, ha="left", fontsize=11, fontweight="bold")
        for number, name in enumerate(names):
            known[name](figure.add_subplot(lines, columns, number + 1))
        return figure


def read_axes(axes: str) -> tuple[str, str]:
    """The two figures of a front, from "money,days"; PodsimError for others."""
    names = [name.strip() for name in axes.split(",")]
    exact = {title.lower(): title for title in FIGURES}
    if len(names) != 2 or names[0] == names[1] or any(name.lower() not in exact for name in names):
        raise PodsimError(f"axes={axes[:60]!r}: give two of {', '.join(FIGURES)}, such as money,days")
    return exact[names[0].lower()], exact[names[1].lower()]


Panel = Callable[["Axes"], None]


def _panels(result: StudyResult, axes: str = "money,days") -> dict[str, Panel]:
    """What draws each chart that there is data for."""
    rows = _bar_rows(result)
    panels: dict[str, Panel] = {
        name: lambda drawn, name=name: _bars(drawn, rows, result.varied, name)  # type: ignore[misc]
        for name in ("days", "money", "energy")
        if sum(_value(row, name) is not None for row in rows) > 0
    }
    if any(len(line) > 1 for line in _scaling_lines(result).values()):
        panels["scaling"] = lambda drawn: _scaling(drawn, _scaling_lines(result))
    across, up = read_axes(axes)
    points = [
        row
        for row in result.rows
        if row.status == FITS and None not in (_value(row, across), _value(row, up))
    ]
    if len(points) > 1:
        panels["pareto"] = lambda drawn: _pareto(drawn, points, (across, up), result.varied)
    return panels


_CHARTS = ("days", "money", "energy", "scaling", "pareto")


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


def _show_unit(axis: Axis, title: str) -> None:
    """Ticks in the words of tables."""
    from matplotlib.ticker import FuncFormatter

    figure = FIGURES[title]
    axis.set_major_formatter(FuncFormatter(lambda value, _: figure.text(value * figure.scale)))
    axis.set_label_text(figure.axis)


def _bars(axes: Axes, rows: Sequence[StudyRow], varied: Sequence[str], title: str) -> None:
    """A bar for each design, with its figure; the best stands out."""
    figure = FIGURES[title]
    chosen = [row for row in rows if _value(row, title) is not None][::-1]
    values = [_value(row, title) or 0.0 for row in chosen]
    colours = [BLUE if value == min(values) else MUTED for value in values]
    axes.barh(range(len(chosen)), values, color=colours, height=0.66)
    axes.set_yticks(range(len(chosen)), [_label(row, varied) for row in chosen])
    for number, row in enumerate(chosen):
        axes.annotate(
            figure.text(getattr(row, figure.field)), (values[number], number), xytext=(3, 0),
            textcoords="offset points", va="center", fontsize=7.5, color=INK,
        )  # fmt: skip
    axes.margins(x=0.16)
    axes.set_xlim(left=0.0)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.set_title(figure.axis, fontsize=9.5, loc="left")
    axes.tick_params(labelsize=8, length=0)


def _scaling_lines(result: StudyResult) -> dict[str, list[tuple[int, float]]]:
    """(GPUs, tokens/s) of designs that differ in nothing else, by what they share."""
    others = tuple(name for name in result.varied if name != "gpus")
    lines: dict[str, list[tuple[int, float]]] = {}
    for row in result.rows:
        if row.status == FITS and row.gpus and row.tokens_per_second and row.question != "fewest":
            lines.setdefault(row_name(row, others), []).append((row.gpus, row.tokens_per_second))
    return {name: sorted(points) for name, points in lines.items() if len({gpus for gpus, _ in points}) > 1}


def _scaling(axes: Axes, lines: dict[str, list[tuple[int, float]]]) -> None:
    """Tokens/s over GPUs on logarithmic axes; dashed: as many times faster as there are GPUs."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    for number, (name, points) in enumerate(list(lines.items())[: len(COLOURS)]):
        counts, rates = zip(*points, strict=True)
        colour = COLOURS[number]
        axes.plot(counts, rates, color=colour, lw=1.8, marker="o", ms=4, label=name[:_NAMES])
        ideal = [rates[0] * count / counts[0] for count in counts]
        axes.plot(counts, ideal, color=colour, lw=1.0, ls=(0, (4, 2)), alpha=0.6)
    every = sorted({gpus for points in lines.values() for gpus, _ in points})
    axes.set(xscale="log", yscale="log", xlabel="GPUs")
    axes.set_xticks(every[:: max(1, len(every) // 8)])
    axes.xaxis.set_minor_locator(NullLocator())
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_title("tokens/s over GPUs (dashed: ideal)", fontsize=9.5, loc="left")
    axes.grid(color=MUTED, alpha=0.25, lw=0.6)
    axes.legend(fontsize=8)
    axes.tick_params(labelsize=8)


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


def _pareto(axes: Axes, rows: Sequence[StudyRow], names: tuple[str, str], varied: Sequence[str]) -> None:
    """Every design, and the front: the designs that no other beats in both figures."""
    across, up = names

    def points(chosen: Sequence[StudyRow]) -> tuple[list[float], list[float]]:
        return [_value(row, across) or 0.0 for row in chosen], [_value(row, up) or 0.0 for row in chosen]

    best = front(rows, across, up)
    axes.scatter(*points(rows), s=18, color=MUTED, lw=0, alpha=0.7, rasterized=len(rows) > 1500)
    axes.plot(
        *points(best), color=BLUE, lw=1.2, marker="o", ms=5, label=f"front: {len(best)} of {len(rows):,}"
    )
    step = max(1, -(-len(best) // _LABELS))
    for row in best[::step]:
        at = (_value(row, across) or 0.0, _value(row, up) or 0.0)
        label = "\n".join(wrap(_label(row, varied), 28))
        axes.annotate(label, at, xytext=(5, 4), textcoords="offset points", fontsize=7, color=INK)
    _show_unit(axes.xaxis, across)
    _show_unit(axes.yaxis, up)
    axes.margins(x=0.18, y=0.12)
    axes.set_title(f"{up} over {across}", fontsize=9.5, loc="left")
    axes.grid(color=MUTED, alpha=0.25, lw=0.6)
    axes.legend(fontsize=8)
    axes.tick_params(labelsize=8)
