"""What an answer shows, whatever its kind: its report, rows, data and chart. `podsim.answers.answer` loads it by name."""

from __future__ import annotations

from importlib import import_module
from itertools import islice
from typing import Any

from podsim.answers.answer import Answer, View, call
from podsim.errors import PodsimError
from podsim.report.plain_data import flat_lines, plain_value
from podsim.report.screen import Report, report_lines
from podsim.report.screen_html import report_html

_WIDTH = 88
_LINES = 8
"""lines of a short text"""
_LONGEST = 400
"""characters of the text of an answer without a report"""


def view_of(answer: Any) -> View:
    """The view of an answer's kind."""
    return answer.view if isinstance(answer, Answer) else View()


def report_of(answer: Any, view: View | None = None, *, brief: bool = True, detail: object = None) -> Report:
    """The report of an answer as blocks: at a glance if it has such a one, or in full."""
    view = view or view_of(answer)
    if brief and view.brief:
        report: Report = call(view.brief, answer)
    else:
        options = {"detail": detail} if view.has_detail and detail else {}
        report = call(view.report or "report.derived:derived_report", answer, **options)
    return report


def rows_of(answer: Any, view: View | None = None) -> Any:
    """What CSV shows of an answer, whatever its kind."""
    view = view or view_of(answer)
    if isinstance(view.rows, str) and ":" not in view.rows:
        return getattr(answer, view.rows)
    return call(view.rows or view.data, answer) if view.rows or view.data else answer


def data_of(answer: Any, view: View | None = None) -> Any:
    """What JSON shows of an answer, as plain values."""
    data = (view or view_of(answer)).data
    return plain_value(call(data, answer) if data else answer)


def short_text(answer: Answer) -> str:
    """The first lines of an answer's report, without blank ones; never an error, as debuggers show it, too."""
    name = type(answer).__name__
    try:
        lines = (line for line in report_lines(report_of(answer), _WIDTH) if line.strip())
        first = list(islice(lines, _LINES + 1))
    except Exception:
        first = []
    if not first:
        text = ", ".join(f"{key}={value!r}" for key, value in vars(answer).items())
        return f"{name}({text[:_LONGEST]}{'…' if len(text) > _LONGEST else ''})"
    more = ["…"] if len(first) > _LINES else []
    return "\n".join([f"<{name}> {first[0].strip()}", *(f"  {line}" for line in first[1:_LINES]), *more])


def html(answer: Answer) -> str:
    """The report of an answer as HTML."""
    return report_html(report_of(answer))


def plain_data(answer: Answer) -> dict[str, Any]:
    """The data of the command's --json."""
    data: dict[str, Any] = data_of(answer)
    return data


def data_frame(answer: Answer) -> Any:
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


def figure(answer: Answer, **options: Any) -> Any:
    """The chart of an answer; PodsimError if it has none."""
    return call("report.pictures:figure", answer, **options)
