"""One HTML page with everything in it: no script, no file beside it, nothing fetched."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files

from podsim.report.figures import SUMMARY_COLUMNS, by_reason, percent, signed_percent, summary_cells, value
from podsim.report.plots import BLUE, INK, error_line, plot_svg
from podsim.report.verdicts import VERDICT_COLUMNS, met_line, verdict_cells
from podsim.results.comparison import Comparison, Verdict

_WORDS = {"table", "role", "worst row", "id", "class", "note", "reason", "figure", "met"}
_LARGE_ERROR = 0.1
_MOST_ROWS = 800
_EXPLAINED = """\
Errors are predicted / measured - 1. Constants may be fitted on <em>calibrate</em> rows; <em>test</em> rows
are only reported, and no figure mixes the two. MAE is the mean absolute error; tau-b ranks the plans of a
sweep (1 is the measured order); regret is the measured cost of the plan predicted best, over the least
measured (1 is perfect); skill is 1 - MAE / MAE of the best single efficiency constant (above 0 beats it).\
"""


def page(
    comparisons: Sequence[Comparison],
    verdicts: Sequence[Verdict] = (),
    *,
    title: str = "podsim: predicted against measured",
) -> str:
    """HTML of the summary and the bars, and for each comparison its plot, classes, rows, rows not expressed, and sources.

    The same text for the same comparisons. Needs matplotlib; raises PodsimError without it.
    """
    style = files(__package__).joinpath("page.css").read_text("utf-8")
    sections = "\n".join(_section(index, comparison) for index, comparison in enumerate(comparisons))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f'<h1>{escape(title)}</h1>\n<p class="lead">{_EXPLAINED}</p>\n'
        f"{_summary(comparisons)}\n{_bars(verdicts)}{sections}\n</body>\n</html>\n"
    )


def _summary(comparisons: Sequence[Comparison]) -> str:
    """Summary table, each table's name a link to its section."""
    anchors = {comparison.table: f"t{index}" for index, comparison in enumerate(comparisons)}
    body = []
    for cells in summary_cells(comparisons):
        link = f'<a href="#{anchors[cells[0]]}">{escape(cells[0])}</a>'
        rest = [_cell(c, name) for c, name in zip(cells[1:], SUMMARY_COLUMNS[1:], strict=True)]
        body.append(f'<tr class="{escape(cells[1])}"><td class="id">{link}</td>{"".join(rest)}</tr>')
    return _table(SUMMARY_COLUMNS, body)


def _bars(verdicts: Sequence[Verdict]) -> str:
    """Table of the bars; "" without any."""
    if not verdicts:
        return ""
    body = []
    for cells in verdict_cells(verdicts):
        columns = zip(cells, VERDICT_COLUMNS, strict=True)
        body.append(f'<tr class="{escape(cells[1])}">{"".join(_cell(c, name) for c, name in columns)}</tr>')
    return f"<h2>Bars</h2>\n<p>{met_line(verdicts)}</p>\n{_table(VERDICT_COLUMNS, body)}\n"


def _cell(text: str, column: str) -> str:
    """One cell: words to the left, numbers to the right, a role as a badge."""
    if column == "role" and text != "-":
        return f'<td><span class="role {escape(text)}">{escape(text)}</span></td>'
    return f"<td{_aligned(column)}>{escape(text)}</td>"


def _aligned(column: str) -> str:
    """Class attribute of a column's cells."""
    if column == "id":
        return ' class="id"'
    return "" if column in _WORDS else ' class="n"'


def _table(columns: Sequence[str], body: Sequence[str]) -> str:
    """A table of ready-made lines."""
    head = "".join(f"<th{_aligned(name).replace('id', '')}>{escape(name)}</th>" for name in columns)
    lines = "\n".join(body)
    return (
        f'<div class="scroll"><table class="full">\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{lines}\n</tbody>\n</table></div>"
    )


