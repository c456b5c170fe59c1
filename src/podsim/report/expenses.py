"""Power, energy and money for a terminal; each price with its date and source."""

from __future__ import annotations

from podsim.report.table import Table, console, paragraph
from podsim.results.expense import Bill, Expense, Offer, PowerReport, Trade
from podsim.units import format_quantity

HOUR = 3600.0


def _say(text: str, style: str = "", *, first: str = "", indent: str = "  ") -> None:
    from rich.text import Text

    out = console()
    for line in paragraph(text, out.width, indent=indent, first=first):
        out.print(Text(line, style=style))


def _show(table: Table) -> None:
    from rich.text import Text

    out = console()
    for place, (columns, note) in enumerate(table.lines(out.width)):
        out.print(Text(columns, style="bold" if place == 0 else "").append(note, style="dim"))


def _watts(value: float) -> str:
    return format_quantity(value, "W")


def _energy(joules: float) -> str:
    """In Wh, as meters count."""
    return format_quantity(joules / 3600.0, "Wh")


def _mass(kilograms: float) -> str:
    if kilograms >= 1e6:
        return f"{kilograms / 1e3:,.0f} t"
    return f"{kilograms / 1e3:.3g} t" if kilograms >= 1e3 else format_quantity(kilograms * 1e3, "g", digits=3)


def _money(low: float, high: float) -> str:
    def one(value: float) -> str:
        return f"{value:,.0f}" if value >= 1e3 else f"{value:,.4g}"

    return one(low) if low == high else f"{one(low)} to {one(high)}"


def _rate(offer: Offer) -> str:
    low, high = offer.low * HOUR, offer.high * HOUR
    return f"{low:.2f}" if low == high else f"{low:.2f} to {high:.2f}"


def print_power(report: PowerReport) -> None:
    """Print a cluster's power by load and component, and its Linpack."""
    _say(f"{report.cluster}: {report.nodes} servers, {report.gpus} GPUs, {report.switches} switches", "bold")
    slower = f"; arithmetic at {report.speed:.0%} of its speed" if report.speed < 1 else ""
    _say(f"Each GPU draws up to {_watts(report.cap)}{slower}; a server is built for {_watts(report.limit)}")
    print()
    table = Table(
        "lrrrrrr",
        header=(
            "load",
            "GPUs",
            "servers' rest",
            "switches",
            "machine",
            "one server",
            f"site, PUE {report.pue:g}",
        ),
    )
    for load in report.loads:
        of = f"{_watts(load.node)} ({load.node / report.limit:.0%})"
        table.add(load.load, _watts(load.gpus), _watts(load.servers), _watts(load.switches), _watts(load.total), of,
                  _watts(load.site))  # fmt: skip
    _show(table if table.fits(console().width) else table.without(2, 3))
    if any(load.node > report.limit for load in report.loads):
        _say(
            "Over 100 % the server's own limit holds its GPUs back; peaks are of single samples, all GPUs at once",
            "dim",
        )
    if report.benchmark is not None:
        b = report.benchmark
        print()
        _say(
            f"High-Performance Linpack: {format_quantity(b.rate, 'FLOP/s')}, {format_quantity(b.efficiency, 'FLOP/s')} "
            f"for a watt, {b.size:,} rows, GPUs multiplying {b.busy:.0%} of the time"
        )
        if b.published_rate and b.published_power:
            _say(
                f"Published: {format_quantity(b.published_rate, 'FLOP/s')} ({b.rate / b.published_rate - 1:+.1%} here), "
                f"{_watts(b.published_power)} ({b.power / b.published_power - 1:+.1%} here), "
                f"{format_quantity(b.published_rate / b.published_power, 'FLOP/s')} for a watt"
            )
        elif b.published_rate:
            _say(
                f"Published: {format_quantity(b.published_rate, 'FLOP/s')} ({b.rate / b.published_rate - 1:+.1%} here)"
            )
    print()
    _list("Sources", report.sources)


def _list(title: str, texts: tuple[str, ...]) -> None:
    if texts:
        _say(title, "dim")
        for text in texts:
            _say(text, "dim", first="  - ", indent="    ")


def print_bill(bill: Bill) -> None:
    """Print what GPU hours take: energy by two accounts, and money by every price."""
    _say(f"{bill.gpu_time / HOUR:,.0f} GPU hours on {bill.cluster}", "bold")
    _say(
        f"As model cards count (hours x the GPU's limit): {_energy(bill.plain_energy)}, {_mass(bill.plain_carbon)} CO2"
    )
    _say(f"Whole machine at the meter, {bill.load}: {_energy(bill.energy)}, {_mass(bill.carbon)} CO2")
    print()
    if bill.rows:
        table = Table("lrrllw", header=("price", "USD/GPU h", "USD", "how", "date", "source"))
        for row in bill.rows:
            offer = row.offer
            table.add(
                offer.name, _rate(offer), _money(row.low, row.high), offer.kind, offer.date, offer.source
            )
        _show(table)
    else:
        _say("No price of this GPU is known; give --price in USD for a GPU and an hour")
    print()
    _list("Assumptions", bill.assumptions)


def print_expense(expense: Expense) -> None:
    """Print energy and money of a predicted run or step."""
    what = f"{expense.tokens:,.4g} tokens: {expense.duration / 86400:,.3g} days" if expense.duration > 86400 else (
        f"{expense.tokens:,.4g} tokens: {format_quantity(expense.duration, 's')}"
    )  # fmt: skip
    print()
    _say("Energy and money", "bold")
    _say(
        f"{what} on {expense.gpus} GPUs, {expense.duration * expense.gpus / HOUR:,.4g} GPU hours", first="  "
    )
    _say(
        f"{_watts(expense.power)} mean draw, {_energy(expense.energy)} at the meter, {_mass(expense.carbon)} CO2",
        first="  ",
    )
    if expense.offer is not None:
        offer = expense.offer
        _say(
            f"{_money(expense.low, expense.high)} USD at {_rate(offer)} USD a GPU hour: {offer.name}, {offer.provider}, "
            f"{offer.kind}, {offer.date} ({offer.source})",
            first="  ", indent="    ",
        )  # fmt: skip
    _list("Assumptions about energy and money", expense.assumptions)


def print_trade(trade: Trade) -> None:
    """Print the fronts of time against cost and energy."""
    for title, points in (("cost", trade.time_cost), ("energy", trade.time_energy)):
        if not points:
            continue
        print()
        _say(f"Pareto front of time against {title}, over {', '.join(map(str, trade.tried))} GPUs", "bold")
        table = Table("rrrrl", header=("GPUs", "step", "energy", "USD", "layout"))
        for point in points[:20]:
            p, money = point.plan, "" if point.cost is None else f"{point.cost:,.4g}"
            table.add(
                str(point.gpus), format_quantity(point.step_time, "s"), _energy(point.energy), money,
                f"tp={p['tp']} pp={p['pp']} cp={p['cp']} dp={p['dp']} recompute={p['recompute']}",
            )  # fmt: skip
        _show(table)
    if (offer := trade.offer) is not None:
        _say(
            f"{_rate(offer)} USD a GPU hour: {offer.name}, {offer.kind}, {offer.date} ({offer.source})", "dim"
        )
