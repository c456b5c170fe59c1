"""Predictions and rankings as tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from podsim.units import format_quantity

if TYPE_CHECKING:
    from rich.console import Console

    from podsim.prediction import OpReport, PlanResult, Prediction

__all__ = ["print_plans", "print_prediction"]

_PARTS = {
    "compute": "matrix arithmetic and attention",
    "memory": "memory-bound kernels",
    "launch": "launch-bound (GPU waits for the host)",
    "tp": "exposed tensor-parallel communication",
    "cp": "exposed context-parallel communication",
    "ep": "exposed expert-parallel communication",
    "pp": "pipeline sends",
    "dp": "exposed data-parallel communication",
    "bubble": "pipeline bubble",
    "optimizer": "optimizer",
    "host": "host work around passes and steps",
}


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False)


def layout(plan: Mapping[str, object]) -> str:
    """The plan in a line: what differs from the plainest one."""
    words = [f"tp={plan['tp']} pp={plan['pp']} dp={plan['dp']}"]
    words += [f"{name}={plan[name]}" for name in ("cp", "ep") if plan[name] != 1]
    words.append(f"micro-batch={plan['micro_batch']}")
    if plan["pp"] != 1:
        chunks = f" x{plan['virtual_stages']}" if plan["virtual_stages"] != 1 else ""
        words.append(f"{plan['schedule']}{chunks}")
    if plan["sequence_parallel"]:
        words.append("SP")
    if plan["zero"]:
        words.append(f"ZeRO-{plan['zero']}" + (f" over {plan['shard']}" if plan["shard"] else ""))
    kind = str(plan["recompute"])
    some = f" of {plan['recompute_layers']} layers a stage" if plan["recompute_layers"] else ""
    words.append("no recomputation" if kind == "none" else f"{kind} recomputation{some}")
    words.append("flash attention" if plan["flash"] else "unfused attention")
    hidden = [name.removeprefix("overlap_") for name in ("overlap_grad", "overlap_param", "overlap_tp") if plan[name]]
    if hidden:
        words.append("overlaps " + "+".join(hidden))
    return ", ".join(words)


def print_prediction(prediction: Prediction) -> None:
    """Print one prediction on a screen."""
    from rich.text import Text

    console = _console()
    console.print(Text(f"{prediction.model} on {prediction.gpus} GPUs of {prediction.cluster}", style="bold"))
    console.print(Text(layout(prediction.plan)))
    console.print()
    _print_rates(console, prediction)
    _print_parts(console, prediction)
    _print_memory(console, prediction)
    console.print(Text(f"Bottleneck: {prediction.bottleneck}."))
    if prediction.gains:
        told = ", ".join(f"{name} {gain:+.1%}" for name, gain in prediction.gains.items())
        console.print(Text(f"10 % more of a resource would change throughput by: {told}"))
    _print_doubts(console, prediction)
    if prediction.ops:
        _print_ops(console, prediction.ops)


def _print_rates(console: Console, one: Prediction) -> None:
    from rich.text import Text

    text = Text()
    text.append(f"{format_quantity(one.step_time, 's')} a step", style="bold")
    if one.band is not None:
        text.append(f"  (band {one.band.low:+.0%} to {one.band.high:+.0%}: {one.band.basis})")
    elif one.band_reason:
        text.append(f"  (no error band: {one.band_reason})")
    text.append(f"\n{one.tokens_per_second:,.0f} tokens/s, {one.samples_per_second:,.2f} sequences/s")
    text.append(
        f"\nMFU {one.mfu_6pd:.1%} (6 x parameters x tokens), {one.mfu:.1%} (attention counted); "
        f"HFU {one.hfu:.1%} (recomputation counted)"
    )
    console.print(text)


def _print_parts(console: Console, one: Prediction) -> None:
    from rich.table import Table

    table = Table(title="Where the step goes", title_justify="left", box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    for name, seconds in sorted(one.parts.items(), key=lambda part: -part[1]):
        if seconds > 0:
            share = seconds / one.step_time
            table.add_row(_PARTS.get(name, name), format_quantity(seconds, "s"), f"{share:.1%}", "▇" * round(30 * share))
    console.print(table)


def _print_memory(console: Console, one: Prediction) -> None:
    from rich.table import Table
    from rich.text import Text

    verdict = "fits in" if one.fits else "DOES NOT FIT in"
    title = f"Memory: {format_quantity(one.memory, 'B')} on the fullest stage, {verdict} {format_quantity(one.memory_limit, 'B')}"
    names = [name for name in one.memory_kinds if any(stage.kinds[name] > 0 for stage in one.stages)]
    table = Table(title=Text(title), title_justify="left", box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("stage", no_wrap=True)
    for name in (*names, "total"):
        table.add_column(name, justify="right", no_wrap=True)
    for stage in one.stages:
        where = f"{stage.first}" if stage.count == 1 else f"{stage.first} (of {stage.count})"
        cells = [f"{stage.kinds[name] / 1e9:.2f}" for name in names]
        table.add_row(where, *cells, f"{stage.total / 1e9:.2f} GB")
    console.print(table)


def _print_doubts(console: Console, one: Prediction) -> None:
    from rich.text import Text

    for warning in one.warnings:
        console.print(Text(f"Warning: {warning}", style="yellow"))
    if one.assumptions:
        console.print(Text("Assumptions:", style="dim"))
        for said in one.assumptions:
            console.print(Text(f"  - {said}", style="dim"))


def _print_ops(console: Console, ops: tuple[OpReport, ...]) -> None:
    from rich.table import Table

    table = Table(
        title="Ops, one micro-batch on one rank (speed of light: data-sheet peaks)",
        title_justify="left", box=None, padding=(0, 2, 0, 0), header_style="bold",
    )  # fmt: skip
    for name, justify in (("op", "left"), ("layers", "right"), ("shape", "left"), ("forward", "right"),
                          ("backward", "right"), ("of light", "right"), ("bound", "left"), ("source", "left")):  # fmt: skip
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for op in ops:
        table.add_row(
            f"{op.block}.{op.name}", str(op.copies), op.shape, format_quantity(op.forward, "s", digits=3),
            format_quantity(op.backward, "s", digits=3), f"{op.light:.0%}", op.bound, op.source,
        )  # fmt: skip
    console.print(table)


def print_plans(result: PlanResult) -> None:
    """Print a ranking on a screen: the first in full, the others against it."""
    from rich.table import Table
    from rich.text import Text

    console = _console()
    partly = "" if result.complete else " (interrupted: the best so far)"
    console.print(
        Text(
            f"{result.model} on {result.gpus} GPUs of {result.cluster}, {result.batch} sequences of "
            f"{result.sequence} tokens a step\n{result.evaluated:,} plans evaluated in {result.seconds:.1f} s{partly}, "
            f"{result.fitting:,} fit"
        )
    )
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name, justify in (("", "right"), ("step", "right"), ("tokens/s", "right"), ("MFU", "right"),
                          ("memory", "right"), ("plan and reason", "left")):  # fmt: skip
        table.add_column(name, justify=justify, no_wrap=justify == "right", overflow="fold")  # type: ignore[arg-type]
    for ranked in result.ranked:
        one = ranked.prediction
        body = Text(layout(one.plan), style="bold" if ranked.rank == 1 else "")
        body.append(f"\n{ranked.reason}", style="dim")
        table.add_row(
            str(ranked.rank), format_quantity(one.step_time, "s"), f"{one.tokens_per_second:,.0f}", f"{one.mfu:.1%}",
            f"{one.memory / 1e9:.1f} GB", body,
        )  # fmt: skip
    console.print(table)
    if result.pareto:
        fast, small = result.pareto[0], result.pareto[-1]
        console.print(
            f"Pareto front of memory against time: {len(result.pareto)} plans, from {format_quantity(fast.step_time, 's')} "
            f"at {fast.memory / 1e9:.1f} GB to {format_quantity(small.step_time, 's')} at {small.memory / 1e9:.1f} GB"
        )
    if result.cut:
        worst = sorted(result.cut.items(), key=lambda item: -item[1])[:6]
        told = ", ".join(f"{reason} {number:,}" for reason, number in worst)
        console.print(Text(f"Cut before evaluation: {told}", style="dim"))
    console.print()
    console.print(Text("The first plan", style="bold"))
    print_prediction(result.ranked[0].prediction)
