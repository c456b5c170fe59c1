"""How commands about training print what a column table cannot say: validate, schedule, simulate, workers and train."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from typing import Any

from podsim.accuracy.registry_sensitivity import sensitivity
from podsim.cli.command import load, print_answer
from podsim.errors import PodsimError
from podsim.lab.options import no_folder
from podsim.options.output_options import (
    FioOutput,
    JsonOutput,
    Output,
    ScheduleOutput,
    SimulateOutput,
    TrainOutput,
    ValidateOutput,
    WorkersOutput,
)
from podsim.report import accuracy_page, page, render
from podsim.report.calibration import calibration_report, sensitivity_report
from podsim.report.data import to_json
from podsim.report.lab import training_report
from podsim.report.pages import schedule_page
from podsim.report.plot_losses import loss_image
from podsim.report.plot_schedule import schedule_image
from podsim.report.plot_workers import tradeoff_image
from podsim.report.schedules import schedule_report, schedules_report
from podsim.report.screen import Report, report_text
from podsim.report.simulation import simulated_data, simulated_report
from podsim.report.steps import against_report
from podsim.report.workers import exchange_data, exchange_report, tradeoff_report
from podsim.results.exchanged import ExchangeRun, Tradeoff
from podsim.results.lab import ComparedCollectives
from podsim.results.launched import PlanRead, Recipe
from podsim.results.scheduled import ScheduleComparison, ScheduleSheet
from podsim.results.served import Figure
from podsim.results.simulated import SimulatedStep
from podsim.results.trained import ComparedDdp, ComparedTraining, MeasuredTraining
from podsim.timeline.kineto import read_kineto
from podsim.timeline.kineto_compare import compare_steps
from podsim.timeline.link_plots import plot_links
from podsim.timeline.timelines import write_timeline
from podsim.verbs.schedule import torch_csv
from podsim.verbs.train import read_trained
from podsim.verbs.validate import UNKNOWN, validate

_WIDTH = 140
"""columns that these tables need, whatever the terminal"""


def validation_or_sensitivity(options: Mapping[str, Any], output: ValidateOutput) -> Any:
    """What the tables say, or how far constants move them."""
    return sensitivity(list(options["tables"])) if output.sensitivity else validate(**options)


def show_validation(answer: Any, output: ValidateOutput, options: Mapping[str, Any]) -> None:
    """Print the comparisons, and write the pages."""
    if output.sensitivity:
        _print(answer, output, report_text(sensitivity_report(answer), _WIDTH))
        return
    if output.html is not None:
        output.html.write_text(page(answer.comparisons, answer.verdicts), "utf-8")
    if output.markdown is not None:
        text = accuracy_page(answer.comparisons, answer.verdicts, unknown=UNKNOWN)
        output.markdown.write_text(text, "utf-8")
    width = max(shutil.get_terminal_size((170, 40)).columns, _WIDTH)
    detail = bool(options["tables"] or options["rows"])
    _print(answer, output, render(answer.comparisons, answer.verdicts, width=width, detail=detail))


def show_calibration(answer: Any, output: JsonOutput, options: Mapping[str, Any]) -> None:
    """Print constants that were fitted, or how they differ from the packaged ones."""
    report = calibration_report(answer, is_check=options["check"])
    _print(answer, output, report_text(report, _WIDTH))


def _print(answer: Any, output: JsonOutput, text: str) -> None:
    sys.stdout.write(to_json(answer) + "\n" if output.json else text)


def storage_validation_rows(validation: Any) -> list[Any]:
    """The rows of all comparisons of storage."""
    return [row for comparison in validation.comparisons for row in comparison.rows]


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
        output.csv_torch.write_text(torch_csv(options["name"], **sizes), "utf-8")
    if not isinstance(answer, ScheduleSheet):
        print_answer(answer, output, schedules_report, rows=answer.rows)
        return
    if output.plot is not None:
        kind = output.plot.suffix.lower()[1:]
        picture = schedule_page(answer).encode() if kind == "html" else schedule_image(answer, kind)
        output.plot.write_bytes(picture)
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
            output.plot.write_bytes(tradeoff_image(answer, output.plot.suffix.lower()[1:]))
        rows = [exchange_data(run) for run in answer.runs]
        print_answer(
            answer, output, tradeoff_report, rows=rows, data=lambda _: {"name": answer.name, "runs": rows}
        )
        return
    for path in output.timeline:
        write_timeline(answer.timeline, path, title=answer.name)
    print_answer(answer, output, exchange_report, rows=[exchange_data(answer)], data=exchange_data)


def check_train(output: TrainOutput, options: Mapping[str, Any]) -> None:
    """Raise what reading the other runs, or writing the picture, would raise after the training."""
    _others(output)
    if problems := no_folder(output.plot, "--plot"):
        raise PodsimError(*problems)


def show_trained(run: MeasuredTraining, output: TrainOutput, options: Mapping[str, Any]) -> None:
    """Print a run and the others, and draw them."""
    others = _others(output)
    if output.plot is not None:
        output.plot.write_bytes(loss_image([run, *others.values()], output.plot.suffix.lower()[1:]))
    print_answer(run, output, lambda answer: training_report(answer, others), rows=run.rows)


def _others(output: TrainOutput) -> dict[str, MeasuredTraining]:
    return {path.name: read_trained(path) for path in output.against}


def show_graph(cost: Any, output: Output, options: Mapping[str, Any]) -> None:
    """Print the cost of a graph, with its ops if they are wanted."""
    report = load("report.graphs:graph_report")
    print_answer(cost, output, lambda answer: report(answer, detail=options["detail"]), rows=cost.ops)


def show_launch(answer: Recipe | PlanRead, output: Output, options: Mapping[str, Any]) -> None:
    """Print files that start a plan, with notes apart from them, or a plan that was read."""
    print_answer(answer, output, load("report.launches:launch_report"))
    if isinstance(answer, Recipe) and not (output.json or output.csv):
        sys.stderr.writelines(f"podsim: note: {note}\n" for note in answer.notes)


def serving_report(answer: Any) -> Report:
    """The report of inference by batch, or of a figure of the white paper."""
    kind = "figure_report" if isinstance(answer, Figure) else "served_report"
    report: Report = load(f"report.serving:{kind}")(answer)
    return report


def storage_rows(answer: Any) -> Any:
    """One sheet or several as rows."""
    return answer if isinstance(answer, list) else [answer]


def show_fio(run: Any, output: FioOutput, options: Mapping[str, Any]) -> None:
    """Print a run of fio, also in fio's own form."""
    if output.fio_json:
        sys.stdout.write(load("report.fio_json:fio_json")(run) + "\n")
    else:
        print_answer(run, output, load("report.storage:fio_report"), rows=run.rows)


def compared_report(answer: Any) -> Report:
    """The report of a measured run and its prediction."""
    kind = "storage_report"
    if isinstance(answer, ComparedTraining):
        kind = "compared_training_report"
    elif isinstance(answer, ComparedDdp):
        kind = "compared_ddp_report"
    elif isinstance(answer, ComparedCollectives):
        kind = "collectives_report"
    report: Report = load(f"report.lab:{kind}")(answer)
    return report


def compared_rows(answer: Any) -> Any:
    """The comparison by row."""
    return [answer] if isinstance(answer, (ComparedTraining, ComparedDdp)) else answer.rows
