"""`podsim verify`: the report of an acceptance as text and as pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podsim.answers.acceptance import Acceptance
from podsim.cli.command import print_answer
from podsim.errors import PodsimError
from podsim.options.output_options import VerifyOutput
from podsim.report.acceptance_tables import acceptance_report
from podsim.report.browser import print_pdf
from podsim.report.junit import junit_text
from podsim.report.pages import acceptance_page
from podsim.whole_files import write_whole


def check_pages(output: VerifyOutput, options: Mapping[str, Any]) -> None:
    """Raise PodsimError for pages that cannot be written, before minutes of work."""
    for path in (output.html, output.pdf, output.junit):
        if path is not None and not path.parent.is_dir():
            raise PodsimError(f"{path}: there is no folder {path.parent}")


def show_acceptance(acceptance: Acceptance, output: VerifyOutput, options: Mapping[str, Any]) -> None:
    """Print the checks, and write the pages."""
    if output.junit is not None:
        write_whole(output.junit, junit_text(acceptance))
    print_answer(acceptance, output, acceptance_report, rows=acceptance.checks)
    if output.pdf is not None:
        print_pdf(acceptance_page(acceptance), output.pdf)
