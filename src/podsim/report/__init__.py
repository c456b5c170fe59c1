"""Reports: comparisons of predictions with measurements, and simulated steps.

    render(comparisons)          text for a terminal
    plot_svg(comparison)         predicted against measured; plot_png likewise
    page(comparisons)            one self-contained HTML page
    accuracy_page(comparisons)   Markdown, with the errors of other tools

    print_simulated(step)            a simulated step as text; simulated_data(step) for JSON and CSV
    print_measured(step)             the summary of a profile of a real step
    print_against(comparison)        a measured step next to a simulated one

Nothing here computes a score: `podsim.accuracy` puts the scores into the comparisons.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

from podsim.report.comparisons import render
from podsim.report.pages import PublishedError, accuracy_page, page, published_errors
from podsim.report.plots import plot, plot_png, plot_svg
from podsim.report.simulation import print_simulated, simulated_data, simulated_text
from podsim.report.step_tables import print_against, print_measured

__all__ = [
    "PublishedError",
    "accuracy_page",
    "page",
    "plot",
    "plot_png",
    "plot_svg",
    "print_against",
    "print_measured",
    "print_simulated",
    "published_errors",
    "render",
    "simulated_data",
    "simulated_text",
]

_MOVED = ("plot_links", "read_timeline", "write_timeline")
"""Names that moved to podsim.timeline."""


def __getattr__(name: str) -> Any:
    """A name that moved to podsim.timeline, with a warning."""
    if name not in _MOVED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"podsim.report.{name} is now podsim.timeline.{name}", DeprecationWarning, stacklevel=2)
    return getattr(import_module("podsim.timeline"), name)
