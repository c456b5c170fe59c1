"""The magnitude that each pruned tensor keeps, drawn. Needs podsim[report]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from podsim.answers.pruned import Pruned
from podsim.report.chart_marks import BLUE, INK, MUTED
from podsim.report.plots import STYLE, load_matplotlib

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ORANGE = "#D55E00"
_NORMAL = 0.763
"""share. What 2:4 keeps of weights that are normally distributed."""
_MOST = 40


def prune_figure(pruned: Pruned) -> Figure:
    """A figure: the kept share of each tensor, before and after a permutation; those that keep least, of a large file."""
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure

        chosen = [tensor for tensor in pruned.tensors if tensor.kept is not None]
        if len(chosen) > _MOST:
            chosen = sorted(chosen, key=lambda tensor: tensor.kept or 0.0)[:_MOST]
        height = 1.3 + 0.22 * len(chosen)
        figure = Figure(figsize=(9.6, height))
        axes = figure.add_axes((0.42, 0.5 / height, 0.55, 1 - 1.1 / height))
        rows = range(len(chosen))
        axes.plot(
            [100 * (tensor.kept or 0) for tensor in chosen], rows, "o", color=BLUE, ms=5, label="own order"
        )
        if pruned.before is not None:
            shares = [100 * (tensor.permuted or 0) for tensor in chosen]
            axes.plot(shares, rows, "o", color=_ORANGE, ms=5, mfc="none", label="permuted")
            axes.legend(fontsize=8.5)
        axes.axvline(100 * _NORMAL, color=MUTED, ls="--", lw=1.0)
        axes.set_yticks(rows, [tensor.name[-48:] for tensor in chosen])
        axes.invert_yaxis()
        axes.tick_params(labelsize=7.5)
        axes.set_xlabel("magnitude kept, %; dashed: of a normal distribution", fontsize=8.5)
        axes.grid(axis="x", color=MUTED, alpha=0.25, lw=0.6)
        figure.text(
            0.012, 1 - 0.3 / height, f"{pruned.file}, 2:4"[:90], fontsize=11, fontweight="bold", color=INK
        )
        return figure
