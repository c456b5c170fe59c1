"""Captured graphs, their costs and execution traces."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.answers.graphs import (
    Cut,
    DataParallel,
    GraphCost,
    GraphMemory,
    PlacedTable,
    TablePlacement,
)
from podsim.report.columns import BAR, Column, Table
from podsim.report.screen import Block, Paragraph, Rows, bold, dim
from podsim.units import format_quantity

_SHOWN = 12
_KINDS = Table(Column("", "0"), Column("", "1", "s"), Column("", "2", ":.1%"), Column("", "2", BAR))
_PARTS = Table(
    Column("device", "0", ":d"),
    Column("ops", "1.ops", ":d"),
    Column("both passes", "1.seconds", "s"),
    Column("parameters", "1.parameters", ":,.0f"),
    Column("activations", "1.kept", "B"),
    Column("sent", "1.sent", "B"),
)


def _tier(table: PlacedTable) -> str:
    """The memory of a table, with the hit rate of its cache."""
    return table.tier if table.tier == "hbm" else f"{table.tier}, {table.hit_rate:.0%} of rows cached"


_PLACED = Table(
    Column("table", "name"),
    Column("rows", "rows", ":,d"),
    Column("width", "width", ":d", drop=2),
    Column("pooling", "pooling", ":g", drop=3),
    Column("size", "bytes", "B", digits=3),
    Column("way", lambda table: table.way + (f" x {table.slices}" if table.slices > 1 else "")),
    Column("memory", _tier, drop=1),
    Column("hot rows", lambda table: f"{table.hot:,}" if table.hot else "", align="r", optional=True, drop=4),
    Column("time", "seconds", "s", digits=3),
    Column("GPUs", "gpus", wrap=True),
)


def _notes(notes: tuple[str, ...]) -> Iterator[Block]:
    return (Paragraph(note, "dim", indent="  ", first="Note: ") for note in notes)


def graph_report(cost: GraphCost, *, detail: str = "") -> Iterator[Block]:
    """The cost of a graph: the step, its parts, the longest ops or all, and the cut."""
    gpus = cost.data_parallel.gpus if cost.data_parallel else 1
    every = f"{cost.batch * gpus:,} samples on {gpus:,} GPUs, " if gpus > 1 else ""
    yield bold(f"{cost.model}, {every}{cost.batch:,} samples on one {cost.gpu} in {cost.precision}")
    yield from (dim(cost.source), "")
    yield from _times(cost)
    total = sum(cost.kinds.values()) or 1.0
    kinds = [(kind, seconds, seconds / total) for kind, seconds in cost.kinds.items()]
    yield from ("", bold("Where the GPU's time goes"), Rows(_KINDS, kinds), "")
    yield from _ops(cost, detail)
    if cost.cut is not None:
        yield from _cut_report(cost.cut)
    if cost.placement is not None:
        yield from _placement(cost.placement, detail)
    yield from _simulation(cost)
    yield from ("", _band(cost), *_notes(cost.notes))


def _times(cost: GraphCost) -> Iterator[Block]:
    step, forward, backward, update, host, between = (
        format_quantity(seconds, "s")
        for seconds in (cost.step_time, cost.forward, cost.backward, cost.update, cost.host, cost.host_step)
    )
    of_peak = f"{cost.utilisation:.1%} of the peak"
    if cost.data_parallel is None:
        yield bold(f"{step} a step: {cost.samples_per_second:,.4g} samples/s, {of_peak}")
    else:
        yield from _replicas(cost.data_parallel, is_placed=cost.placement is not None)
        yield from ("", f"One GPU alone: {step} a step, {cost.samples_per_second:,.4g} samples/s, {of_peak}")
    yield (
        f"Forward {forward}, backward {backward}, {cost.optimizer} update {update}; the GPU waits {host} for the host, "
        f"and {between} between steps"
    )
    yield (
        f"{format_quantity(cost.flops, 'FLOP')} forward, {format_quantity(cost.flops_back, 'FLOP')} backward, "
        f"{cost.parameters:,.0f} parameters, {format_quantity(cost.kept, 'B')} of activations"
    )
    yield from _memory(cost.memory)
    if cost.loading:
        limits = ", which limits it" if cost.loading >= _step_seconds(cost) else ""
        yield f"Loading ({cost.loader}): {format_quantity(cost.loading, 's')} of a node's cores a step{limits}"


def _memory(memory: GraphMemory) -> Iterator[Block]:
    """The bytes on one GPU, and what would fit if they do not."""
    kinds = ("weights", "gradients", "states", "tables", "activations", "runtime")
    parts = ", ".join(
        f"{name} {format_quantity(amount, 'B')}" for name in kinds if (amount := getattr(memory, name))
    )
    total, capacity = (format_quantity(value, "B") for value in (memory.total, memory.capacity))
    if memory.fits:
        yield f"Memory: {total} of {capacity} ({parts})"
        return
    batch = memory.largest_batch
    remedy = (
        f"a batch of {batch:,} fits"
        if batch
        else "no batch fits: more GPUs or --devices divide the tables or the weights"
    )
    yield bold(f"Does not fit: {total} of {capacity} ({parts}); {remedy}")


def _step_seconds(cost: GraphCost) -> float:
    """Seconds of the step, on all GPUs where there are several."""
    return cost.step_time if cost.data_parallel is None else cost.data_parallel.step_time


def _simulation(cost: GraphCost) -> Iterator[Block]:
    """The played step against the closed form."""
    if cost.simulated is None:
        return
    played = format_quantity(cost.simulated, "s")
    if cost.cut is not None:
        ratio = cost.simulated / cost.step_time
        text = f"on {cost.cut.devices} devices, one batch at a time: {played} a step, {ratio:.2f} times as long as on one"
        yield from ("", f"Played {text}")
        return
    closed, what = _step_seconds(cost), "Played"
    if cost.loading:
        exposed = 0.0 if cost.data_parallel is None else cost.data_parallel.exposed
        closed = cost.forward + cost.backward + cost.update + cost.host_step + exposed
        what = "Played without loading"
    yield from ("", f"{what}: {played} a step, {cost.simulated / closed - 1:+.1%} by simulation")


def _band(cost: GraphCost) -> str:
    band = cost.band
    if band is None:
        return "No error band"
    low, high = (format_quantity(_step_seconds(cost) * (1 + share), "s") for share in (band.low, band.high))
    gpus = "" if cost.data_parallel is None else f" on {cost.data_parallel.gpus} GPUs"
    return f"Error band of the step{gpus} {low} to {high} ({band.low:+.0%} to {band.high:+.0%}): {band.basis}"


def _ops(cost: GraphCost, detail: str) -> Iterator[Block]:
    if detail == "ops" or len(cost.ops) <= _SHOWN:
        ops, title = list(cost.ops), "Ops"
    else:
        ops = sorted(cost.ops, key=lambda op: -(op.forward + op.backward))[:_SHOWN]
        title = f"The {len(ops)} longest of {len(cost.ops)} ops (--detail ops shows all)"
    columns = (
        Column("name", lambda op: op.name[-28:] or "-"),
        Column("op", lambda op: op.op[-28:]),
        Column("result", lambda op: op.shape.replace(" ", ""), drop=1),
        Column("FLOP", "flops", lambda flops: format_quantity(flops, "", digits=3)),
        Column("bytes", "", "B", digits=3),
        Column("forward", "", "s", digits=3),
        Column("backward", "", "s", digits=3),
        Column("light", "", ":.0%"),
        Column("of", lambda op: {"arithmetic": "math", "memory": "bytes"}[op.bound]),
        *([] if cost.cut is None else [Column("device", "part", ":d")]),
    )
    yield from (bold(title), Rows(Table(*columns), ops))


def _cut_report(cut: Cut) -> Iterator[Block]:
    yield ""
    yield bold(
        f"Cut over {cut.devices} devices: {format_quantity(cut.bytes, 'B')} sent forward in {cut.tensors} tensors "
        f"(as much comes back as gradients), the fullest device {cut.balance - 1:+.1%} over the mean "
        f"({cut.tolerance:.1%} allowed)"
    )
    both_ways = "Tensors go both ways between devices: no pipeline."
    yield "The devices form a pipeline." if cut.pipeline else both_ways
    yield Rows(_PARTS, list(enumerate(cut.parts)))


def _placement(placement: TablePlacement, detail: str) -> Iterator[Block]:
    """The places of embedding tables, and what they add to a step."""
    seconds, forward, backward, sent, fetched, shared = (
        format_quantity(value, "s")
        for value in (
            placement.seconds, placement.forward, placement.backward, placement.sent, placement.fetched, placement.shared,
        )
    )  # fmt: skip
    least, most = (format_quantity(value, "B") for value in (placement.least, placement.most))
    yield ""
    yield bold(
        f"{len(placement.tables)} embedding tables, {format_quantity(placement.bytes, 'B')}, add {seconds} to a step"
    )
    yield dim(
        f"{placement.name}; {placement.lookups:g} lookups a sample; {least} to {most} on a GPU with optimizer states"
    )
    yield (
        f"Lookups {forward}, updates {backward}, exchange {sent}, fetched late {fetched}, replicated rows {shared}; "
        f"no placement is below {format_quantity(placement.bound, 's')}"
    )
    if placement.plain is not None:
        yield f"Whole tables on single GPUs add {format_quantity(placement.plain, 's')}"
    tables = sorted(placement.tables, key=lambda table: -table.seconds)
    shown = tables if detail == "ops" else tables[:_SHOWN]
    if len(shown) < len(tables):
        yield dim(f"The {len(shown)} that take longest (--detail ops shows all)")
    yield Rows(_PLACED, shown)


def _replicas(replicas: DataParallel, *, is_placed: bool) -> Iterator[Block]:
    rate = replicas.samples_per_second
    step, reduce, exposed, tables = (
        format_quantity(seconds, "s")
        for seconds in (replicas.step_time, replicas.reduce, replicas.exposed, replicas.tables)
    )
    yield bold(
        f"{step} a step on {replicas.gpus:,} GPUs: {rate:,.{0 if rate >= 1000 else 3}f} samples/s, "
        f"{replicas.efficiency:.1%} of as many lone ones"
    )
    yield (
        f"{format_quantity(replicas.bytes, 'B')} of gradients in {replicas.buckets} buckets: {reduce} of all-reduce, "
        f"{exposed} of it not hidden"
    )
    if replicas.tables and not is_placed:
        yield f"Tables are divided over the GPUs: {tables} of exchanging their rows"
