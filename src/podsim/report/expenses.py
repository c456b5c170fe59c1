"""Power, energy and money; each price with its date and source."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.answers.expense import HOUR, Expense, Trade, TradePoint
from podsim.report.columns import Column, Table, energy_text, mass_text
from podsim.report.screen import Block, Paragraph, Rows, bold, dim, items
from podsim.units import format_quantity

_SHOWN = 20
"""plans of a Pareto front that are shown"""


def money_text(low: float, high: float) -> str:
    """An amount, or a range of amounts."""
    ends = [f"{value:,.0f}" if value >= 1e3 else f"{value:,.4g}" for value in (low, high)]
    return ends[0] if low == high else " to ".join(ends)


def _layout(point: TradePoint) -> str:
    degrees = " ".join(f"{name}={point.plan[name]}" for name in ("tp", "pp", "cp", "dp"))
    return f"{degrees} recompute={point.plan['recompute']}"


_FRONT = Table(
    Column("GPUs", "gpus", ":d"),
    Column("step", "step_time", "s"),
    Column("energy", "energy", energy_text),
    Column("USD", "cost", ":,.4g"),
    Column("layout", _layout),
)


def expense_report(expense: Expense) -> Iterator[Block]:
    """Energy and money of a predicted run or step."""
    seconds = expense.duration
    length = f"{seconds / 86400:,.3g} days" if seconds > 86400 else format_quantity(seconds, "s")
    texts = [
        f"{expense.tokens:,.4g} tokens: {length} on {expense.gpus} GPUs, {seconds * expense.gpus / HOUR:,.4g} GPU hours",
        f"{format_quantity(expense.power, 'W')} mean draw, {energy_text(expense.energy)} at the meter, "
        f"{mass_text(expense.carbon)} CO2",
    ]
    if (offer := expense.offer) is not None:
        texts.append(
            f"{money_text(expense.low, expense.high)} USD at {offer.words}: {offer.provider}, {offer.kind}; "
            f"{offer.source}"
        )
    yield from ("", bold("Energy and money"))
    yield from (Paragraph(text, indent="    ", first="  ") for text in texts)
    yield from items("Assumptions about energy and money", expense.assumptions)


def trade_report(trade: Trade) -> Iterator[Block]:
    """The fronts of time against cost and energy."""
    for title, points in (("cost", trade.time_cost), ("energy", trade.time_energy)):
        if points:
            gpus = ", ".join(map(str, trade.tried))
            yield from ("", bold(f"Pareto front of time against {title}, over {gpus} GPUs"))
            yield Rows(_FRONT, points[:_SHOWN])
    if (offer := trade.offer) is not None:
        yield dim(f"{offer.words}: {offer.kind}; {offer.source}")
