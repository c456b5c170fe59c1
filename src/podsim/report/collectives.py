"""A sweep of a collective as nccl-tests prints it, its algorithms side by side, and a log against predictions.

Format: github.com/NVIDIA/nccl-tests, src/common.cu and src/util.cu, as of 2.17: a header, a line for each rank, three
lines of titles, one row a size, a trailer. Nothing was run, so nothing was validated: #wrong is N/A, as with `-c 0`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from podsim.report.columns import percent, signed_percent
from podsim.report.table import Table, console, paragraph
from podsim.results.comparison import ClassScore, Comparison
from podsim.results.sweep import Sweep, Timed
from podsim.units import format_quantity

_PROGRAMS = {"all-to-all": "alltoall", "send-recv": "sendrecv"}
_SUMMED = ("all-reduce", "reduce-scatter", "reduce")
_ROOTED = ("broadcast", "reduce", "gather", "scatter")
_SHOWN = 4
"""sizes whose times are shown in a comparison"""


def nccl_tests_text(sweep: Sweep) -> str:
    """The sweep in the format of nccl-tests."""
    name = f"{_PROGRAMS.get(sweep.collective, sweep.collective.replace('-', '_'))}_perf"
    return (
        "\n".join([*_head(sweep, name), *(_row(sweep, row) for row in sweep.rows), *_tail(sweep, name)])
        + "\n"
    )


def _head(sweep: Sweep, name: str) -> Iterator[str]:
    threads = sweep.ranks_per_node if sweep.launch == "thread" else 1
    gpus = sweep.ranks_per_node if sweep.launch == "single" else 1
    sizes = [int(row.size) for row in sweep.rows]
    library = "".join(f"{int(part):02d}" for part in (*re.findall(r"\d+", sweep.version), "0", "0")[1:3])
    yield f"# nccl-tests version 2.17.6 nccl-headers=2{library} nccl-library=2{library}"
    yield f"# Collective test starting: {name}"
    yield f"# Predicted by podsim for {sweep.machine}: {sweep.how}"
    yield (
        f"# nThread {threads} nGpus {gpus} minBytes {sizes[0]} maxBytes {sizes[-1]} step: {_step(sizes)} "
        "warmup iters: 1 iters: 20 agg iters: 1 validation: 0 graph: 0"
    )
    yield "#"
    yield "# Using devices"
    for rank in range(sweep.ranks):
        node, device = divmod(rank, sweep.ranks_per_node)
        pid = 1000 + (rank if sweep.launch == "process" else node)
        yield (
            f"#  Rank {rank:2d} Group  0 Pid {pid:6d} on {f'node{node}':>10} device {device:2d} "
            f"[0x{device + 1:02x}] {_device(sweep.gpu)}"
        )
    yield "#"
    yield f"#{'':61}out-of-place{'':23}in-place"
    titles = f"{'time':>7} {'algbw':>7} {'busbw':>7} {'#wrong':>6}"
    units = f"{'(us)':>7} {'(GB/s)':>7} {'(GB/s)':>7} {'':6}"
    yield f"# {'size':>10}  {'count':>12}  {'type':>8}  {'redop':>6}  {'root':>6}  {titles}  {titles}"
    yield f"# {'(B)':>10}  {'(elements)':>12}  {'':8}  {'':6}  {'':6}  {units}  {units}".rstrip()


def _step(sizes: list[int]) -> str:
    """How sizes follow each other: a factor, or bytes."""
    by = sizes[1] // sizes[0] if len(sizes) > 1 else 2
    grows = all(after == by * before for before, after in pairwise(sizes))
    return f"{by}(factor)" if grows else f"{sizes[1] - sizes[0]}(bytes)"


def _device(gpu: str) -> str:
    """The catalog's name as the driver writes it: "a100-sxm4-80gb" is "NVIDIA A100-SXM4-80GB"."""
    if gpu in ("", "CPU"):
        return gpu or "GPU"
    return f"NVIDIA {gpu.upper()}"


def _row(sweep: Sweep, row: Timed) -> str:
    redop = "sum" if sweep.collective in _SUMMED else "none"
    root = 0 if sweep.collective in _ROOTED else -1
    half = f"{_time(row.seconds * 1e6):>7} {row.algorithm_bandwidth / 1e9:7.2f} {row.bus_bandwidth / 1e9:7.2f} {'N/A':>6}"
    return f"{int(row.size):12d}  {row.count:12d}  {'float':>8}  {redop:>6}  {root:6d}  {half}  {half}"


def _time(us: float) -> str:
    return f"{us:.0f}" if us >= 10000 else f"{us:.1f}" if us >= 100 else f"{us:.2f}"


