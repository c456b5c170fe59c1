"""Collectives in the form of nccl-tests, predicted or measured; algorithms side by side; and a log against predictions.

Format: github.com/NVIDIA/nccl-tests, src/common.cu and src/util.cu, as of 2.17: a header, a line for each rank, three
lines of titles, one row a size, a trailer. A prediction ran nothing, so nothing was validated: #wrong is N/A, as with
`-c 0`. A measured run has one such table for each algorithm.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from podsim.answers.comparison import ClassScore, Comparison
from podsim.answers.fabric_verdict import FabricVerdict
from podsim.answers.lab import MeasuredCollective, MeasuredCollectives
from podsim.answers.sweep import SendBudget, Sweep
from podsim.answers.trained import MeasuredDdp
from podsim.report.columns import Column, Table, percent, signed_percent, size_text
from podsim.report.screen import Block, Paragraph, Rows, raw
from podsim.units import format_quantity, short_seconds

_PROGRAMS = {"all-to-all": "alltoall", "send-recv": "sendrecv"}
_SUMMED = ("all-reduce", "reduce-scatter", "reduce")
_ROOTED = ("broadcast", "reduce", "gather", "scatter")
_SHOWN = 4
"""The number of sizes whose times a comparison shows."""
_LISTED = 64
"""ranks up to which each has a line"""
_NO_TIMES = f"{'N/A':>7} {'N/A':>7} {'N/A':>7} {'N/A':>6}"


def nccl_tests_text(sweep: Sweep) -> str:
    """The sweep in the format of nccl-tests."""
    return "\n".join(_sweep_lines(sweep)) + "\n"


def _sweep_lines(sweep: Sweep) -> Iterator[str]:
    name = _program(sweep.collective)
    threads = sweep.ranks_per_node if sweep.launch == "thread" else 1
    gpus = sweep.ranks_per_node if sweep.launch == "single" else 1
    sizes = [int(row.size) for row in sweep.rows]
    library = "".join(f"{int(part):02d}" for part in (*re.findall(r"\d+", sweep.version), "0", "0")[1:3])
    yield f"# nccl-tests version 2.17.6 nccl-headers=2{library} nccl-library=2{library}"
    yield f"# Collective test starting: {name}"
    yield f"# Predicted by podsim for {sweep.machine}: {sweep.how}"
    yield from _settings_lines(sweep)
    yield (
        f"# nThread {threads} nGpus {gpus} minBytes {sizes[0]} maxBytes {sizes[-1]} step: {_step(sizes)} "
        "warmup iters: 1 iters: 20 agg iters: 1 validation: 0 graph: 0"
    )
    yield from ("#", "# Using devices")
    listed = sweep.ranks if sweep.ranks <= _LISTED else min(sweep.ranks_per_node, _LISTED)
    for rank in range(listed):
        node, device = divmod(rank, sweep.ranks_per_node)
        process = 1000 + (rank if sweep.launch == "process" else node)
        yield _device_line(rank, process, f"node{node}", device, _device(sweep.gpu))
    if listed < sweep.ranks:
        last = (sweep.ranks - 1) // sweep.ranks_per_node
        others = (
            f"as those of node0, on node1 to node{last}" if last else f"as these, devices of {sweep.machine}"
        )
        yield f"#  Ranks {listed} to {sweep.ranks - 1}: {others}"
    yield from ("#", *_titles())
    for row in sweep.rows:
        half = _times(row.seconds, row.algorithm_bandwidth / 1e9, row.bus_bandwidth / 1e9, "N/A", places=2)
        yield _size_line(sweep.collective, row.size, row.count, half, half)
    yield "# Out of bounds values : 0 OK"
    yield _mean_line([row.bus_bandwidth for row in sweep.rows])
    yield from _range_lines(sweep)
    if sweep.budget is not None:
        yield from _budget_lines(sweep.budget)
    yield from ("#", f"# Collective test concluded: {name}")


def _settings_lines(sweep: Sweep) -> Iterator[str]:
    """NCCL's settings, those that nobody stated in a line of their own."""
    for line in _setting_words(sweep.settings, sweep.assumed):
        yield from textwrap.wrap(line, 78, initial_indent="# ", subsequent_indent="#   ")


