"""The report of `podsim verify` as one HTML page: no script, no file beside it, nothing fetched."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files

from podsim.report.acceptance import CHECK_COLUMNS, PART_COLUMNS, check_cells, part_cells, verdict_line
from podsim.report.plot_acceptance import RED, checks_svg, curve_svg
from podsim.report.plots import BLUE, INK, MUTED
from podsim.results.acceptance import Acceptance, Curve

_NUMBERS = ("measured", "expected", "of it", "limit")
"""columns of numbers, in the table of checks; those of the inventory are words"""
_BAD = ("differs", "wrong result", "falls short", "above the limit", "not run")


def acceptance_page(found: Acceptance) -> str:
    """HTML of the verdict, inventory, checks, plots and thresholds. Needs matplotlib; PodsimError without it."""
    title = f"Acceptance as {found.expected}"
    style = "".join(
        files(__package__).joinpath(name).read_text("utf-8") for name in ("page.css", "acceptance.css")
    )
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="lead">{escape(found.machine)}<br>{escape(found.started)} UTC, {found.seconds:.0f} s</p>',
        f'<p class="result{"" if found.accepted else " bad"}">{escape(verdict_line(found))}</p>',
        _checks(found), _inventory(found), _curves(found.curves), _how(found), _thresholds(found),
    ]  # fmt: skip
    if found.notes:
        body.append("".join(f"<p>{escape(note)}</p>" for note in found.notes))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        + "\n".join(part for part in body if part)
        + "\n</body>\n</html>\n"
    )


def _cell(text: str, column: str, numbers: Sequence[str]) -> str:
    if column == "verdict":
        kind = "ok" if text == "ok" else "bad" if text in _BAD else ""
        return f'<td><span class="verdict {kind}">{escape(text)}</span></td>'
    kind = "why" if column == "why" else "n" if column in numbers else ""
    return f'<td class="{kind}">{escape(text)}</td>' if kind else f"<td>{escape(text)}</td>"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str] = ()) -> str:
    head = "".join(f'<th class="{"n" if name in numbers else ""}">{escape(name)}</th>' for name in columns)
    lines = "\n".join(
        f"<tr>{''.join(_cell(text, name, numbers) for text, name in zip(row, columns, strict=True))}</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll"><table class="full">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{lines}\n</tbody>'
        "</table></div>"
    )


def _inventory(found: Acceptance) -> str:
    if not found.parts:
        return ""
    return f"<section><h2>Inventory</h2>{_table(PART_COLUMNS, part_cells(found))}</section>"


def _checks(found: Acceptance) -> str:
    if not found.checks:
        return ""
    table = _table(CHECK_COLUMNS, [check_cells(check) for check in found.checks], _NUMBERS)
    drawn = ""
    if any(check.share is not None for check in found.checks):
        drawn = f"<figure>{_inline(checks_svg(found.checks), 'checks', 'measured over expected')}</figure>"
    return f"<section><h2>Checks</h2>{table}{drawn}</section>"


def _curves(curves: Sequence[Curve]) -> str:
    if not curves:
        return ""
    figures = "".join(
        f"<figure><figcaption>{escape(curve.name)}</figcaption>"
        f"{_inline(curve_svg(curve), f'c{place}', curve.name)}</figure>"
        for place, curve in enumerate(curves)
    )
    return f'<section><h2>Curves</h2><div class="curves">{figures}</div></section>'


def _how(found: Acceptance) -> str:
    rows = [(check.name, check.how, check.basis or "-") for check in found.checks if check.how]
    if not rows:
        return ""
    table = _table(("check", "measured by", "expected from"), rows)
    return f"<section><h2>How</h2>{table}</section>"


def _thresholds(found: Acceptance) -> str:
    if not found.thresholds:
        return ""
    rows = [(one.name, f"{100 * one.least:g} %", one.why) for one in found.thresholds]
    return f"<section><h2>What must be reached</h2>{_table(('figure', 'of the expected', 'why'), rows)}</section>"


def _inline(svg: bytes, prefix: str, label: str) -> str:
    """A plot as an element in the page's ink, its ids told apart from those of other plots."""
    text = svg.decode("utf-8")
    text = text[text.index("<svg") :].replace(INK, "currentColor").replace(BLUE, "var(--blue)")
    text = text.replace(MUTED, "var(--muted)").replace(RED.lower(), "#d55e00")
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'(\bid="|"#|url\(#)', rf"\g<1>{prefix}-", text)
    return text.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1).rstrip()
