"""`podsim collective`: a sweep over sizes, or predictions against a log."""

from __future__ import annotations

from typing import Any

from podsim.answers.sweep import Sweep
from podsim.report.collectives import log_report, sweep_report
from podsim.report.plot_collectives import sweep_image
from podsim.report.plots import plot_png, plot_svg
from podsim.report.screen import Report


def collective_rows(answer: Any) -> Any:
    """What CSV shows: the algorithms side by side, or the sizes."""
    return answer.algorithms or answer.rows if isinstance(answer, Sweep) else answer.rows


def collective_image(answer: Any, kind: str) -> bytes:
    """A picture, "svg" or "png"."""
    if isinstance(answer, Sweep):
        return sweep_image(answer, kind)
    return plot_svg(answer) if kind == "svg" else plot_png(answer)


def collective_report(answer: Any) -> Report:
    """The report of either."""
    return sweep_report(answer) if isinstance(answer, Sweep) else log_report(answer)
