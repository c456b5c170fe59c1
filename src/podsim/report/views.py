"""How each kind of answer looks: its report, its rows, its chart. `podsim.answers.shown` loads this module by name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from itertools import islice
from typing import Any, NamedTuple

from podsim.answers.shown import Shown
from podsim.errors import PodsimError
from podsim.report.plain_data import flat_lines, plain_value
from podsim.report.plots import figure_image
from podsim.report.screen import report_lines
from podsim.report.screen_html import report_html

_WIDTH = 88
_LINES = 8
"""lines of a short text"""
_LONGEST = 400
"""characters of the text of an answer without a report"""


class View(NamedTuple):
    """The functions for one kind of answer, as MODULE:FUNCTION of podsim.report."""

    report: str = ""
    rows: str = ""
    """The attribute, or the function, that gives the rows; by default the answer itself."""
    figure: str = ""
    data: str = ""
    """The function from an answer to what becomes plain data; by default the answer itself."""


VIEWS: Mapping[str, View] = {
    "Acceptance": View("acceptance_tables:acceptance_report", "checks"),
    "BatchAdvice": View("batch_tables:batch_report", "rows", "plot_batches:batch_figure"),
    "BestServing": View("best_tables:best_report", "ways", "plot_best:best_figure"),
    "Bill": View("expenses:bill_report", "rows"),
    "Captured": View("graph_tables:captured_report"),
    "CheckpointTime": View("run_tables:checkpoint_report"),
    "ComparedCollectives": View("lab_tables:collectives_report", "rows"),
    "ComparedDdp": View("training_tables:compared_ddp_report"),
    "ComparedServer": View("compared_servers:compared_server_report", "rows"),
    "ComparedServing": View("serving_lab_tables:compared_serving_report", "rows"),
    "ComparedStorage": View("lab_tables:storage_report", "rows"),
    "ComparedTraining": View("training_tables:compared_training_report"),
    "Comparison": View("collectives:log_report", "rows", "plots:plot"),
    "Diagnosis": View("diagnosis_tables:diagnosis_report", "findings"),
    "EnsembleRun": View("scenario_tables:ensemble_report", "steps", "plot_serving:ensemble_figure"),
    "ExchangeRun": View(
        "worker_tables:exchange_report", "worker_tables:exchange_rows", data="worker_tables:exchange_data"
    ),
    "Explained": View("why_tables:why_report", "faults"),
    "FailRun": View("storage_tables:fail_report", "rows"),
    "Figure": View("serving:figure_report", "rows", "plot_published:published_figure"),
    "FigureList": View("serving:figures_report", "rows"),
    "FioRun": View("storage_tables:fio_report", "rows", "plot_storage:fio_figure"),
    "Goodput": View("run_tables:goodput_report", "", "plot_runs:goodput_figure"),
    "FormatSheet": View("format_tables:format_report", "format_tables:format_rows", "plot_formats:format_figure"),
    "FormatTable": View("format_tables:format_report", "rows", "plot_formats:format_figure"),
    "FormatTrade": View("format_tables:format_report", "rows", "plot_formats:format_figure"),
    "GraphCost": View("graph_tables:graph_report", "ops"),
    "InputRun": View("storage_tables:input_report", "stages"),
    "KernelTime": View("kernel_table:kernel_report", "nearest"),
    "LawReport": View("mig_tables:law_report", "scores"),
    "LayoutSheet": View("mig_tables:layout_report", "slices"),
    "LayoutTable": View("mig_tables:layouts_report", "rows"),
    "MdtestRun": View("storage_tables:mdtest_report", "rows"),
    "MeasuredCheckpoints": View("lab_tables:checkpoints_report", "rows"),
    "MeasuredCollectives": View("collectives:measured_report", "rows"),
    "MeasuredDdp": View("training_tables:ddp_report", "rows"),
    "MeasuredHost": View("lab_tables:host_report", "kernels"),
    "MeasuredRanks": View("lab_tables:ranks_report", "rows"),
    "MeasuredLoader": View("lab_tables:loader_report", "rows"),
    "MeasuredServing": View("serving_lab_tables:measured_report", "rows"),
    "MeasuredTables": View("training_tables:sparse_report", "rows"),
    "MeasuredTraining": View("training_tables:training_report", "rows", "plot_losses:loss_figure"),
    "MigPlan": View("mig_tables:plan_report"),
    "MinutesTable": View("minutes_tables:minutes_report", "rows", "plot_minutes:minutes_figure"),
    "PackResult": View("queue_tables:pack_report", "rows", "plot_queue:pack_figure"),
    "PlanRead": View("launches:launch_report"),
    "PlanResult": View("glance:plans_glance", "", "plot_plans:plans_figure"),
    "PowerReport": View("expenses:power_report", "loads"),
    "Prediction": View("glance:prediction_glance", "", "plot_plans:prediction_figure"),
    "Pruned": View("prune_tables:prune_report", "tensors", "plot_prune:prune_figure"),
    "QueueResult": View(
        "queue_tables:queue_report", "queue_tables:plain_rows", "plot_queue:queue_figure",
        "queue_tables:plain_result",
    ),
    "Recipe": View("launches:launch_report"),
    "RoutedFlows": View("collectives:flows_report", "rows"),
    "ScaleBest": View("scale_tables:best_report", "front", "plot_scaling:scale_figure", "scale_tables:fit_data"),
    "ScaleFit": View("scale_tables:fit_report", "rows", "plot_scaling:scale_figure", "scale_tables:fit_data"),
    "ScaleLadder": View("scale_tables:ladder_report", "rows", "plot_scaling:scale_figure", "scale_tables:fit_data"),
    "ScaleLaws": View("scale_tables:laws_report", "rows", "plot_scaling:scale_figure"),
    "ScaleLoss": View(
        "scale_tables:loss_report", "scale_tables:loss_rows", "plot_scaling:scale_figure", "scale_tables:fit_data"
    ),
    "ScenarioRun": View(
        "scenario_tables:scenario_report", "scenario_tables:scenario_rows", "plot_serving:scenario_figure"
    ),
    "ScheduleComparison": View("schedules:schedules_report", "rows"),
    "ScheduleSheet": View("schedules:schedule_report", "actions", "plot_schedule:schedule_figure"),
    "Served": View("serving:served_report", "rows", "plot_serving:served_figure"),
    "ServedLoad": View("load_tables:load_report", "rows", "plot_load:load_figure"),
    "Sharded": View("shard_tables:shard_report", "ops"),
    "Sheet": View("sheets:sheet_report"),
    "SimulatedStep": View("simulation:simulated_report", "critical", data="simulation:simulated_data"),
    "SizeRun": View("storage_tables:size_report", "needs"),
    "StorageSheet": View("storage_tables:sheets_report"),
    "StorageValidation": View("comparisons:summary_report"),
    "StudyResult": View("study_tables:study_report", "study_tables:flat_rows", "plot_study:study_figure"),
    "StudyRow": View("study_tables:row_report"),
    "StreamRun": View("scenario_tables:streams_report", "points", "plot_serving:streams_figure"),
    "Sweep": View("collectives:sweep_report", "", "plot_collectives:sweep_figure"),
    "Traces": View("graph_tables:traces_report", "files"),
    "TargetPlan": View("minutes_tables:target_report", "choices", "plot_minutes:target_figure"),
    "Tradeoff": View(
        "worker_tables:tradeoff_report", "worker_tables:tradeoff_rows", "plot_workers:tradeoff_figure",
        "worker_tables:tradeoff_data",
    ),
    "TrainedPrecisions": View("precision_tables:precisions_report", "rows", "plot_precisions:precision_figure"),
    "Validation": View("comparisons:summary_report"),
}  # fmt: skip
"""by the name of the class"""


def report_of(answer: Shown) -> Any:
    """The report of an answer, whatever its kind, as blocks."""
    return _called(_view(answer).report, answer)


def rows_of(answer: Shown) -> Any:
    """What CSV shows of an answer, whatever its kind."""
    rows = _view(answer).rows
    if ":" in rows:
        return _called(rows, answer)
    return getattr(answer, rows) if rows else answer


def has_figure(answer: Any) -> bool:
    """Whether an answer is of a kind with a chart."""
    return bool(_view(answer).figure)


def image_of(answer: Shown, kind: str) -> bytes:
    """Bytes of an answer's chart, "svg" or "png"; PodsimError if it has none."""
    return figure_image(figure(answer), kind)


