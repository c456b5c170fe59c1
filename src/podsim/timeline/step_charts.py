"""The charts of a simulated step on a page: its timeline and its busiest links."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from markupsafe import Markup

from podsim.answers.exchanged import ExchangeRun
from podsim.answers.simulated import SimulatedStep
from podsim.report.theme import titled_figure
from podsim.timeline.gantt import gantt_image
from podsim.timeline.link_plots import links_image


def step_charts(step: SimulatedStep) -> list[Markup]:
    """The timeline of a step, and its busiest links."""
    drawn = _titled("Timeline", gantt_image, step.timeline) if len(step.timeline) else []
    return [*drawn, *(_titled("Busiest links", links_image, step) if step.links else [])]


def exchange_charts(run: ExchangeRun) -> list[Markup]:
    """The timeline of an exchange."""
    return _titled("Timeline", gantt_image, run.timeline)


def _titled(label: str, image: Callable[..., bytes], shown: Any) -> list[Markup]:
    svg = image(shown, "svg")
    return [titled_figure(svg, label)] if svg else []
