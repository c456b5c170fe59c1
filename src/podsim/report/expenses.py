"""Power, energy and money; each price with its date and source."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.answers.expense import Bill, Expense, Offer, PowerReport, Trade, TradePoint
from podsim.report.columns import Column, Table, energy_text, mass_text
from podsim.report.screen import Block, Paragraph, Rows, bold, dim, items
from podsim.units import format_quantity

HOUR = 3600.0
_SHOWN = 20
"""plans of a Pareto front that are shown"""


def money_text(low: float, high: float) -> str:
    """An amount, or a range of amounts."""
    ends = [f"{value:,.0f}" if value >= 1e3 else f"{value:,.4g}" for value in (low, high)]
    return ends[0] if low == high else " to ".join(ends)


def hourly_price(offer: Offer) -> str:
    """The price of a GPU-hour (USD), or its range."""
    low, high = offer.low * HOUR, offer.high * HOUR
    return f"{low:.2f}" if low == high else f"{low:.2f} to {high:.2f}"


def _layout(point: TradePoint) -> str:
    degrees = " ".join(f"{name}={point.plan[name]}" for name in ("tp", "pp", "cp", "dp"))
    return f"{degrees} recompute={point.plan['recompute']}"


_PRICES = Table(
    columns=(
        Column("price", "offer.name"),
        Column("USD/GPU h", "offer", hourly_price),
        Column("USD", lambda row: money_text(row.low, row.high), align="r"),
        Column("how", "offer.kind"),
        Column("date", "offer.date"),
        Column("source", "offer.source", wrap=True),
    )
)
_FRONT = Table(
    columns=(
        Column("GPUs", "gpus", ":d"),
        Column("step", "step_time", "s"),
        Column("energy", "energy", energy_text),
        Column("USD", "cost", ":,.4g"),
        Column("layout", _layout),
    )
)


def power_report(report: PowerReport) -> Iterator[Block]:
    """A cluster's power by load and component, and its Linpack."""
    yield bold(f"{report.cluster}: {report.nodes} servers, {report.gpus} GPUs, {report.switches} switches")
    slower = f"; arithmetic at {report.speed:.0%} of its speed" if report.speed < 1 else ""
    cap, limit = (format_quantity(power, "W") for power in (report.cap, report.limit))
    yield f"Each GPU draws up to {cap}{slower}; a server is built for {limit}"
    columns = (
        Column("load"),
        Column("GPUs", "gpu_power", "W"),
        Column("servers' rest", "server_power", "W", drop=1),
        Column("switches", "switch_power", "W", drop=2),
        Column("machine", "total", "W"),
        Column(
            "one server", "node", lambda power: f"{format_quantity(power, 'W')} ({power / report.limit:.0%})"
        ),
        Column(f"site, PUE {report.pue:g}", "site", "W"),
    )
    yield from ("", Rows(Table(columns=columns), report.loads))
    if any(load.node > report.limit for load in report.loads):
        yield dim(
            "Over 100 % the server's own limit holds its GPUs back; peaks are of single samples, all GPUs at once"
        )
    yield from _linpack(report)
    yield from items("Sources", report.sources)


def _linpack(report: PowerReport) -> Iterator[Block]:
    run = report.benchmark
    if run is None:
        return
    rate, efficiency = format_quantity(run.rate, "FLOP/s"), format_quantity(run.efficiency, "FLOP/s")
    yield ""
    yield (
        f"High-Performance Linpack: {rate}, {efficiency} per watt, {run.size:,} rows, GPUs multiplying {run.busy:.0%} "
        "of the time"
    )
    if not run.published_rate:
        return
    rate, more = format_quantity(run.published_rate, "FLOP/s"), run.rate / run.published_rate - 1
    published = f"Published: {rate} ({more:+.1%} here)"
    if run.published_power:
        each = format_quantity(run.published_rate / run.published_power, "FLOP/s")
        power = format_quantity(run.published_power, "W")
        published += f", {power} ({run.power / run.published_power - 1:+.1%} here), {each} per watt"
    yield "; ".join((published, *run.remarks))


def bill_report(bill: Bill) -> Iterator[Block]:
    """What GPU hours take: energy by two accounts, and money by every price."""
    yield bold(f"{bill.gpu_time / HOUR:,.0f} GPU hours on {bill.cluster}")
    yield (
        f"As model cards count (hours x the GPU's limit): {energy_text(bill.plain_energy)}, "
        f"{mass_text(bill.plain_carbon)} CO2"
    )
    yield f"Whole machine at the meter, {bill.load}: {energy_text(bill.energy)}, {mass_text(bill.carbon)} CO2"
    yield ""
    if bill.rows:
        yield Rows(_PRICES, bill.rows)
    else:
        yield "No price of this GPU is known; give --price in USD per GPU-hour"
    yield from items("Assumptions", bill.assumptions)


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
            f"{money_text(expense.low, expense.high)} USD at {hourly_price(offer)} USD a GPU hour: {offer.name}, "
            f"{offer.provider}, {offer.kind}, {offer.date} ({offer.source})"
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
        yield dim(
            f"{hourly_price(offer)} USD a GPU hour: {offer.name}, {offer.kind}, {offer.date} ({offer.source})"
        )
