"""`--html`: the report of an answer as one page, with its charts."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click
from markupsafe import Markup

from podsim import __version__
from podsim.answers.acceptance import Acceptance
from podsim.answers.exchanged import ExchangeRun, Tradeoff
from podsim.answers.prediction import PlanResult, Prediction
from podsim.answers.queued import PackResult, QueueResult
from podsim.answers.runs import Goodput
from podsim.answers.scaling_answers import ScaleBest, ScaleFit, ScaleLadder, ScaleLaws, ScaleLoss
from podsim.answers.scheduled import ScheduleSheet
from podsim.answers.simulated import SimulatedStep
from podsim.answers.storage import FioRun
from podsim.answers.study import StudyResult
from podsim.answers.sweep import Sweep
from podsim.cli.command import Charts
from podsim.errors import PodsimError
from podsim.hardware.fabrics.describe import Drawing
from podsim.report.fabric_svg import fabric_svg
from podsim.report.pages import acceptance_page
from podsim.report.plot_collectives import sweep_image
from podsim.report.plot_predictions import plans_charts, prediction_charts
from podsim.report.plot_queue import pack_image, queue_image
from podsim.report.plot_runs import goodput_image
from podsim.report.plot_scaling import scale_image
from podsim.report.plot_schedule import schedule_image
from podsim.report.plot_storage import fio_image
from podsim.report.plot_study import study_charts
from podsim.report.plot_workers import tradeoff_image
from podsim.report.report_page import report_page
from podsim.report.screen import Report
from podsim.report.theme import titled_figure
from podsim.report.views import has_figure, image_of
from podsim.timeline.gantt import gantt_image
from podsim.timeline.link_plots import links_image
from podsim.whole_files import write_whole

LARGEST = 1_500_000
"""B. The size that a page may have."""


def write_page(
    answer: Any, path: Path, report: Callable[[Any], Report], charts: Charts | None = None
) -> None:
    """Write the page of an answer, with its `charts`, by default those of its kind.

    Raises PodsimError for a name of another ending, where a plot needs matplotlib, and where nothing can be written.
    """
    if path.suffix.lower() not in (".html", ".htm"):
        raise PodsimError(f"--html {str(path)[-80:]}: give a name that ends in .html")
    try:
        write_whole(path, _page(answer, report, charts))
    except OSError as problem:
        raise PodsimError(f"--html {str(path)[-80:]}: cannot be written: {problem.strerror}") from None


def _page(answer: Any, report: Callable[[Any], Report], charts: Charts | None) -> str:
    """The text of a page; without charts if they would make it too large."""
    if isinstance(answer, Acceptance):
        return acceptance_page(answer)
    render = partial(report_page, command=_command(), version=__version__)
    text = render(report(answer), charts() if charts else charts_of(answer))
    return text if len(text) <= LARGEST else render(report(answer))


def charts_of(answer: Any) -> Sequence[Markup]:
    """The charts of an answer, as figures of a page; empty for kinds of answers without one."""
    draw = next((draw for kind, draw in CHARTS.items() if isinstance(answer, kind)), None)
    if draw is None and has_figure(answer):
        draw = _plot("Chart", image_of)
    return draw(answer) if draw else ()


def _plot(label: str, image: Callable[..., bytes], *, field: str = "") -> Callable[[Any], list[Markup]]:
    """The chart of one plot, of the answer or of a field of it."""

    def draw(answer: Any) -> list[Markup]:
        svg = image(getattr(answer, field) if field else answer, "svg")
        return [titled_figure(svg, label)] if svg else []

    return draw


def _drawn_fabric(drawing: Drawing) -> list[Markup]:
    """The drawing as an image, which keeps its styles to itself."""
    data = base64.b64encode(fabric_svg(drawing).encode()).decode()
    return [
        Markup('<figure><img alt="{}" src="data:image/svg+xml;base64,{}"></figure>').format(
            drawing.title, data
        )
    ]


def _step_charts(step: SimulatedStep) -> list[Markup]:
    """The timeline of a step, and its busiest links."""
    drawn = _plot("Timeline", gantt_image, field="timeline")(step) if len(step.timeline) else []
    return [*drawn, *(_plot("Busiest links", links_image)(step) if step.links else [])]


def _study_charts(result: StudyResult) -> list[Markup]:
    """Every chart that the study has data for."""
    return [titled_figure(svg, name.capitalize()) for name, svg in study_charts(result).items()]


CHARTS: Mapping[type, Callable[[Any], list[Markup]]] = MappingProxyType({
    Drawing: _drawn_fabric,
    Prediction: prediction_charts,
    PlanResult: plans_charts,
    SimulatedStep: _step_charts,
    Goodput: _plot("Intervals and days", goodput_image),
    QueueResult: _plot("Use over time and completion times", queue_image),
    PackResult: _plot("Allocated over requested GPUs", pack_image),
    ScheduleSheet: _plot("Schedule", schedule_image),
    Sweep: _plot("Time and bandwidth", sweep_image),
    FioRun: _plot("Scaling over clients", fio_image),
    ScaleBest: _plot("IsoFLOP curves and days", scale_image),
    ScaleFit: _plot("Runs and the law", scale_image),
    ScaleLoss: _plot("Loss by tokens and parameters", scale_image),
    ScaleLadder: _plot("Runs and the law", scale_image),
    ScaleLaws: _plot("Advice of named laws", scale_image),
    StudyResult: _study_charts,
    Tradeoff: _plot("Idle time against staleness", tradeoff_image),
    ExchangeRun: _plot("Timeline", gantt_image, field="timeline"),
})  # fmt: skip


def _command() -> str:
    """The command as it was typed, without the option of the page."""
    context = click.get_current_context(silent=True)
    words = list(context.meta.get("podsim.words", ())) if context else []
    if "--html" in words[:-1]:
        at = words.index("--html")
        del words[at : at + 2]
    return shlex.join(word for word in words if not word.startswith("--html="))
