"""What a failure in the middle of a step did, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.report.figures import signed_percent
from podsim.report.table import Table, paragraph
from podsim.results.failed import FailedStep
from podsim.units import format_quantity

_MOST = 12
"""rows and ops that are listed"""


def failure_times(found: FailedStep, step_time: float) -> str:
    """The first line: how long the step took, or that it never ended."""
    who = f"rank {found.rank}" if found.what == "rank" else f"the adapter of rank {found.rank}"
    after = format_quantity(found.time, "s")
    healthy = format_quantity(found.healthy, "s")
    if found.standing:
        still = format_quantity(found.still, "s")
        return f"{who} fails after {after}; all stand still after {still} (a whole step: {healthy})"
    more = signed_percent(step_time / found.healthy - 1)
    return f"{who} fails after {after}; {format_quantity(step_time, 's')} a step, {more} on {healthy}"


def failure_lines(found: FailedStep, width: int) -> Iterator[tuple[str, str]]:
    """(line, style): what was under way, who waits for whom, what it costs."""
    if not found.standing:
        text = found.rerouted
        if not text.startswith("nothing"):
            text = f"Its traffic goes on over {text}, each of the two with half of it; nothing hangs"
        yield from ((line, "") for line in paragraph(text[0].upper() + text[1:], width))
        return
    listed = "; ".join(found.under_way[:_MOST]) or "nothing"
    rest = len(found.under_way) - _MOST
    listed += f"; and {rest} more" if rest > 0 else ""
    yield from ((line, "") for line in paragraph(f"Under way, and never ends: {listed}", width))
    yield "", ""
    yield "Who stands still, since when, and for whom", "bold"
    table = Table("lrll", header=("ranks", "since", "at", "waits for"))
    for one in found.standing[:_MOST]:
        table.add(one.ranks, format_quantity(one.since, "s", digits=4), one.op, one.waits_for or "(failed)")
    yield from ((line, "") for line, _ in table.lines(width))
    if len(found.standing) > _MOST:
        yield f"  and {len(found.standing) - _MOST} more", ""
    yield "", ""
    told = (
        f"The watchdog ends the run {format_quantity(found.watchdog, 's')} after the first exchange hangs, "
        f"{format_quantity(found.noticed, 's')} after the step did; {format_quantity(found.lost, 's')} of every GPU's "
        "time are lost, the restart apart"
    )
    yield from ((line, "") for line in paragraph(told, width))