def _section(index: int, comparison: Comparison) -> str:
    """Everything about one comparison."""
    parts = [f'<section id="t{index}">', f"<h2>{escape(comparison.title)}</h2>"]
    if comparison.rows:
        caption = f"<figcaption>{escape(error_line(comparison))}</figcaption>"
        parts.append(f"<figure>{caption}{_inline_svg(comparison, f't{index}-')}</figure>")
        parts.append(_classes(comparison))
        parts.append(_rows(comparison))
    else:
        parts.append("<p>No row of this table has a prediction.</p>")
    parts += [_missing(comparison), _sources(comparison), "</section>"]
    return "\n".join(part for part in parts if part)


def _inline_svg(comparison: Comparison, prefix: str) -> str:
    """The plot as an SVG element in the page's ink, its ids told apart from those of other plots."""
    svg = plot_svg(comparison, titled=False).decode("utf-8")
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor").replace(BLUE, "var(--blue)")
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid="|"#|url\(#)', rf"\g<1>{prefix}", svg)
    label = escape(f"{comparison.title}: predicted against measured")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1).rstrip()


def _classes(comparison: Comparison) -> str:
    """Errors by class of row, a line for each class and role."""
    body = [
        f'<tr class="{s.role}"><td>{escape(c.name)}</td>{_cell(s.role, "role")}{_cell(str(c.rows), "rows")}'
        f"{_cell(percent(c.mae), '')}{_cell(signed_percent(c.bias), '')}{_cell(c.worst_id, 'id')}"
        f"{_cell(signed_percent(c.worst_error), '')}</tr>"
        for s in comparison.scores
        for c in s.classes
    ]
    if not body:
        return ""
    table = _table(("class", "role", "rows", "MAE", "bias", "worst row", "its error"), body)
    return f"<details><summary>By class ({len(body)})</summary>{table}</details>"


def _rows(comparison: Comparison) -> str:
    """Every compared row, of a long table those with the largest errors; errors above 10 % stand out."""
    body = []
    rows, count = comparison.rows, len(comparison.rows)
    if count > _MOST_ROWS:
        rows = tuple(sorted(rows, key=lambda row: -abs(row.error))[:_MOST_ROWS])
    for row in rows:
        figures = [value(v, comparison.unit) for v in (row.predicted, row.measured)]
        error = (
            f'<td class="n{" big" if abs(row.error) > _LARGE_ERROR else ""}">{signed_percent(row.error)}</td>'
        )
        body.append(
            f'<tr class="{row.role}"><td class="id">{escape(row.id)}</td>{_cell(row.role, "role")}'
            f"{_cell(figures[0], '')}{_cell(figures[1], '')}"
            f"{error}<td>{escape(row.group)}</td><td>{escape(row.note)}</td></tr>"
        )
    table = _table(("id", "role", "predicted", "measured", "error", "class", "note"), body)
    told = f"{count}" if count == len(body) else f"the {len(body)} largest errors of {count}"
    return f"<details><summary>Rows ({told}), {escape(comparison.what)}</summary>{table}</details>"


def _missing(comparison: Comparison) -> str:
    """Rows without a prediction, each with its reason."""
    if not comparison.not_expressed:
        return ""
    lines, count = comparison.not_expressed, len(comparison.not_expressed)
    if count > _MOST_ROWS:
        lines = tuple((", ".join(ids), reason) for reason, ids in by_reason(lines).items())
    body = [f'<tr><td class="id">{escape(id)}</td><td>{escape(why)}</td></tr>' for id, why in lines]
    table = _table(("id", "reason"), body)
    return f"<details><summary>Rows not expressed ({count})</summary>{table}</details>"


def _sources(comparison: Comparison) -> str:
    """Where the measurements come from."""
    if not comparison.sources:
        return ""
    items = "".join(f"<li>{escape(source)}</li>" for source in comparison.sources)
    return f"<details><summary>Sources ({len(comparison.sources)})</summary><ul>{items}</ul></details>"
