"""Ways to serve drawn: tokens/s of a GPU against tokens/s of a user. Needs podsim[report]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from podsim.answers.best_serving import BestServing
from podsim.report.plot_serving import blank_figure
from podsim.report.plots import BLUE, COLOURS, INK, MUTED, STYLE, load_matplotlib

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LABELS = 6


def best_figure(answer: BestServing) -> Figure:
    """A figure: the front, the simulated ways at this load, and the limit of the time per token."""
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(STYLE):
        figure, axes = blank_figure(f"{answer.model} on {answer.cluster}: {answer.rate:,.4g} requests/s")
        user, gpu = [point.user for point in answer.front], [point.gpu for point in answer.front]
        axes.step(user, gpu, where="pre", color=MUTED, lw=1.0)
        axes.plot(user, gpu, "o", ms=4, color=BLUE, label="Pareto front, any load, one pool")
        kept = [way for way in answer.ways if way.keeps]
        late = [way for way in answer.ways if not way.keeps]
        for ways, marker, colour, label in (
            (kept, "s", COLOURS[2], "simulated at this load: keep the limits"),
            (late, "x", COLOURS[1], "simulated at this load: do not"),
        ):
            if ways:
                axes.plot(
                    [way.tokens_per_user for way in ways], [way.tokens_per_gpu for way in ways], marker, ms=5,
                    color=colour, label=label, ls="none",
                )  # fmt: skip
        if answer.each_limit is not None:
            axes.axvline(
                1 / answer.each_limit, color=INK, lw=1.0, ls=(0, (4, 2)), label="limit of each token"
            )
        step = max(1, len(answer.front) // _LABELS)
        for point in answer.front[::step]:
            axes.annotate(
                point.words,
                (point.user, point.gpu),
                xytext=(5, 4),
                textcoords="offset points",
                fontsize=7,
                color=INK,
            )
        axes.set_xlabel("tokens/s of a user")
        axes.set_ylabel("output tokens/s of a GPU")
        axes.set_xlim(0.0, 1.18 * max(user, default=1.0))  # room for the last label
        axes.set_ylim(bottom=0.0)
        axes.legend(loc="upper right", fontsize=8)
        return figure