def _tail(sweep: Sweep, name: str) -> Iterator[str]:
    mean = sum(row.bus_bandwidth for row in sweep.rows) / len(sweep.rows)
    yield "# Out of bounds values : 0 OK"
    yield f"# Avg bus bandwidth    : {mean / 1e9:g} "
    yield "#"
    yield f"# Collective test concluded: {name}"


def size_text(size: float) -> str:
    """Bytes with a binary prefix: 1073741824 is "1 GiB"."""
    for factor, unit in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= factor:
            return f"{size / factor:.4g} {unit}"
    return f"{size:g} B"


def print_sweep(sweep: Sweep) -> None:
    """Print a sweep as nccl-tests does; or, if algorithms were compared, those side by side."""
    if not sweep.algorithms:
        console().print(nccl_tests_text(sweep), end="")
        return
    out = console()
    for line in _comparison(sweep, out.width):
        out.print(line)


def comparison_text(sweep: Sweep, width: int = 120) -> str:
    """The algorithms of a sweep side by side."""
    return "\n".join(_comparison(sweep, width)) + "\n"


def _some(count: int) -> list[int]:
    """Places of a few sizes, the first and the last among them."""
    return sorted({round(place * (count - 1) / (_SHOWN - 1)) for place in range(_SHOWN)})


def _comparison(sweep: Sweep, width: int) -> Iterator[str]:
    last = sweep.rows[-1].size
    yield from paragraph(
        f"{sweep.collective} of {size_text(last)} over {sweep.ranks:,} GPUs, {sweep.ranks_per_node} a server, on "
        f"{sweep.machine}", width,
    )  # fmt: skip
    yield ""
    places = _some(len(sweep.rows))
    header = ("algorithm", "rounds", "a rank sends", "peak", "fan-in")
    table = Table("lrrrr" + "r" * len(places), indent=0,
                  header=(*header, *(size_text(sweep.rows[k].size) for k in places)))  # fmt: skip
    for row in sweep.algorithms:
        times = (format_quantity(row.seconds[k], "s", digits=3) for k in places)
        table.add(
            row.name, f"{row.rounds:,}", size_text(row.sent), size_text(row.peak), f"{row.fan_in:,}", *times
        )
    mine = (format_quantity(sweep.rows[k].seconds, "s", digits=3) for k in places)
    table.add(own_name(sweep), "", "", "", "", *mine)
    shown = table
    for gone in ((), (6,), (6, 7), (3, 6, 7)):
        shown = table.without(*(place for place in gone if place < 5 + len(places) - 1))
        if shown.fits(width):
            break
    yield from (line for line, _ in shown.lines(width))
    yield ""
    yield from paragraph(
        "Peak: bytes into or out of the busiest rank in its busiest round. Fan-in: ranks that one rank receives from at "
        f"once. Times of the algorithms are of the links alone; last line: {sweep.how}.", width,
    )  # fmt: skip
    for name, why in sweep.left_out.items():
        yield from paragraph(
            f"Not compared: {name}: {why.removeprefix(f'{name}: ')}", width, indent="  ", first=""
        )


def own_name(sweep: Sweep) -> str:
    """What the rows of a sweep are: NCCL, or the table asked for."""
    return "NCCL" if sweep.rows[-1].protocol else sweep.rows[-1].algorithm


def print_comparison(comparison: Comparison) -> None:
    """Print predictions against a log: each row, then the errors by decade of size."""
    out = console()
    for line in _against(comparison, out.width):
        out.print(line)


def _against(comparison: Comparison, width: int) -> Iterator[str]:
    yield from paragraph(comparison.title, width)
    yield ""
    table = Table("rrrrl", header=("size (B)", "predicted", "measured", "error", "NCCL would run"), indent=0)
    for row in comparison.rows:
        times = (format_quantity(value, "s") for value in (row.predicted, row.measured))
        table.add(row.id.rsplit("/", 1)[-1].split("#")[0], *times, signed_percent(row.error), row.note)
    yield from (line for line, _ in table.lines(width))
    yield ""
    decades = Table("lrrrr", header=("size", "rows", "mean error", "bias", "largest"), indent=0)
    for score in comparison.scores:
        for one in _in_order(score.classes):
            decades.add(one.name, str(one.rows), percent(one.mae), signed_percent(one.bias),
                        signed_percent(one.worst_error))  # fmt: skip
        decades.add("all", str(score.rows), percent(score.mae), signed_percent(score.bias),
                    signed_percent(score.worst_error))  # fmt: skip
    yield from (line for line, _ in decades.lines(width))
    for name, why in comparison.not_expressed:
        yield from paragraph(f"Not predicted: {name}: {why}", width, indent="  ", first="")


def _in_order(classes: Sequence[ClassScore]) -> list[ClassScore]:
    return sorted(classes, key=lambda one: float(one.name.split()[0]) if one.name[:1].isdigit() else 0.0)
