"""`podsim validate`, `podsim storage validate`, `podsim calibrate`: how accurate predictions are."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from typing import Any

from podsim.accuracy.registry_sensitivity import sensitivity
from podsim.cli.command import print_answer
from podsim.options.output_options import JsonOutput, ValidateOutput
from podsim.report import accuracy_page, page, render
from podsim.report.calibration import render_calibration
from podsim.report.sensitivity import render_sensitivity
from podsim.verbs.validate import UNKNOWN, validate


def validation_or_sensitivity(options: Mapping[str, Any], output: ValidateOutput) -> Any:
    """What the tables say, or how far constants move them."""
    return sensitivity(list(options["tables"])) if output.sensitivity else validate(**options)


def show_validation(answer: Any, output: ValidateOutput, options: Mapping[str, Any]) -> None:
    """Print the comparisons, and write the pages."""
    if output.sensitivity:
        print_answer(answer, output, lambda each: _write(render_sensitivity(each)))
        return
    if output.html is not None:
        output.html.write_text(page(answer.comparisons, answer.verdicts), "utf-8")
    if output.markdown is not None:
        output.markdown.write_text(
            accuracy_page(answer.comparisons, answer.verdicts, unknown=UNKNOWN), "utf-8"
        )
    detail = bool(options["tables"] or options["rows"])
    print_answer(answer, output, lambda each: _print_comparisons(each, detail=detail))


def _print_comparisons(validation: Any, *, detail: bool) -> None:
    width = max(shutil.get_terminal_size((170, 40)).columns, 140)
    _write(render(validation.comparisons, validation.verdicts, width=width, detail=detail))


def _write(text: str) -> None:
    sys.stdout.write(text)


def show_calibration(answer: Any, output: JsonOutput, options: Mapping[str, Any]) -> None:
    """Print constants that were fitted, or how they differ from the packaged ones."""
    print_answer(answer, output, lambda each: _write(render_calibration(each, checked=options["check"])))


def print_storage_validation(validation: Any) -> None:
    """Print the comparisons of storage."""
    _print_comparisons(validation, detail=False)


def storage_validation_rows(validation: Any) -> list[Any]:
    """The rows of all comparisons of storage."""
    return [row for comparison in validation.comparisons for row in comparison.rows]
