"""What is played out: schedules, steps, workers; with their timelines and pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podsim.answers.exchanged import ExchangeRun, Tradeoff
from podsim.answers.scheduled import ScheduleComparison, ScheduleSheet
from podsim.answers.simulated import SimulatedStep
from podsim.cli.command import print_answer
from podsim.errors import PodsimError
from podsim.options.output_options import ScheduleOutput, SimulateOutput, WorkersOutput
from podsim.questions.train.schedule import torch_csv
from podsim.report.pages import schedule_page
from podsim.report.plot_schedule import schedule_image
from podsim.report.plot_workers import tradeoff_image
from podsim.report.schedules import schedule_report, schedules_report
from podsim.report.simulation import simulated_data, simulated_report
from podsim.report.step_tables import against_report
from podsim.report.worker_tables import (
    exchange_data,
    exchange_report,
    tradeoff_data,
    tradeoff_report,
    tradeoff_rows,
)
from podsim.timeline.kineto import read_kineto
from podsim.timeline.kineto_compare import compare_steps
from podsim.timeline.link_plots import plot_links
from podsim.timeline.timelines import write_timeline
from podsim.whole_files import write_whole


def check_schedule(output: ScheduleOutput, options: Mapping[str, Any]) -> None:
    """Raise PodsimError where a picture or torch's form is wanted of all schedules."""
    if not options["name"] and (output.plot is not None or output.csv_torch is not None):
        raise PodsimError("--plot and --csv-torch are of one schedule: give its name")


def show_schedule(
    answer: ScheduleSheet | ScheduleComparison, output: ScheduleOutput, options: Mapping[str, Any]
) -> None:
    """Print a schedule or all of them; draw one, and write it for torch."""
    if output.csv_torch is not None:
        sizes = {name: options[name] for name in ("pp", "micro_batches", "virtual_stages")}
        write_whole(output.csv_torch, torch_csv(options["name"], **sizes))
    if not isinstance(answer, ScheduleSheet):
        print_answer(answer, output, schedules_report, rows=answer.rows)
        return
    if output.plot is not None:
        kind = output.plot.suffix.lower()[1:]
        picture = schedule_page(answer).encode() if kind == "html" else schedule_image(answer, kind)
        write_whole(output.plot, picture)
    print_answer(answer, output, schedule_report, rows=answer.actions)


def show_step(step: SimulatedStep, output: SimulateOutput, options: Mapping[str, Any]) -> None:
    """Print a step, or what a measured one has different; write its timeline and its links."""
    for path in output.timeline:
        write_timeline(step.timeline, path, title=f"{step.model} on {step.cluster}")
    if output.links is not None:
        plot_links(step, output.links)
    if output.against is not None:
        compared = compare_steps(read_kineto(output.against), step)
        print_answer(compared, output, against_report, rows=compared.rows)
        return
    rows = (step.failure.standing if step.failure else ()) or step.critical
    print_answer(step, output, simulated_report, rows=rows, data=simulated_data)


def check_workers(output: WorkersOutput, options: Mapping[str, Any]) -> None:
    """Raise PodsimError where a picture or a timeline is wanted of what has none."""
    if output.plot is not None and not options["compare"]:
        raise PodsimError("--plot draws a comparison; give --compare, too")
    if output.timeline and options["compare"]:
        raise PodsimError("--timeline is of one exchange; leave --compare out")


def show_workers(answer: ExchangeRun | Tradeoff, output: WorkersOutput, options: Mapping[str, Any]) -> None:
    """Print an exchange with its timeline, or a comparison with its picture."""
    if isinstance(answer, Tradeoff):
        if output.plot is not None:
            write_whole(output.plot, tradeoff_image(answer, output.plot.suffix.lower()[1:]))
        print_answer(answer, output, tradeoff_report, rows=tradeoff_rows(answer), data=tradeoff_data)
        return
    for path in output.timeline:
        write_timeline(answer.timeline, path, title=answer.name)
    print_answer(answer, output, exchange_report, rows=[exchange_data(answer)], data=exchange_data)
