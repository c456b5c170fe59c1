"""What the lab measured, as nccl-tests prints it, and predictions beside it.

Format: github.com/NVIDIA/nccl-tests, src/common.cu and src/util.cu, as of 2.17: a header, a line for each rank, three
lines of titles, one row a size, a trailer; here once for each algorithm.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from podsim.report.collectives import size_text
from podsim.report.columns import percent, signed_percent
from podsim.report.table import Table, console, paragraph
from podsim.results.lab import ComparedCollectives, MeasuredCollective, MeasuredCollectives
from podsim.results.trained import MeasuredDdp
from podsim.units import format_quantity

_PROGRAMS = {"all-to-all": "alltoall", "send-recv": "sendrecv"}
_SUMMED = ("all-reduce", "reduce-scatter", "reduce")
_ROOTED = ("broadcast", "reduce", "gather", "scatter")


def measured_text(run: MeasuredCollectives) -> str:
    """The run in the format of nccl-tests, algorithm by algorithm."""
    name = f"{_PROGRAMS.get(run.collective, run.collective.replace('-', '_'))}_perf"
    lines = list(_head(run, name))
    for algorithm in dict.fromkeys(row.algorithm for row in run.rows):
        rows = [row for row in run.rows if row.algorithm == algorithm]
        lines += [
            "#", f"# Algorithm: {algorithm}", *_titles(), *(_row(run, row) for row in rows), *_sums(rows),
        ]  # fmt: skip
    lines += ["#", *(f"# Not run: {one}: {why}" for one, why in run.left_out.items())]
    if worst := max((row for row in run.rows), key=lambda row: row.cpu + row.others, default=None):
        lines.append(
            f"# Processors: ranks {percent(worst.cpu)}, other programs {percent(worst.others)} of {run.cores} cores, "
            "at worst"
        )
    return "\n".join([*lines, f"# Collective test concluded: {name}"]) + "\n"


def _head(run: MeasuredCollectives, name: str) -> Iterator[str]:
    sizes = sorted({int(row.size) for row in run.rows})
    factor = round(sizes[1] / sizes[0]) if len(sizes) > 1 else 2
    yield f"# Collective test starting: {name}"
    yield f"# Measured by podsim: {run.backend}, {run.software}, {run.started}"
    if run.emulated is not None:
        yield f"# Emulated: {links_text(run)}"
    yield (
        f"# nThread 1 nGpus 1 minBytes {sizes[0]} maxBytes {sizes[-1]} step: {factor}(factor) warmup iters: {run.warmup} "
        f"iters: {max(row.iterations for row in run.rows)} agg iters: 1 validation: 1 graph: 0"
    )
    yield f"# 4 B from rank 0 to rank 1: {run.message * 1e6:.0f} us"
    yield "#"
    yield "# Using devices"
    for rank, (host, process) in enumerate(zip(run.hosts, run.processes, strict=True)):
        device = rank % run.local
        yield (
            f"#  Rank {rank:2d} Group  0 Pid {process:6d} on {host:>10} device {device:2d} "
            f"[0x{device + 1:02x}] {run.device}"
        )


def links_text(run: MeasuredCollectives | MeasuredDdp) -> str:
    """The links that a run was given, in words."""
    made = run.emulated
    if made is None:
        return f"{run.ranks} ranks on {len(set(run.hosts))} machine{'s' * (len(set(run.hosts)) > 1)}, {run.backend}"
    between = (
        f", {made.nics} x {format_quantity(made.between * 8, 'b/s')} between servers"
        if made.servers > 1
        else ""
    )
    return (
        f"{made.cluster} scaled by {made.scale:.3g}: {made.servers} x {made.local} ranks, "
        f"{format_quantity(made.inside * 8, 'b/s')} a rank{between}"
    )


def _titles() -> Iterator[str]:
    titles = f"{'time':>7} {'algbw':>7} {'busbw':>7} {'#wrong':>6}"
    units = f"{'(us)':>7} {'(GB/s)':>7} {'(GB/s)':>7} {'':6}"
    yield f"#{'':61}out-of-place{'':23}in-place"
    yield f"# {'size':>10}  {'count':>12}  {'type':>8}  {'redop':>6}  {'root':>6}  {titles}  {titles}"
    yield f"# {'(B)':>10}  {'(elements)':>12}  {'':8}  {'':6}  {'':6}  {units}  {units}".rstrip()


def _row(run: MeasuredCollectives, row: MeasuredCollective) -> str:
    redop = "sum" if run.collective in _SUMMED else "none"
    root = 0 if run.collective in _ROOTED else -1
    return (
        f"{int(row.size):12d}  {row.count:12d}  {'float':>8}  {redop:>6}  {root:6d}  "
        f"{_half(row, row.seconds, row.wrong)}  {_half(row, row.in_place, row.in_place_wrong)}"
    )


def _half(row: MeasuredCollective, seconds: float | None, wrong: int | None) -> str:
    if not seconds or wrong is None:
        return f"{'N/A':>7} {'N/A':>7} {'N/A':>7} {'N/A':>6}"
    speed = row.size / seconds / 1e9
    bus = row.bus_bandwidth / row.algorithm_bandwidth * speed if row.algorithm_bandwidth else 0.0
    return f"{_time(seconds * 1e6):>7} {speed:7.3f} {bus:7.3f} {wrong:6d}"


def _time(us: float) -> str:
    return f"{us:.0f}" if us >= 10000 else f"{us:.1f}" if us >= 100 else f"{us:.2f}"


def _sums(rows: Sequence[MeasuredCollective]) -> Iterator[str]:
    bad = sum(row.wrong + (row.in_place_wrong or 0) for row in rows)
    mean = sum(row.bus_bandwidth for row in rows) / len(rows)
    yield f"# Out of bounds values : {bad} {'FAILED' if bad else 'OK'}"
    yield f"# Avg bus bandwidth    : {mean / 1e9:g} "


def print_measured(run: MeasuredCollectives) -> None:
    """Print a run."""
    console().print(measured_text(run), end="")


def comparison_text(found: ComparedCollectives, width: int = 120) -> str:
    """A run beside its predictions, and what each difference is made of."""
    return "\n".join(_comparison(found, width)) + "\n"


def print_comparison(found: ComparedCollectives) -> None:
    """Print a run beside its predictions."""
    out = console()
    for line in _comparison(found, out.width):
        out.print(line)


def _comparison(found: ComparedCollectives, width: int) -> Iterator[str]:
    yield from paragraph(f"{found.collective} over {found.ranks} ranks, {found.run}", width)
    yield from paragraph(f"measured on {found.machine}", width, indent="  ", first="  ")
    yield from paragraph(f"predicted for {found.cluster}", width, indent="  ", first="  ")
    yield ""
    kinds = list(dict.fromkeys(kind for row in found.rows for kind in row.parts))
    header = ("algorithm", "size", "measured", "predicted", "off by", *kinds, "cores", "")
    table = Table("llrrr" + "r" * len(kinds) + "rl", header=header, indent=0)
    for row in found.rows:
        table.add(
            row.algorithm, size_text(row.size), _seconds(row.measured), _seconds(row.predicted),
            signed_percent(row.difference), *(_seconds(row.parts[kind]) for kind in kinds),
            percent(row.cpu + row.others), "" if row.verdict == "comparable" else row.verdict,
        )  # fmt: skip
    yield from (line for line, _ in table.lines(width))
    yield ""
    yield errors_line(found.mean, found.worst)
    if not found.apart:
        yield from paragraph(
            "Calls were made one after the other, so that one may have begun before the last had ended everywhere; a "
            "prediction is of one call: measure with --apart.", width,
        )  # fmt: skip
    for name, why in found.not_predicted.items():
        yield from paragraph(f"Not predicted: {name}: {why}", width, indent="  ", first="")


def errors_line(mean: float | None, worst: float | None) -> str:
    """How far rows that can be compared are off; None: there is none."""
    if mean is None or worst is None:
        return "no row can be compared"
    return f"mean {percent(mean)}, worst {percent(worst)} of the rows that can be compared"


def _seconds(value: float) -> str:
    return format_quantity(value, "s", digits=3)
