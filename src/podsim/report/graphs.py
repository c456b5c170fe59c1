"""Captured graphs, their costs and execution traces as tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from podsim.report.table import Table, console, paragraph
from podsim.results.graphs import Captured, Cut, GraphCost, TraceFile, Traces
from podsim.units import format_quantity

_SHOWN = 12
_BAR = 30


def _say(text: str, *, style: str = "", indent: str = "", first: str | None = None) -> None:
    from rich.text import Text

    out = console()
    for line in paragraph(text, out.width, indent=indent, first=first):
        out.print(Text(line, style=style))


def _show(table: Table) -> None:
    from rich.text import Text

    out = console()
    for place, (columns, note) in enumerate(table.lines(out.width)):
        out.print(
            Text(columns, style="bold" if table.header and place == 0 else "").append(note, style="dim")
        )


def _notes(notes: tuple[str, ...]) -> None:
    for note in notes:
        _say(note, style="dim", first="Note: ", indent="  ")


def _counted(values: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in values.items())


def print_captured(one: Captured) -> None:
    """Print a capture on a screen."""
    _say(
        f"{one.model}: {one.ops} ops, {one.parameters:,.0f} parameters, {one.batch} samples a step",
        style="bold",
    )
    _say(f"Ops: {_counted(one.kinds)}")
    table = Table("lrr", header=("arithmetic", "forward", "backward"))
    table.add("podsim", f"{one.flops:,.0f} FLOP", f"{one.flops_back:,.0f} FLOP")
    if one.torch_flops is not None and one.torch_flops_back is not None:
        table.add("torch's counter", f"{one.torch_flops:,.0f} FLOP", f"{one.torch_flops_back:,.0f} FLOP")
    _show(table)
    _say(f"Kept for the backward pass: {format_quantity(one.kept, 'B')}, in the number format of the capture")
    _notes(one.notes)
    if one.file:
        _say(f"Written: {one.file}")


def print_graph(one: GraphCost, *, detail: str = "") -> None:
    """Print the cost of a graph on a screen: the step, where it goes, the longest ops or all, the cut."""
    _say(f"{one.model}, {one.batch} samples, on one {one.gpu} in {one.precision}", style="bold")
    _say(one.source, style="dim")
    print()
    _say(
        f"{format_quantity(one.step_time, 's')} a step: {one.samples_per_second:,.4g} samples/s, "
        f"{one.utilisation:.1%} of the peak",
        style="bold",
    )
    _say(
        f"Forward {format_quantity(one.forward, 's')}, backward {format_quantity(one.backward, 's')}, "
        f"{one.optimizer} update {format_quantity(one.update, 's')}; the GPU waits {format_quantity(one.host, 's')} "
        f"for the host, and {format_quantity(one.host_step, 's')} between steps"
    )
    _say(
        f"{format_quantity(one.flops, 'FLOP')} forward, {format_quantity(one.flops_back, 'FLOP')} backward, "
        f"{one.parameters:,.0f} parameters, {format_quantity(one.kept, 'B')} of activations"
    )
    print()
    _say("Where the GPU's time goes", style="bold")
    total = sum(one.kinds.values()) or 1.0
    table = Table("lrrl")
    for kind, seconds in one.kinds.items():
        share = seconds / total
        table.add(kind, format_quantity(seconds, "s"), f"{share:.1%}", "▇" * round(_BAR * share))
    _show(table)
    print()
    _print_ops(one, detail)
    if one.cut is not None:
        print()
        _print_cut(one.cut)
    if one.data_parallel is not None:
        print()
        _print_replicas(one)
    _print_played(one)
    _print_band(one)
    _notes(one.notes)


def _print_played(one: GraphCost) -> None:
    """The played step against the closed form."""
    if one.simulated is None:
        return
    print()
    step = one.step_time if one.data_parallel is None else one.data_parallel.step_time
    if one.cut is not None:
        _say(
            f"Played on {one.cut.devices} devices, one batch at a time: {format_quantity(one.simulated, 's')} a step, "
            f"{one.simulated / one.step_time:.2f} times as long as on one"
        )
        return
    _say(
        f"Played: {format_quantity(one.simulated, 's')} a step, {one.simulated / step - 1:+.1%} by simulation"
    )


def _print_band(one: GraphCost) -> None:
    print()
    if one.band is None:
        _say(f"No error band: {one.band_reason}")
        return
    whole = one.data_parallel
    step = one.step_time if whole is None else whole.step_time
    low, high = (format_quantity(step * (1 + share), "s") for share in (one.band.low, one.band.high))
    on = "" if whole is None else f" on {whole.gpus} GPUs"
    _say(
        f"Error band of the step{on} {low} to {high} ({one.band.low:+.0%} to {one.band.high:+.0%}): {one.band.basis}"
    )


def _print_ops(one: GraphCost, detail: str) -> None:
    every = detail == "ops" or len(one.ops) <= _SHOWN
    ops = list(one.ops) if every else sorted(one.ops, key=lambda op: -(op.forward + op.backward))[:_SHOWN]
    _say(
        "Ops" if every else f"The {len(ops)} longest of {len(one.ops)} ops (--detail ops shows all)",
        style="bold",
    )
    header = ("name", "op", "result", "FLOP", "bytes", "forward", "backward", "light", "of", "device")
    table = Table("lllrrrrrlr", header=header)
    for op in ops:
        table.add(
            op.name[-28:] or "-", op.op[-28:], op.shape.replace(" ", ""), format_quantity(op.flops, "", digits=3),
            format_quantity(op.bytes, "B", digits=3), format_quantity(op.forward, "s", digits=3),
            format_quantity(op.backward, "s", digits=3), f"{op.light:.0%}",
            {"arithmetic": "math", "memory": "bytes"}[op.bound], str(op.part),
        )  # fmt: skip
    if one.cut is None:
        table = table.without(9)
    _show(table if table.fits(console().width) else table.without(2))


def _print_cut(cut: Cut) -> None:
    _say(
        f"Cut over {cut.devices} devices: {format_quantity(cut.bytes, 'B')} sent forward in {cut.tensors} tensors "
        f"(as much comes back as gradients), the fullest device {cut.balance - 1:+.1%} over the mean "
        f"({cut.tolerance:.1%} allowed)",
        style="bold",
    )
    _say(
        "The devices form a pipeline."
        if cut.pipeline
        else "Tensors go both ways between devices: no pipeline."
    )
    table = Table("rrrrrr", header=("device", "ops", "both passes", "parameters", "activations", "sent"))
    for place, part in enumerate(cut.parts):
        table.add(
            str(place), str(part.ops), format_quantity(part.seconds, "s"), f"{part.parameters:,.0f}",
            format_quantity(part.kept, "B"), format_quantity(part.sent, "B"),
        )  # fmt: skip
    _show(table)


def _print_replicas(one: GraphCost) -> None:
    made = one.data_parallel
    assert made is not None
    _say(
        f"{made.gpus} replicas: {format_quantity(made.step_time, 's')} a step, {made.samples_per_second:,.5g} samples/s, "
        f"{made.efficiency:.1%} of {made.gpus} lone GPUs",
        style="bold",
    )
    _say(
        f"{format_quantity(made.bytes, 'B')} of gradients in {made.buckets} buckets: "
        f"{format_quantity(made.reduce, 's')} of all-reduce, {format_quantity(made.exposed, 's')} of it not hidden"
    )
    if made.tables:
        _say(
            f"Tables are divided over the GPUs: {format_quantity(made.tables, 's')} of exchanging their rows"
        )


def print_traces(traces: Traces) -> None:
    """Print what Chakra files hold, what had to be mended, and what was written."""
    for place, one in enumerate(traces.files):
        if place:
            print()
        _print_trace(one)
    for path in traces.written:
        _say(f"Written: {path}")


def _print_trace(one: TraceFile) -> None:
    rank = "" if one.rank < 0 else f", rank {one.rank}"
    _say(f"{one.file}{rank}: {one.nodes:,} nodes, schema {one.version or 'not stated'}", style="bold")
    _say(f"{one.ops:,} ops left ({_counted(one.kinds) or 'none'}), {one.edges:,} dependencies")
    if one.collectives:
        _say(
            f"Collectives: {_counted(one.collectives)}; {format_quantity(one.communicated, 'B')} of messages"
        )
    _say(
        f"{format_quantity(one.seconds, 's')} in all ops, {format_quantity(one.critical, 's')} on the longest chain, "
        f"{format_quantity(one.flops, 'FLOP')}"
    )
    mended = (
        (one.dangling, "dependencies on nodes that are not there, dropped"),
        (one.doubled, "nodes with the id of another, dropped"),
        (one.ignored, "communication nodes of the CPU, ignored"),
        (one.cyclic, "dependencies that closed a cycle, dropped"),
        (one.ordered, "dependencies added to keep the order of each stream"),
    )
    for number, said in mended:
        if number:
            _say(f"{number:,} {said}", style="yellow", first="  ", indent="    ")
    if one.truncated:
        _say(
            "the file ends inside a node: what stands before it was read",
            style="yellow",
            first="  ",
            indent="    ",
        )
