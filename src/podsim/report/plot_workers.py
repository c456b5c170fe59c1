"""Idle time against staleness over the bound, drawn. Needs podsim[report]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from podsim.answers.exchanged import ExchangeRun, Tradeoff
from podsim.report.chart_marks import BLUE, INK, MUTED
from podsim.report.plots import STYLE, load_matplotlib
from podsim.report.worker_tables import bound_name
from podsim.units import format_quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_WIDTH, _HEIGHT = 11.0, 4.2
_ORANGE = "#D55E00"
_PANELS = (0.065, 0.395, 0.725)
_PANEL_WIDTH, _PANEL_HEIGHT, _BOTTOM = 0.255, 0.6, 0.15


def tradeoff_figure(compared: Tradeoff) -> Figure:
    """A figure: speed, idle time and staleness over the bound, all-reduce apart."""
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(_WIDTH, _HEIGHT))
        speed, idle, stale = (
            figure.add_axes((left, _BOTTOM, _PANEL_WIDTH, _PANEL_HEIGHT)) for left in _PANELS
        )
        runs = compared.runs
        for axes, title in (
            (speed, _speed_title(compared)), (idle, "time without compute, %"),
            (stale, "staleness, others' updates"),
        ):  # fmt: skip
            _axes(axes, runs, title)
        _line(
            speed,
            runs,
            [run.to_loss.seconds if run.to_loss else run.steps_per_second for run in runs],
            BLUE,
            "",
        )
        _line(idle, runs, [100 * run.idle for run in runs], BLUE, "idle")
        _line(idle, runs, [100 * run.waiting for run in runs], _ORANGE, "of it waiting for others")
        _line(stale, runs, [run.staleness for run in runs], BLUE, "mean")
        _line(stale, runs, [run.staleness_p99 for run in runs], _ORANGE, "99 % within")
        for axes, room in ((speed, 1.12), (idle, 1.35), (stale, 1.35)):
            axes.set_ylim(bottom=0.0, top=max(axes.get_ylim()[1], 1e-9) * room)
        idle.legend(loc="upper right", fontsize=8.5)
        stale.legend(loc="upper left", fontsize=8.5)
        figure.text(0.012, 0.945, compared.name[:110], fontsize=11, fontweight="bold", va="center")
        figure.text(0.012, 0.88, _subtitle(compared), fontsize=8.5, va="center")
        return figure


def _speed_title(compared: Tradeoff) -> str:
    first = compared.first
    return (
        f"seconds to loss {first.to_loss.loss:g}" if first and first.to_loss else "steps/s of a worker, mean"
    )


def _subtitle(compared: Tradeoff) -> str:
    run = [run for run in compared.runs if run.servers][-1]
    servers = f"{run.servers:,} parameter server{'s' if run.servers > 1 else ''}"
    return (
        f"{run.workers:,} workers, {format_quantity(run.compute, 's')} of compute a step; {servers}; each sends "
        f"{format_quantity(run.gradients, 'B')}, gets {format_quantity(run.weights, 'B')}"
    )


def _axes(axes: Axes, runs: tuple[ExchangeRun, ...], title: str) -> None:
    """An axis of bounds at equal distances: all-reduce, 0, 1, …, none."""
    axes.set_title(title, fontsize=9.5, loc="left", color=INK)
    axes.set_xticks(range(len(runs)), [_tick(run) for run in runs])
    axes.tick_params(labelsize=8.5 if len(runs) < 9 else 7.0)
    axes.set_xlabel("rounds ahead of the slowest, at most", fontsize=8.5)
    axes.set_xlim(-0.4, len(runs) - 0.6)
    axes.grid(axis="y", color=MUTED, alpha=0.25, lw=0.6)


def _tick(run: ExchangeRun) -> str:
    """The name of a run's bound, over lines."""
    return bound_name(run).replace("all-reduce", "all-\nreduce").replace(" ", "\n")


def _line(axes: Axes, runs: tuple[ExchangeRun, ...], values: list[float], colour: str, label: str) -> None:
    """A line over the bounds; an all-reduce is a hollow mark, no part of the line."""
    served = [index for index, run in enumerate(runs) if run.servers]
    alone = [index for index, run in enumerate(runs) if not run.servers]
    axes.plot(
        served, [values[at] for at in served], color=colour, marker="o", ms=5, lw=1.8, label=label or None
    )
    axes.plot(alone, [values[at] for at in alone], color=colour, marker="o", ms=6, mfc="white", ls="none")
