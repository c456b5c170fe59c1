"""`podsim show`: a sheet, or with --fabric a drawing of servers and switches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podsim.errors import PodsimError
from podsim.hardware.fabrics.describe import Drawing
from podsim.options.output_options import ShowOutput
from podsim.questions.machine.fabric import fabric
from podsim.questions.machine.show import show
from podsim.report.fabric_svg import draw_file
from podsim.report.fabric_text import fabric_text
from podsim.report.screen import Paragraph, Report
from podsim.report.sheets import sheet_report


def check_sheet(output: ShowOutput, options: Mapping[str, Any]) -> None:
    """Raise PodsimError for forms that there are not."""
    if output.plot is not None and not output.fabric:
        raise PodsimError("--plot draws a fabric; give --fabric, too")
    if output.fabric and output.csv:
        raise PodsimError("--fabric --csv: a drawing is no table; --json gives its parts")


def sheet_or_fabric(options: Mapping[str, Any], output: ShowOutput) -> Any:
    """The sheet, or the drawing, which is written to a file if one is named."""
    if not output.fabric:
        return show(**options)
    drawing = fabric(**options)
    if output.plot is not None:
        draw_file(drawing, output.plot)
    return drawing


def sheet_or_fabric_report(answer: Any) -> Report:
    """The report of either."""
    if isinstance(answer, Drawing):
        return [Paragraph(fabric_text(answer), is_wrapped=False)]
    return sheet_report(answer)
