"""The charts of a simulated step on a page: its timeline and its busiest links."""

from __future__ import annotations

from markupsafe import Markup

from podsim.answers.exchanged import ExchangeRun
from podsim.answers.simulated import SimulatedStep
from podsim.report.theme import titled_figure
from podsim.timeline.gantt import gantt_image
from podsim.timeline.link_plots import links_image


def step_charts(step: SimulatedStep) -> list[Markup]:
    """The timeline of a step, and its busiest links."""
    drawn = exchange_charts(step) if len(step.timeline) else []
    return [*drawn, *([titled_figure(links_image(step, "svg"), "Busiest links")] if step.links else [])]


def exchange_charts(run: ExchangeRun | SimulatedStep) -> list[Markup]:
    """The timeline of an exchange."""
    return [titled_figure(gantt_image(run.timeline, "svg"), "Timeline")]
