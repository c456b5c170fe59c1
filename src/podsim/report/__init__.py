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

from importlib import import_module
from typing import Any

_PUBLIC = {
    "PublishedError": "pages",
    "accuracy_page": "pages",
    "page": "pages",
    "plot": "plot_accuracy",
    "plot_png": "plot_accuracy",
    "plot_svg": "plot_accuracy",
    "print_against": "step_tables",
    "print_measured": "step_tables",
    "print_simulated": "simulation",
    "published_errors": "pages",
    "render": "comparisons",
    "simulated_data": "simulation",
    "simulated_text": "simulation",
}
"""name -> its module, which is imported when the name is first used: a command prints with one or two of them"""

__all__ = [*_PUBLIC]  # noqa: PLE0604 - names from the table above


def __getattr__(name: str) -> Any:
    """A public name from its module."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"podsim.report.{_PUBLIC[name]}"), name)
