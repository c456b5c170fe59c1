"""`podsim study`: its table, its charts, and the files of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podsim.answers.study import StudyResult
from podsim.cli.command import print_answer
from podsim.errors import PodsimError
from podsim.options.question import wrong_choices
from podsim.options.study_options import StudyOutput
from podsim.report.plot_study import read_axes, study_image
from podsim.report.plots import load_matplotlib
from podsim.report.study_files import write_parquet, write_workbook
from podsim.report.study_tables import flat_rows, study_report
from podsim.whole_files import write_whole


def check_study(output: StudyOutput, options: Mapping[str, Any]) -> None:
    """Raise PodsimError for files that cannot be written and charts that do not exist, before any work is done."""
    problems = wrong_choices(output, "chart")
    for flag, path in (
        ("--plot", output.plot),
        ("--xlsx", output.xlsx),
        ("--parquet", output.parquet),
        ("--html", output.html),
    ):
        if path is not None and not path.parent.is_dir():
            problems.append(f"{flag} {str(path)[-120:]}: there is no directory {str(path.parent)[-120:]}")
    if problems:
        raise PodsimError("; ".join(problems))
    read_axes(output.axes)
    if output.plot is not None or output.html is not None:
        load_matplotlib()


def show_study(result: StudyResult, output: StudyOutput, options: Mapping[str, Any]) -> None:
    """Write the files that were asked for, then print the rows."""
    if output.xlsx is not None:
        write_workbook(result, output.xlsx)
    if output.parquet is not None:
        write_parquet(result, output.parquet)
    if output.plot is not None:
        kind = output.plot.suffix.lower()[1:]
        write_whole(output.plot, study_image(result, kind, chart=output.chart, axes=output.axes))
    print_answer(result, output, study_report, rows=flat_rows(result))
