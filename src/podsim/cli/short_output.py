"""Answers of more than one kind, and a few whose forms depend on the options."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, cast

from podsim.answers.compared_server import ComparedServer
from podsim.answers.graphs import GraphCost
from podsim.answers.lab import ComparedCollectives
from podsim.answers.launched import PlanRead, Recipe
from podsim.answers.served_real import ComparedServing
from podsim.answers.trained import ComparedDdp, ComparedTraining
from podsim.cli.command import print_answer
from podsim.cli.late_import import load
from podsim.options.output_options import FioOutput, GlanceOutput, Output
from podsim.quoting import visible
from podsim.report.screen import Report


def show_graph(cost: Any, output: Output, options: Mapping[str, Any]) -> None:
    """Print the cost of a graph, with its ops if they are wanted."""
    report = load("report.graph_tables:graph_report")
    print_answer(cost, output, lambda answer: report(answer, detail=options["detail"]), rows=cost.ops)


def show_prediction(answer: Any, output: GlanceOutput, options: Mapping[str, Any]) -> None:
    """Print the prediction of a plan, or the cost of a captured network."""
    if isinstance(answer, GraphCost):
        show_graph(answer, output, options)
    else:
        is_brief = not output.verbose and not options.get("detail")
        name = "glance:prediction_glance" if is_brief else "predictions:prediction_report"
        print_answer(
            answer, output, load(f"report.{name}"), full=load("report.predictions:prediction_report")
        )


def show_launch(answer: Recipe | PlanRead, output: Output, options: Mapping[str, Any]) -> None:
    """Print files that start a plan, with notes apart from them, or a plan that was read."""
    print_answer(answer, output, load("report.launches:launch_report"))
    if isinstance(answer, Recipe) and not (output.json or output.csv):
        sys.stderr.writelines(f"podsim: note: {visible(note)}\n" for note in answer.notes)


def storage_rows(answer: Any) -> Any:
    """One sheet or several as rows."""
    return answer if isinstance(answer, list) else [answer]


def show_fio(run: Any, output: FioOutput, options: Mapping[str, Any]) -> None:
    """Print a run of fio, also in fio's own form."""
    if output.fio_json:
        sys.stdout.write(load("report.fio_json:fio_json")(run) + "\n")
    else:
        print_answer(run, output, load("report.storage_tables:fio_report"), rows=run.rows)


def compared_report(answer: Any) -> Report:
    """The report of a measured run and its prediction."""
    if isinstance(answer, ComparedServer):
        return cast("Report", load("report.compared_servers:compared_server_report")(answer))
    kind = "lab_tables:storage_report"
    if isinstance(answer, ComparedTraining):
        kind = "training_tables:compared_training_report"
    elif isinstance(answer, ComparedDdp):
        kind = "training_tables:compared_ddp_report"
    elif isinstance(answer, ComparedCollectives):
        kind = "lab_tables:collectives_report"
    elif isinstance(answer, ComparedServing):
        return cast("Report", load("report.serving_lab_tables:compared_serving_report")(answer))
    return cast("Report", load(f"report.{kind}")(answer))


def compared_rows(answer: Any) -> Any:
    """The comparison by row."""
    return [answer] if isinstance(answer, (ComparedTraining, ComparedDdp)) else answer.rows
