"""`podsim verify` on a terminal: the inventory, the checks, what is wrong."""

from __future__ import annotations

from podsim.report.figures import value
from podsim.report.table import Table, console, paragraph
from podsim.results.acceptance import Acceptance, Check

PART_COLUMNS = ("part", "expected", "found", "verdict", "why")
CHECK_COLUMNS = ("check", "measured", "expected", "of it", "limit", "verdict", "why")


def part_cells(found: Acceptance) -> list[tuple[str, ...]]:
    """Cells of PART_COLUMNS."""
    return [(part.name, part.expected, part.found, part.verdict, part.why) for part in found.parts]


def check_cells(check: Check) -> tuple[str, ...]:
    """Cells of CHECK_COLUMNS."""

    def said(number: float | None) -> str:
        return "-" if number is None else value(number, check.unit)

    share = "-" if check.share is None else f"{100 * check.share:.2g} %"
    if check.share is not None and check.share >= 0.1:
        share = f"{check.share:.0%}".replace("%", " %")
    return (
        check.name, said(check.measured), said(check.expected), share, said(check.limit), check.verdict, check.why,
    )  # fmt: skip


def verdict_line(found: Acceptance) -> str:
    """One sentence: whether it is accepted, and how many lines say what."""
    verdicts = [part.verdict for part in found.parts] + [check.verdict for check in found.checks]
    told = ", ".join(f"{verdicts.count(one)} {one}" for one in dict.fromkeys(sorted(verdicts, key=_order)))
    return f"{'Accepted' if found.accepted else 'Not accepted'} as {found.expected}: {told or 'nothing was judged'}."


def _order(verdict: str) -> int:
    known = (
        "ok",
        "differs",
        "wrong result",
        "falls short",
        "above the limit",
        "not run",
        "no expectation",
        "cannot tell here",
    )
    return known.index(verdict) if verdict in known else len(known)


def print_acceptance(found: Acceptance) -> None:
    """Print everything; reasons go below the tables where a terminal is narrow."""
    out = console()
    out.print(f"{found.machine}\nexpected: {found.expected}; {found.started}, {found.seconds:.0f} s\n")
    for columns, rows, align in (
        (PART_COLUMNS, part_cells(found), "llll"),
        (CHECK_COLUMNS, [check_cells(check) for check in found.checks], "lrrrrl"),
    ):
        if not rows:
            continue
        table = Table(align, header=columns[:-1], indent=0)
        for cells in rows:
            table.add(*(cell if len(cell) <= 46 else f"{cell[:45]}…" for cell in cells[:-1]))
        for start, rest in table.lines(out.width):
            out.print(start + rest)
        out.print()
        for cells in rows:
            if cells[-1]:
                for line in paragraph(f"{cells[0]}: {cells[-1]}", out.width, indent="  "):
                    out.print(line)
        if any(cells[-1] for cells in rows):
            out.print()
    for note in found.notes:
        out.print("\n".join(paragraph(note, out.width)))
    out.print("\n".join(paragraph(verdict_line(found), out.width)))
