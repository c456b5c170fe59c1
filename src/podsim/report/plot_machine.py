"""Machines in charts: collectives over sizes, storage over clients, and figures of the white paper drawn again."""

from __future__ import annotations

from podsim.answers.served import Figure as Published
from podsim.answers.storage import FioRun
from podsim.answers.sweep import Sweep
from podsim.report.chart_marks import INK, MUTED, Axis, Bars, Chart, Mark, Series, Sheet
from podsim.report.collectives import own_name
from podsim.report.columns import size_text
from podsim.units import format_quantity


def sweep_figure(sweep: Sweep) -> Sheet:
    """Left the time, right the bus bandwidth, over the size of a message; a line for each algorithm."""
    sizes, last = [row.size for row in sweep.rows], sweep.rows[-1]
    factor = last.bus_bandwidth * last.seconds / last.size if last.seconds else 0.0
    mark = "o" if len(sizes) == 1 else ""
    times, speeds = list[Mark](), list[Mark]()
    for index, (name, seconds) in enumerate(
        [
            *((row.name, row.seconds) for row in sweep.algorithms),
            (own_name(sweep), [row.seconds for row in sweep.rows]),
        ]
    ):
        is_own = index == len(sweep.algorithms)
        colour, width = (INK, 2.4) if is_own else (index, 1.6)
        rates = [
            size * factor / time / 1e9 if time else 0.0 for size, time in zip(sizes, seconds, strict=True)
        ]
        times.append(Series(sizes, seconds, "", colour, mark=mark, width=width))
        speeds.append(Series(sizes, rates, name, colour, mark=mark, width=width))
    ticks = [2.0**power for power in range(0, 60, 5) if sizes[0] <= 2**power <= sizes[-1]]
    along = Axis(
        "size", "log2", size_text, ticks=ticks if len(ticks) > 1 else sorted({sizes[0], sizes[-1]}),
        low=sizes[0] if len(sizes) > 1 else None, high=sizes[-1] if len(sizes) > 1 else None,
    )  # fmt: skip
    charts = [
        Chart(times, x=along, y=Axis("time", "log", lambda value: format_quantity(value, "s"))),
        Chart(speeds, x=along, y=Axis("bus bandwidth, GB/s", low=0.0), legend="right"),
    ]
    title = f"{sweep.collective} over {sweep.ranks:,} GPUs, {sweep.ranks_per_node} a server: {sweep.machine}"
    mine = f"{own_name(sweep)}: {sweep.how}"
    about = f"algorithms: links alone; {mine}" if sweep.algorithms else mine
    return Sheet(title, charts, about, (10.4, 4.9), columns=2)


def fio_figure(run: FioRun) -> Sheet:
    """Rate over clients on the left, mean latency on the right."""
    clients = [row.clients for row in run.rows]
    along = Axis(
        "clients", low=0 if clients[-1] > 1 else 0.5, high=max(clients[-1] * 1.04, 1.5), is_whole=True
    )
    latencies: list[Mark] = [
        Series(clients, [row.latency for row in run.rows], "mean, loaded", 0, mark="o", width=2.2),
        Series(clients, [row.alone for row in run.rows], "one access alone", MUTED, "--", "o"),
    ]
    charts = [
        _rates(run, clients, along),
        Chart(
            latencies,
            "latency of an access",
            along,
            Axis(text=lambda value: format_quantity(value, "s"), low=0.0),
        ),
    ]
    title = f"fio --rw={run.rw} --bs={size_text(run.block).replace(' ', '')} on {run.system}"
    about = f"{run.numjobs} jobs of depth {run.iodepth} a client"
    return Sheet(title, charts, about, (9.6, 4.6), columns=2)


def _rates(run: FioRun, clients: list[int], along: Axis) -> Chart:
    """Bandwidth of large blocks, operations of small ones: predicted, without the servers' software, published."""
    unit, factor = ("B/s", 1.0) if run.block >= 1 << 16 else ("IOPS", 1.0 / run.block)
    most, rates = [row.most * factor for row in run.rows], [row.bandwidth * factor for row in run.rows]
    points = [point for point in run.published if point.clients <= clients[-1]]
    marks: list[Mark] = [Series(clients, rates, "predicted", 0, mark="o", width=2.2)]
    if any(m > r * 1.001 for m, r in zip(most, rates, strict=True)):
        marks.insert(0, Series(clients, most, "were the servers' software no limit", MUTED, "--"))
    for measured, label in ((True, "published, measured"), (False, "published, derived")):
        chosen = [point for point in points if point.what.startswith("measured") is measured]
        if chosen:
            values = [point.bandwidth or point.iops for point in chosen]
            marks.append(
                Series([p.clients for p in chosen], values, label, 1, "", "o", is_hollow=not measured, size=8)
            )
    highest = max(*rates, *(p.bandwidth or p.iops for p in points), min(max(most), 2.2 * max(rates))) * 1.08
    what = "read and written" if 0 < run.read_share < 1 else "bandwidth" if unit == "B/s" else "operations"
    up = Axis(text=lambda value: format_quantity(value, unit), low=0.0, high=highest)
    return Chart(marks, what, along, up, legend="lower right")


def published_figure(published: Published) -> Sheet:
    """For each panel a bar for each row, relative to its base, and the printed factors."""
    panels = (published, *published.parts)
    heights = [1.0 + 0.3 * len(panel.rows) for panel in panels]
    charts = [
        Chart(
            [
                Bars(
                    [row.relative for row in panel.rows],
                    texts=[f"{row.relative:.3g}" for row in panel.rows],
                    lines=[row.printed for row in panel.rows],
                )
            ],
            f"{panel.title}; line: printed",
            x=Axis(f"times {panel.base}", room=0.1, low=0.0),
            y=Axis(names=[row.name for row in panel.rows], is_reversed=True),
        )
        for panel in panels
    ]
    return Sheet("", charts, size=(7.6, sum(heights)), heights=heights)
