"""`podsim validate`, `podsim storage validate`, `podsim calibrate`: how accurate predictions are."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from typing import Any

from podsim.cli.command import answer_json
from podsim.errors import PodsimError
from podsim.options.output_options import JsonOutput, ValidateOutput
from podsim.questions.operate.validate import UNKNOWN, validate
from podsim.report.calibration_tables import calibration_report, sensitivity_report
from podsim.report.comparisons import render
from podsim.report.pages import accuracy_page, page
from podsim.report.screen import report_text
from podsim.whole_files import write_whole

_WIDTH = 140
"""columns that these tables need, whatever the terminal"""


def validation_or_sensitivity(options: Mapping[str, Any], output: ValidateOutput) -> Any:
    """What the tables say, or how far constants move them."""
    if not output.sensitivity:
        return validate(**options)
    if options["rows"]:
        raise PodsimError("--sensitivity is that of podsim's own tables; leave --rows out")
    from podsim.accuracy.registry_sensitivity import sensitivity

    return sensitivity(list(options["tables"]))


def show_validation(answer: Any, output: ValidateOutput, options: Mapping[str, Any]) -> None:
    """Print the comparisons, and write the pages."""
    if output.sensitivity:
        _print(answer, output, report_text(sensitivity_report(answer), _WIDTH))
        return
    if output.html is not None:
        write_whole(output.html, page(answer.comparisons, answer.verdicts))
    if output.markdown is not None:
        text = accuracy_page(answer.comparisons, answer.verdicts, unknown=UNKNOWN)
        write_whole(output.markdown, text)
    width = max(shutil.get_terminal_size((170, 40)).columns, _WIDTH)
    detail = bool(options["tables"] or options["rows"])
    text = render(answer.comparisons, answer.verdicts, width=width, detail=detail)
    _print(answer, output, text + "".join(f"Worse than recorded: {figure}\n" for figure in answer.worsened))


def show_calibration(answer: Any, output: JsonOutput, options: Mapping[str, Any]) -> None:
    """Print constants that were fitted, or how they differ from the packaged ones."""
    report = calibration_report(answer, is_check=options["check"])
    _print(answer, output, report_text(report, _WIDTH))


def _print(answer: Any, output: JsonOutput, text: str) -> None:
    sys.stdout.write(answer_json(answer, answer) + "\n" if output.json else text)


def storage_validation_rows(validation: Any) -> list[Any]:
    """The rows of all comparisons of storage."""
    return [row for comparison in validation.comparisons for row in comparison.rows]
