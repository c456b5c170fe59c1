"""How matplotlib is used: its style, images of figures, texts as they are, ticks. Needs podsim[report]."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from podsim.errors import PodsimError
from podsim.packaged import install_hint
from podsim.quoting import visible, visible_lines
from podsim.report.chart_marks import INK

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

STYLE = {
    "font.size": 10.0, "axes.edgecolor": INK, "axes.labelcolor": INK, "text.color": INK, "xtick.color": INK,
    "ytick.color": INK, "axes.spines.top": False, "axes.spines.right": False, "svg.fonttype": "none",
    "svg.hashsalt": "podsim", "legend.frameon": False, "font.family": ["DejaVu Sans"],
}  # fmt: skip


def load_matplotlib() -> Any:
    """The matplotlib module, imported when first needed."""
    try:
        import matplotlib as module
    except ImportError:
        raise PodsimError(f"plots need matplotlib: {install_hint('report')}") from None
    return module


def figure_image(figure: Figure, kind: str, *, dpi: int = 150, is_transparent: bool = False) -> bytes:
    """Bytes of a figure, "svg" or "png", on white unless it is transparent; the same bytes for the same figure."""
    out = io.BytesIO()
    options: dict[str, Any] = {"metadata": {"Date": None, "Creator": None}} if kind == "svg" else {}
    background = {"transparent": True} if is_transparent else {"facecolor": "white"}
    show_as_they_are(figure)
    with load_matplotlib().rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure.savefig(out, format=kind, dpi=dpi, **background, **options)
    return out.getvalue()


def _visible_tick(text: Callable[[float, int | None], str], value: float, at: int | None) -> str:
    return visible(text(value, at))


def show_as_they_are(figure: Figure) -> None:
    """Take no text of a figure for a formula of TeX, and spell out what prints nothing; numbers of axes stay."""
    from matplotlib.text import Text
    from matplotlib.ticker import FuncFormatter

    numbers = set()
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        known = axis.get_major_formatter()
        if isinstance(known, FuncFormatter):
            known.func = partial(_visible_tick, known.func)
        else:
            numbers |= {
                label for tick in (*axis.majorTicks, *axis.minorTicks) for label in (tick.label1, tick.label2)
            }
    for text in {*figure.findobj(Text)} - numbers:
        text.set_text(visible_lines(text.get_text()))
        text.set_parse_math(False)


def set_log_ticks(axis: Axis, text: Callable[[float], str] = "{:g}".format) -> None:
    """Name at most eight round values of a logarithmic axis, once its limits are known, and nothing between them."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis.set_major_locator(FixedLocator(_ticks(*axis.get_view_interval())))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: text(float(f"{value:.6g}"))))


def _ticks(low: float, high: float) -> list[float]:
    """Round values in a range, three to eight of them; steps of equal size where the range is narrow."""
    for steps in (
        (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0),
        (1.0, 1.5, 2.0, 3.0, 5.0, 7.0),
        (1.0, 2.0, 5.0),
    ):
        ticks = _round_values(low, high, steps)
        if len(ticks) < 3:
            break
        if len(ticks) <= 8:
            return ticks
    if high < 10 * low:
        from matplotlib.ticker import MaxNLocator

        return [tick for tick in MaxNLocator(5).tick_values(low, high) if low <= tick <= high]
    ticks = _round_values(low, high, (1.0,))
    return ticks[:: math.ceil(len(ticks) / 8)]


def _round_values(low: float, high: float, steps: Sequence[float]) -> list[float]:
    """steps x powers of ten in a range."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [step * 10.0**power for power in powers for step in steps if low <= step * 10.0**power <= high]
