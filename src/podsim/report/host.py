"""`podsim measure host` on a terminal: what one rank reaches, what ranks exchange, what the disk does."""

from __future__ import annotations

from podsim.report.collectives import size_text
from podsim.report.columns import percent, quantity_text
from podsim.report.table import Table, console, paragraph
from podsim.results.host import MeasuredHost, MeasuredKernel
from podsim.units import format_quantity

_DISK = {
    "read": "B/s", "write": "B/s", "read_operations": "1/s", "write_operations": "1/s", "read_latency": "s",
    "write_latency": "s",
}  # fmt: skip


def print_host(host: MeasuredHost) -> None:
    """Print everything but the entry, which is a file."""
    out = console()
    for line in host_lines(host, out.width):
        out.print(line)


def host_lines(host: MeasuredHost, width: int) -> list[str]:
    """The lines that are printed."""
    lines = [
        f"{host.name}: {host.ranks} ranks on {host.device}, {host.cores} cores; {host.software}, {host.started}",
        f"each figure is of one rank while all {host.ranks} are busy; {host.seconds:.0f} s in all", "",
    ]  # fmt: skip
    table = Table("lr", indent=0)
    for precision, peak in host.peaks.items():
        table.add(f"best product, {precision}", format_quantity(peak, "FLOP/s"))
    table.add("best stream", format_quantity(host.memory_bandwidth, "B/s"))
    table.add("kernel that does nothing", format_quantity(host.launch, "s"))
    table.add("rank to rank", format_quantity(host.link, "B/s"))
    table.add("4 KiB from rank to rank", format_quantity(host.link_latency, "s"))
    if host.images is not None:
        table.add("ResNet-50, small images", quantity_text(host.images, "1/s"))
    for name, unit in _DISK.items():
        if name in host.disk:
            table.add(f"disk, {name.replace('_', ' ')}", quantity_text(host.disk[name], unit))
    for name, rate in host.names.items():
        table.add(name, quantity_text(rate, "1/s"))
    lines += [start + rest for start, rest in table.lines(width)]
    lines += ["", *_kernels(host.kernels, width), "", *_sends(host, width), ""]
    if host.runtime:
        lines += [*_runtime(host, width), ""]
    lines.append(
        f"Mean error of the fitted law over linear layers: {percent(host.error)}; other programs used"
        f" {percent(host.others)} of the processors."
    )
    for note in host.notes:
        lines += paragraph(note, width)
    return lines


def _kernels(rows: tuple[MeasuredKernel, ...], width: int) -> list[str]:
    table = Table("llrrrr", header=("kernel", "type", "shape", "time", "rate", "law"), indent=0)
    for row in rows:
        rate = "-"
        if row.name == "product":
            m, n, k = row.shape
            rate = format_quantity(2.0 * m * n * k / row.seconds, "FLOP/s")
        elif row.name == "linear":
            m, n, k = row.shape
            rate = format_quantity(6.0 * m * n * k / row.seconds, "FLOP/s")
        elif row.name == "stream":
            rate = format_quantity(12.0 * row.shape[0] / row.seconds, "B/s")
        law = f"{row.predicted / row.seconds - 1:+.0%}" if row.predicted else "-"
        shape = " x ".join(map(str, row.shape))
        table.add(row.name, row.precision, shape, format_quantity(row.seconds, "s"), rate, law)
    return [start + rest for start, rest in table.lines(width)]


def _runtime(host: MeasuredHost, width: int) -> list[str]:
    """A line for each way that a layer was run."""
    table = Table("lr", header=("PyTorch's own, in a small step", "time"), indent=0)
    for name, seconds in host.runtime.items():
        table.add(name, format_quantity(seconds, "s", digits=3))
    return [start + rest for start, rest in table.lines(width)]


def _sends(host: MeasuredHost, width: int) -> list[str]:
    """A line for each collective and number of ranks, a column for each size."""
    sizes = sorted({row.size for row in host.sends})
    if not sizes:
        return ["one rank exchanges nothing"]
    table = Table(
        "lr" + "r" * len(sizes), header=("exchange", "ranks", *(size_text(s) for s in sizes)), indent=0
    )
    for collective, ranks in dict.fromkeys((row.collective, row.ranks) for row in host.sends):
        times = {r.size: r.seconds for r in host.sends if (r.collective, r.ranks) == (collective, ranks)}
        cells = (format_quantity(times[size], "s", digits=3) if size in times else "-" for size in sizes)
        table.add(collective.replace("_", "-"), str(ranks), *cells)
    return [start + rest for start, rest in table.lines(width)]
