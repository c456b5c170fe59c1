"""Comparisons of predictions with measurements, as text, plots, one HTML page, and docs/accuracy.md.

    render(comparisons)          text for a terminal
    plot_svg(comparison)         predicted against measured; plot_png likewise
    page(comparisons)            one self-contained HTML page
    accuracy_page(comparisons)   Markdown, with the errors of other tools

Nothing here computes a score: `podsim.verify` has put them into the comparisons.
"""

from podsim.report.accuracy import PublishedError, accuracy_page, published_errors
from podsim.report.html import page
from podsim.report.plots import plot, plot_png, plot_svg
from podsim.report.text import render

__all__ = [
    "PublishedError",
    "accuracy_page",
    "page",
    "plot",
    "plot_png",
    "plot_svg",
    "published_errors",
    "render",
]