def _view(answer: Shown) -> View:
    return VIEWS.get(type(answer).__name__, View())


def _called(name: str, answer: Shown, **options: Any) -> Any:
    module, _, function = name.partition(":")
    return getattr(import_module(f"podsim.report.{module}"), function)(answer, **options)


def short_text(answer: Shown) -> str:
    """The first lines of an answer's report, without blank ones; never an error, as debuggers show it, too."""
    view, name = _view(answer), type(answer).__name__
    try:
        lines = (line for line in report_lines(_called(view.report, answer), _WIDTH) if line.strip())
        first = list(islice(lines, _LINES + 1))
    except Exception:
        first = []
    if not first:
        text = ", ".join(f"{key}={value!r}" for key, value in vars(answer).items())
        return f"{name}({text[:_LONGEST]}{'…' if len(text) > _LONGEST else ''})"
    more = ["…"] if len(first) > _LINES else []
    return "\n".join([f"<{name}> {first[0].strip()}", *(f"  {line}" for line in first[1:_LINES]), *more])


def html(answer: Shown) -> str:
    """The report of an answer as HTML."""
    return report_html(report_of(answer))


def plain_data(answer: Shown) -> dict[str, Any]:
    """The data of the command's --json."""
    view = _view(answer)
    data: dict[str, Any] = plain_value(_called(view.data, answer) if view.data else answer)
    return data


def data_frame(answer: Shown) -> Any:
    """The rows of the command's --csv, as a data frame of pandas, or else of polars."""
    lines = flat_lines(rows_of(answer))
    columns = list(dict.fromkeys(name for line in lines for name in line))
    for package in ("pandas", "polars"):
        try:
            frame = import_module(package).DataFrame
        except ImportError:
            continue
        return frame({name: [line.get(name) for line in lines] for name in columns})
    raise PodsimError("a data frame needs pandas or polars: pip install pandas")


def figure(answer: Shown, **options: Any) -> Any:
    """The chart of an answer; PodsimError if it has none."""
    view = _view(answer)
    if not view.figure:
        charts = ", ".join(name for name, view in VIEWS.items() if view.figure)
        raise PodsimError(
            f"{type(answer).__name__} has no chart; to_frame() gives its rows. Charts: {charts}"
        )
    return _called(view.figure, answer, **options)