def _range_lines(sweep: Sweep) -> Iterator[str]:
    """The range of each time over the values of the assumed settings that have one."""
    if not any(row.high for row in sweep.rows):
        return
    yield from ("#", "# Range of the time (us) over the releases and launches that were not stated:")
    yield f"# {'size (B)':>12} {'time':>10} {'low':>10} {'high':>10}"
    for row in sweep.rows:
        times = " ".join(f"{seconds * 1e6:10.1f}" for seconds in (row.seconds, row.low, row.high))
        yield f"# {int(row.size):12d} {times}"


def _budget_lines(budget: SendBudget) -> Iterator[str]:
    """The line rate of an adapter and of a server, divided; and what chunks would make of it."""
    many, (least, most), (low, high) = budget.adapters, budget.waits, budget.chunked
    server = f"{many} adapters" if many > 1 else "server"
    yield from ("#", f"# Link budget at {int(budget.size)} B (GB/s):")
    yield f"# {'':40} {'adapter':>9} {server:>12} {'of the line':>12}"
    for name, rate in (("line rate", budget.line), *((share.name, share.rate) for share in budget.shares)):
        yield f"# {name:40} {rate / 1e9:9.2f} {many * rate / 1e9:12.1f} {rate / budget.line:12.1%}"
    waits = f"{least * 1e6:.1f} to {most * 1e6:.1f} us"
    yield f"# Chunks of {int(budget.chunk) >> 10} KiB are not in it: if each waits {waits},"
    yield f"#   an adapter reaches {high / 1e9:.1f} to {low / 1e9:.1f} GB/s."


def _program(collective: str) -> str:
    return f"{_PROGRAMS.get(collective, collective.replace('-', '_'))}_perf"


def _step(sizes: list[int]) -> str:
    """The step between sizes: a factor, or bytes."""
    by = sizes[1] // sizes[0] if len(sizes) > 1 else 2
    grows = all(after == by * before for before, after in pairwise(sizes))
    return f"{by}(factor)" if grows else f"{sizes[1] - sizes[0]}(bytes)"


def _device(gpu: str) -> str:
    """The catalog's name as the driver writes it: "a100-sxm4-80gb" is "NVIDIA A100-SXM4-80GB"."""
    if gpu in ("", "CPU"):
        return gpu or "GPU"
    return gpu.upper() if gpu.startswith("tpu") else f"NVIDIA {gpu.upper()}"


def _device_line(rank: int, process: int, host: str, device: int, name: str) -> str:
    return f"#  Rank {rank:2d} Group  0 Pid {process:6d} on {host:>10} device {device:2d} [0x{device + 1:02x}] {name}"


def _titles() -> Iterator[str]:
    titles = f"{'time':>7} {'algbw':>7} {'busbw':>7} {'#wrong':>6}"
    units = f"{'(us)':>7} {'(GB/s)':>7} {'(GB/s)':>7} {'':6}"
    yield f"#{'':61}out-of-place{'':23}in-place"
    yield f"# {'size':>10}  {'count':>12}  {'type':>8}  {'redop':>6}  {'root':>6}  {titles}  {titles}"
    yield f"# {'(B)':>10}  {'(elements)':>12}  {'':8}  {'':6}  {'':6}  {units}  {units}".rstrip()


def _size_line(collective: str, size: float, count: int, outside: str, inside: str) -> str:
    redop = "sum" if collective in _SUMMED else "none"
    root = 0 if collective in _ROOTED else -1
    return f"{int(size):12d}  {count:12d}  {'float':>8}  {redop:>6}  {root:6d}  {outside}  {inside}"


def _times(seconds: float, bandwidth: float, bus_bandwidth: float, wrong: int | str, *, places: int) -> str:
    """Half a line: microseconds, two rates in GB/s, and wrong values."""
    us = seconds * 1e6
    time = f"{us:.0f}" if us >= 10000 else f"{us:.1f}" if us >= 100 else f"{us:.2f}"
    return f"{time:>7} {bandwidth:7.{places}f} {bus_bandwidth:7.{places}f} {wrong:>6}"


def _mean_line(bandwidths: Sequence[float]) -> str:
    return f"# Avg bus bandwidth    : {sum(bandwidths) / len(bandwidths) / 1e9:g} "


