"""The commands about accuracy: `podsim validate` and `podsim calibrate`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

Tables = Annotated[
    list[str] | None, typer.Option("--table", help="A packaged table; repeatable. Default: all.")
]
RowsFile = Annotated[
    Path | None,
    typer.Option(help="CSV with the columns of a reference table, log of nccl-tests, or run of the lab."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, numbers in SI.")]
Html = Annotated[Path | None, typer.Option(help="Write one HTML page with a plot for each table.")]
Markdown = Annotated[Path | None, typer.Option(help="Write the page docs/accuracy.md.")]
Sensitivity = Annotated[
    bool, typer.Option("--sensitivity", help="How far 5 % of each constant moves each table; takes minutes.")
]
Role = Annotated[str, typer.Option(help="test or calibrate: only the rows of that role.")]


def validate(
    table: Tables = None,
    rows: RowsFile = None,
    role: Role = "",
    html: Html = None,
    markdown: Markdown = None,
    sensitivity: Sensitivity = False,
    json: Json = False,
) -> None:
    """Hold predictions against measurements. Exit status 1: a bar is not met."""
    from podsim.report import accuracy_page, page, render
    from podsim.report.data import to_json
    from podsim.verbs.validate import UNKNOWN
    from podsim.verbs.validate import validate as verb

    if sensitivity:
        _sensitivity(table or [], json)
        return
    found = verb(table or (), rows=rows, role=role)
    if html is not None:
        html.write_text(page(found.comparisons, found.verdicts), "utf-8")
    if markdown is not None:
        markdown.write_text(accuracy_page(found.comparisons, found.verdicts, unknown=UNKNOWN), "utf-8")
    if json:
        sys.stdout.write(to_json(found) + "\n")
    else:
        width = max(shutil.get_terminal_size((170, 40)).columns, 140)
        detail = bool(table or rows)
        sys.stdout.write(render(found.comparisons, found.verdicts, width=width, detail=detail))
    if not found.met:
        raise typer.Exit(1)


def _sensitivity(tables: list[str], json: bool) -> None:
    from podsim.accuracy.registry_sensitivity import sensitivity as verb
    from podsim.report.calibration import sensitivity_report
    from podsim.report.data import to_json
    from podsim.report.screen import report_text

    found = verb(tables)
    sys.stdout.write(to_json(found) + "\n" if json else report_text(sensitivity_report(found), 140))


def calibrate(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="CSV files with the columns of a reference table, logs of nccl-tests, runs of the lab."
        ),
    ] = None,
    gpu: Annotated[list[str] | None, typer.Option(help="Only the kernels of this GPU; repeatable.")] = None,
    software: Annotated[str, typer.Option(help="Fit this framework era instead: NAME or NAME.GPU.")] = "",
    constants: Annotated[str, typer.Option(help="With --software: which constants, comma-separated.")] = "",
    to: Annotated[
        Path | None, typer.Option(help="Directory to write to; default a new one, calibrated.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Fit again and hold against the packaged constants.")
    ] = False,
    json: Json = False,
) -> None:
    """Fit the constants of the cost laws to measured rows. Exit status 1: --check finds a difference."""
    from podsim.report.calibration import calibration_report
    from podsim.report.data import to_json
    from podsim.report.screen import report_text
    from podsim.verbs.calibrate import calibrate as verb

    found = verb(files or (), gpus=gpu or (), software=software, constants=constants, to=to, check=check)
    sys.stdout.write(
        to_json(found) + "\n" if json else report_text(calibration_report(found, is_check=check), 140)
    )
    if found.drifts:
        raise typer.Exit(1)


def register(command: Callable[[Callable[..., None]], Callable[..., None]]) -> None:
    """Make these functions commands, with the decorator that the application gives its own."""
    command(validate)
    command(calibrate)
