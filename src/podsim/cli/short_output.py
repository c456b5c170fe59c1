"""Answers of more than one kind, and a few whose forms depend on the options."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from podsim.cli.command import load, print_answer
from podsim.options.output_options import FioOutput, Output
from podsim.results.lab import ComparedCollectives
from podsim.results.launched import PlanRead
from podsim.results.served import Figure
from podsim.results.trained import ComparedDdp, ComparedTraining


def show_graph(cost: Any, output: Output, options: Mapping[str, Any]) -> None:
    """Print the cost of a graph, with its ops if they are wanted."""
    text = load("report.graphs:print_graph")
    print_answer(cost, output, lambda answer: text(answer, detail=options["detail"]), rows=cost.ops)


def print_launch(answer: Any) -> None:
    """Print files that start a plan, or a plan that was read."""
    load(f"report.launches:{'print_read' if isinstance(answer, PlanRead) else 'print_recipe'}")(answer)


def print_serving(answer: Any) -> None:
    """Print inference by batch, or a figure of the white paper."""
    load(f"report.serving:{'print_figure' if isinstance(answer, Figure) else 'print_served'}")(answer)


def storage_rows(answer: Any) -> Any:
    """One sheet or several as rows."""
    return answer if isinstance(answer, list) else [answer]


def show_fio(run: Any, output: FioOutput, options: Mapping[str, Any]) -> None:
    """Print a run of fio, also in fio's own form."""
    if output.fio_json:
        sys.stdout.write(load("report.fio_json:fio_json")(run) + "\n")
    else:
        print_answer(run, output, load("report.storage:print_fio"), rows=run.rows)


def print_compared(answer: Any) -> None:
    """Print a measured run and its prediction."""
    printer = "lab_storage:print_compared_storage"
    if isinstance(answer, ComparedTraining):
        printer = "trained:print_compared_training"
    elif isinstance(answer, ComparedDdp):
        printer = "trained:print_compared_ddp"
    elif isinstance(answer, ComparedCollectives):
        printer = "lab:print_comparison"
    load(f"report.{printer}")(answer)


def compared_rows(answer: Any) -> Any:
    """The comparison by row."""
    return [answer] if isinstance(answer, (ComparedTraining, ComparedDdp)) else answer.rows