def measured_text(run: MeasuredCollectives) -> str:
    """A measured run in the format of nccl-tests, algorithm by algorithm."""
    return "\n".join(_measured_lines(run)) + "\n"


def _measured_lines(run: MeasuredCollectives) -> Iterator[str]:
    yield from _measured_head(run)
    for algorithm in dict.fromkeys(row.algorithm for row in run.rows):
        rows = [row for row in run.rows if row.algorithm == algorithm]
        yield from ("#", f"# Algorithm: {algorithm}", *_titles())
        for row in rows:
            outside, inside = _half(row, row.seconds, row.wrong), _half(row, row.in_place, row.in_place_wrong)
            yield _size_line(run.collective, row.size, row.count, outside, inside)
        bad = sum(row.wrong + (row.in_place_wrong or 0) for row in rows)
        yield f"# Out of bounds values : {bad} {'FAILED' if bad else 'OK'}"
        yield _mean_line([row.bus_bandwidth for row in rows])
    yield from ("#", *(f"# Not run: {name}: {why}" for name, why in run.left_out.items()))
    if run.stopped:
        yield "# Stopped: these are the rows that were measured until then"
    if worst := max(run.rows, key=lambda row: row.cpu + row.others, default=None):
        yield (
            f"# Processors: ranks {percent(worst.cpu)}, other programs {percent(worst.others)} of {run.cores} cores, "
            "at worst"
        )
    yield f"# Collective test concluded: {_program(run.collective)}"


def _measured_head(run: MeasuredCollectives) -> Iterator[str]:
    sizes = sorted({int(row.size) for row in run.rows})
    factor = round(sizes[1] / sizes[0]) if len(sizes) > 1 else 2
    yield f"# Collective test starting: {_program(run.collective)}"
    yield f"# Measured by podsim: {run.backend}, {run.software}, {run.started}"
    if run.emulated is not None:
        yield f"# Emulated: {links_text(run)}"
    yield (
        f"# nThread 1 nGpus 1 minBytes {sizes[0]} maxBytes {sizes[-1]} step: {factor}(factor) warmup iters: {run.warmup} "
        f"iters: {max(row.iterations for row in run.rows)} agg iters: 1 validation: 1 graph: 0"
    )
    yield f"# 4 B from rank 0 to rank 1: {run.message * 1e6:.0f} us"
    yield from ("#", "# Using devices")
    for rank, (host, process) in enumerate(zip(run.hosts, run.processes, strict=True)):
        yield _device_line(rank, process, host, rank % run.local, run.device)


def _half(row: MeasuredCollective, seconds: float | None, wrong: int | None) -> str:
    if not seconds or wrong is None:
        return _NO_TIMES
    speed = row.size / seconds / 1e9
    bus = row.bus_bandwidth / row.algorithm_bandwidth * speed if row.algorithm_bandwidth else 0.0
    return _times(seconds, speed, bus, wrong, places=3)


def links_text(run: MeasuredCollectives | MeasuredDdp) -> str:
    """The links that a run was given, in words."""
    links = run.emulated
    if links is None:
        machines = len(set(run.hosts))
        return f"{run.ranks} ranks on {machines} machine{'s' * (machines > 1)}, {run.backend}"
    inside, between = (format_quantity(rate * 8, "b/s") for rate in (links.inside, links.between))
    network = f", {links.nics} x {between} between servers" if links.servers > 1 else ""
    return f"{links.cluster} scaled by {links.scale:.3g}: {links.servers} x {links.local} ranks, {inside} a rank{network}"


def measured_report(run: MeasuredCollectives) -> Iterator[Block]:
    """A measured run as nccl-tests prints it."""
    yield raw(measured_text(run))


def sweep_report(sweep: Sweep) -> Iterator[Block]:
    """A sweep as nccl-tests prints it; or the compared algorithms side by side."""
    if not sweep.algorithms:
        yield raw(nccl_tests_text(sweep))
        return
    last = sweep.rows[-1].size
    yield (
        f"{sweep.collective} of {size_text(last)} over {sweep.ranks:,} GPUs, {sweep.ranks_per_node} a server, on "
        f"{sweep.machine}"
    )
    rows = [
        *sweep.algorithms,
        {"name": own_name(sweep), "seconds": tuple(row.seconds for row in sweep.rows)},
    ]
    yield from ("", Rows(_algorithms_table(sweep), rows), "")
    yield (
        "Peak: bytes into or out of the busiest rank in its busiest round. Fan-in: ranks that one rank receives from at "
        f"once. Times of the algorithms are of the links alone; last line: {sweep.how}."
    )
    for name, why in sweep.left_out.items():
        yield Paragraph(f"Not compared: {name}: {why.removeprefix(f'{name}: ')}", indent="  ", first="")


