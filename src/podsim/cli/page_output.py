"""`--html`: the report of an answer as one page, with its charts."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import Any

import click

from podsim import __version__
from podsim.answers.answer import View, call
from podsim.errors import PodsimError
from podsim.report.pictures import charts_of
from podsim.report.report_page import report_page
from podsim.report.screen import Report
from podsim.whole_files import write_whole

LARGEST = 1_500_000
"""B. The size that a page may have."""


def write_page(answer: Any, path: Path, report: Report, view: View) -> None:
    """Write the page of an answer, with the charts of its view.

    Raises PodsimError for a name of another ending, where a plot needs matplotlib, and where nothing can be written.
    """
    if path.suffix.lower() not in (".html", ".htm"):
        raise PodsimError(f"--html {str(path)[-80:]}: give a name that ends in .html")
    try:
        write_whole(path, _page(answer, list(report), view))
    except OSError as problem:
        raise PodsimError(f"--html {str(path)[-80:]}: cannot be written: {problem.strerror}") from None


def _page(answer: Any, report: Report, view: View) -> str:
    """The text of a page; without charts if they would make it too large."""
    if view.page:
        return str(call(view.page, answer))
    glance = call(view.brief, answer) if view.brief else ()
    render = partial(report_page, glance=list(glance), command=_command(), version=__version__)
    text = render(report, charts_of(answer, view))
    return text if len(text) <= LARGEST else render(report)


def _command() -> str:
    """The command as it was typed, without the option of the page."""
    context = click.get_current_context(silent=True)
    words = list(context.meta.get("podsim.words", ())) if context else []
    at = words.index("--html") if "--html" in words else len(words)
    del words[at : at + 2]
    return shlex.join(word for word in words if not word.startswith("--html="))
