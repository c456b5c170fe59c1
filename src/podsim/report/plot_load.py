"""A server under load drawn: times against the rate of arrivals. Needs podsim[report]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from podsim.answers.served_load import ServedLoad
from podsim.report.plot_serving import blank_figure
from podsim.report.plots import BLUE, MUTED, STYLE, load_matplotlib

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ORANGE, _GREEN = "#D55E00", "#009E73"


def load_figure(served: ServedLoad) -> Figure:
    """A figure: first token, each token and end to end over the rate, with the rate of saturation."""
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(STYLE):
        figure, axes = blank_figure(f"{served.model} on {served.on}: {served.workload}")
        rates = [point.rate for point in served.curve]
        lines = (
            ("end to end", "end_to_end", "end_to_end_p99", BLUE),
            ("first token", "first_token", "first_token_p99", _ORANGE),
            ("each token", "each_token", "", _GREEN),
        )
        for name, median, tail, colour in lines:
            axes.plot(
                rates,
                [getattr(point, median) for point in served.curve],
                "o-",
                color=colour,
                label=f"{name}, p50",
            )
            if tail:
                values = [getattr(point, tail) for point in served.curve]
                axes.plot(rates, values, "--", color=colour, lw=1.1, label=f"{name}, p99")
        axes.axvline(served.saturation, color=MUTED, lw=1.2, label="saturation")
        axes.axvline(served.rate, color=MUTED, lw=1.2, ls=":", label="this load")
        axes.set_yscale("log")
        axes.set_xlim(left=0.0)
        axes.set_xlabel("requests that arrive, 1/s")
        axes.set_ylabel("time, s")
        axes.legend(loc="upper left", fontsize=8, ncols=2)
        return figure
