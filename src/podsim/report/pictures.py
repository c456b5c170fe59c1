"""The chart of an answer, whatever its kind: a figure, an image, the figures of a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from podsim.answers.answer import Answer, View, call
from podsim.errors import PodsimError
from podsim.report.chart_marks import Sheet
from podsim.report.matplotlib_charts import draw
from podsim.report.plots import figure_image
from podsim.report.theme import titled_figure
from podsim.report.views import view_of

if TYPE_CHECKING:
    from markupsafe import Markup


def has_image(view: View) -> bool:
    """Whether an answer of this view can be drawn."""
    return bool(view.figure or view.image)


def image_of(answer: Any, kind: str, view: View | None = None) -> bytes:
    """Bytes of an answer's chart, "svg" or "png"; PodsimError if it has none."""
    view = view or view_of(answer)
    if view.image:
        return bytes(call(view.image, answer, kind))
    return figure_image(figure(answer), kind)


def charts_of(answer: Any, view: View | None = None) -> Sequence[Markup]:
    """The charts of an answer as figures of a page, without the title of the sheet; empty for answers without one."""
    view = view or view_of(answer)
    if view.charts:
        charts: Sequence[Markup] = call(view.charts, answer)
        return charts
    if view.figure and not view.image and isinstance(sheet := call(view.figure, answer), Sheet):
        return [titled_figure(figure_image(draw(replace(sheet, title="")), "svg"), view.chart)]
    svg = image_of(answer, "svg", view) if has_image(view) else b""
    return [titled_figure(svg, view.chart)] if svg else []


def figure(answer: Answer, **options: Any) -> Any:
    """The chart of an answer; PodsimError if it has none."""
    view = view_of(answer)
    if not view.figure:
        charts = ", ".join(sorted(kind.__name__ for kind in Answer.__subclasses__() if kind.view.figure))
        raise PodsimError(
            f"{type(answer).__name__} has no chart; to_frame() gives its rows. Charts: {charts}"
        )
    shown = call(view.figure, answer, **options)
    return draw(shown) if isinstance(shown, Sheet) else shown