def _algorithms_table(sweep: Sweep) -> Table:
    """Rounds and bytes of each algorithm, and its time at a few sizes, the first and the last among them."""
    count = len(sweep.rows)
    shown = sorted({round(index * (count - 1) / (_SHOWN - 1)) for index in range(_SHOWN)})
    drops = {index: order for order, index in enumerate(shown[1:-1], start=1)}
    return Table(
        Column("algorithm", "name"),
        Column("rounds", "rounds", ":,"),
        Column("a rank sends", "sent", size_text),
        Column("peak", "peak", size_text, drop=3),
        Column("fan-in", "fan_in", ":,"),
        *(
            Column(
                size_text(sweep.rows[index].size),
                f"seconds.{index}",
                short_seconds,
                drop=drops.get(index, 0),
            )
            for index in shown
        ),
        indent=0,
    )


def own_name(sweep: Sweep) -> str:
    """The subject of a sweep's rows: NCCL, or the requested table."""
    if sweep.rows[-1].protocol == "ici":
        return "XLA"
    return "NCCL" if sweep.rows[-1].protocol else sweep.rows[-1].algorithm


def log_report(comparison: Comparison) -> Iterator[Block]:
    """Predictions against a log: each row, then the errors by decade of size."""
    rows = Table(
        Column("size (B)", lambda row: row.id.rsplit("/", 1)[-1].split("#")[0], align="r"),
        Column("predicted", "", "s"),
        Column("measured", "", "s"),
        Column("error", "", signed_percent),
        Column("NCCL would run", "note"),
        indent=0,
    )
    decades = Table(
        Column("size", lambda score: getattr(score, "name", "all")),
        Column("rows", "", ":d"),
        Column("mean error", "mae", percent),
        Column("bias", "", signed_percent),
        Column("largest", "worst_error", signed_percent),
        indent=0,
    )
    scores = [
        row for score in comparison.scores for row in (*sorted(score.classes, key=_first_number), score)
    ]
    yield comparison.title
    if (verdict := comparison.fabric) is not None:
        for line in _setting_words(verdict.settings, verdict.assumed):
            yield Paragraph(line, indent="  ", first="")
    yield from ("", Rows(rows, comparison.rows), "", Rows(decades, scores))
    for name, why in comparison.not_expressed:
        yield Paragraph(f"Not predicted: {name}: {why}", indent="  ", first="")
    if verdict is not None and verdict.is_broken:
        yield from _verdict_report(verdict)


def _verdict_report(verdict: FabricVerdict) -> Iterator[Block]:
    """A broken fabric, with what would explain it."""
    yield ""
    yield Paragraph(
        f"This fabric looks broken: at {format_quantity(verdict.size, 'B')} and more, collectives take "
        f"{verdict.slowdown:.1f} times as long as on healthy fabrics of its class."
    )
    if not verdict.explanations:
        yield "No single setting or fault that podsim knows explains it."
        return
    yield f"What would explain it, best first; without, podsim is {percent(verdict.misfit)} off:"
    table = Table(
        Column("off", "misfit", percent),
        Column("bias", "", signed_percent),
        Column("setting or fault", lambda row: row.words + " (as the log says)" * row.is_stated),
    )
    yield Rows(table, verdict.explanations)


def _setting_words(settings: Mapping[str, str], assumed: Sequence[str]) -> Iterator[str]:
    """A line of the stated settings, and one of the assumed ones."""
    for title, names in (
        ("Settings", [name for name in settings if name not in assumed]),
        ("Assumed", [name for name in settings if name in assumed]),
    ):
        if names:
            yield f"{title}: " + ", ".join(f"{name.replace('_', ' ')} {settings[name]}" for name in names)


def _first_number(score: ClassScore) -> float:
    return float(score.name.split()[0]) if score.name[:1].isdecimal() else 0.0
