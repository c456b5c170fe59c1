"""`podsim figure`: figures and tables of the DGX A100 white paper, made again."""

from __future__ import annotations

from dataclasses import dataclass, replace

from podsim.answers.served import Figure, FigureList, FigureName
from podsim.errors import CatalogError
from podsim.options.output_options import PlotOutput
from podsim.options.question import option, question
from podsim.serving.published_figures import panel_answer, read_panels

_ELSEWHERE = (
    ("figure 3", "Number formats: range and precision of TF32", "format tf32"),
    (
        "table 1",
        "MLPerf Training v0.7: minutes at scale, hours of one GPU",
        "mlperf v0.7 --on selene-2020-06",
    ),
)


@dataclass(frozen=True, kw_only=True)
class FigureOptions:
    """A figure of the DGX A100 white paper."""

    number: int | None = option(None, "4, 5, 7 or 12; default the list of them.", argument=True)


@question(
    FigureOptions,
    output=PlotOutput,
)
def figure(options: FigureOptions) -> Figure | FigureList:
    """Make one figure of the white paper, or list those that a command makes. Raises CatalogError for another number."""
    panels = read_panels()
    if options.number is None:
        own = {f"figure {panel['figure']}": panel["title"] for panel in reversed(panels)}
        known = (*((name, own[name], name) for name in reversed(own)), *_ELSEWHERE)
        return FigureList(
            rows=tuple(
                FigureName(name=name, about=about, command=f"podsim {ask}") for name, about, ask in known
            )
        )
    made = [panel_answer(panel) for panel in panels if panel["figure"] == options.number]
    if not made:
        numbers = ", ".join(str(number) for number in sorted({panel["figure"] for panel in panels}))
        raise CatalogError(f"figure {options.number}: made again are {numbers} of the white paper").offer(
            figure=12, number=12
        )
    return replace(made[0], parts=tuple(made[1:]))
