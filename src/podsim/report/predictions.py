"""Predictions and rankings as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from podsim.report.expenses import print_expense, print_trade
from podsim.report.figures import days, duration
from podsim.report.table import Table, console, paragraph
from podsim.results.prediction import PARTS, OpReport, PlanResult, Prediction, TrainingTime
from podsim.units import format_quantity

_DAY = 86400.0
_BAR = 30
"""columns of the bar of a whole step"""


def layout(plan: Mapping[str, object]) -> str:
    """The plan in a line: what differs from the plainest one."""
    degrees = ["tp", "pp", "dp", *(name for name in ("cp", "ep") if plan[name] != 1)]
    words = [" ".join(f"{name}={plan[name]}" for name in degrees)]
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
    hidden = [
        name.removeprefix("overlap_")
        for name in ("overlap_grad", "overlap_param", "overlap_tp")
        if plan[name]
    ]
    if hidden:
        words.append("overlaps " + "+".join(hidden))
    return ", ".join(words)


def _say(text: str, *, style: str = "", indent: str = "", first: str | None = None) -> None:
    """Print a paragraph that fits the terminal."""
    from rich.text import Text

    out = console()
    for line in paragraph(text, out.width, indent=indent, first=first):
        out.print(Text(line, style=style))


def _print_lines(lines: Iterable[tuple[str, str]], *, header: bool = False) -> None:
    from rich.text import Text

    out = console()
    for place, (columns, note) in enumerate(lines):
        out.print(Text(columns, style="bold" if header and place == 0 else "").append(note, style="dim"))


def _title(model: str, gpus: int, cluster: str) -> str:
    return f"{model} on {gpus} GPUs of {cluster.removesuffix(f' ({gpus} GPUs)')}"


def print_prediction(prediction: Prediction) -> None:
    """Print one prediction on a screen."""
    _say(_title(prediction.model, prediction.gpus, prediction.cluster), style="bold")
    _print_body(prediction)


def _print_body(one: Prediction) -> None:
    _say(layout(one.plan))
    print()
    _print_rates(one)
    print()
    _print_parts(one)
    print()
    _print_memory(one)
    print()
    _say(f"Bottleneck: {one.bottleneck}.")
    if one.gains:
        told = ", ".join(f"{name} {gain:+.1%}" for name, gain in one.gains.items())
        _say(f"Throughput gained by 10 % more of a resource: {told}")
    for warning in one.warnings:
        _say(f"Warning: {warning}", style="yellow")
    if one.expense is not None:
        print_expense(one.expense)
    if one.ops:
        print()
        _print_ops(one.ops)
    if one.assumptions:
        print()
        _say("Assumptions", style="dim")
        for said in one.assumptions:
            _say(said, style="dim", first="  - ", indent="    ")


def _print_rates(one: Prediction) -> None:
    _say(
        f"{format_quantity(one.step_time, 's')} a step: {one.tokens_per_second:,.0f} tokens/s, "
        f"{one.samples_per_second:,.2f} sequences/s",
        style="bold",
    )
    if one.band is not None:
        low, high = one.step_time * (1 + one.band.low), one.step_time * (1 + one.band.high)
        _say(
            f"Error band {format_quantity(low, 's')} to {format_quantity(high, 's')} ({one.band.low:+.0%} to "
            f"{one.band.high:+.0%}): {one.band.basis}"
        )
    elif one.band_reason:
        _say(f"No error band: {one.band_reason}")
    _say(
        f"MFU {one.mfu_6pd:.1%} (6 x parameters x tokens), {one.mfu:.1%} (attention counted); "
        f"HFU {one.hfu:.1%} (recomputation counted)"
    )
    if one.training is not None:
        _print_training(one.training)


def _print_training(run: TrainingTime) -> None:
    _say(
        f"{format_quantity(run.tokens, '')} tokens in {run.steps:,} steps: {days(run.seconds)} without failures, "
        f"{days(run.expected)} with them",
        style="bold",
    )
    _say(
        f"A failure every {duration(run.mtbf)}, {duration(run.restart)} to restart, a checkpoint of "
        f"{duration(run.stall)} every {duration(run.interval)}; {run.basis}"
    )


def _print_parts(one: Prediction) -> None:
    _say("Where the step goes", style="bold")
    table = Table("lrrl")
    bar = min(_BAR, console().width - 60)
    for name, seconds in sorted(one.parts.items(), key=lambda part: -part[1]):
        share = seconds / one.step_time
        if share >= 5e-5:
            table.add(PARTS[name], format_quantity(seconds, "s"), f"{share:.1%}", "▇" * round(bar * share))
    if not table.fits(console().width):
        table = table.without(3)
    _print_lines(table.lines(console().width))


def _print_memory(one: Prediction) -> None:
    verdict = "fits in" if one.fits else "DOES NOT FIT in"
    need, room = format_quantity(one.memory, "B"), format_quantity(one.memory_limit, "B")
    _say(f"Memory: {need} on the fullest stage, {verdict} {room}", style="bold" if one.fits else "bold red")
    names = [name for name in one.memory_kinds if any(stage.kinds[name] > 0 for stage in one.stages)]
    across = Table("l" + "r" * (len(names) + 1), header=("stage, GB", *names, "total"))
    for stage in one.stages:
        cells = [f"{stage.kinds[name] / 1e9:.2f}" for name in names]
        across.add(_stages(stage.first, stage.count), *cells, f"{stage.total / 1e9:.2f}")
    if across.fits(console().width):
        _print_lines(across.lines(console().width), header=True)
        return
    down = Table(
        "l" + "r" * len(one.stages), header=("GB by stage", *(_stages(s.first, s.count) for s in one.stages))
    )
    for name in names:
        down.add(name, *(f"{stage.kinds[name] / 1e9:.2f}" for stage in one.stages))
    down.add("total", *(f"{stage.total / 1e9:.2f}" for stage in one.stages))
    _print_lines(down.lines(console().width), header=True)


def _stages(first: int, count: int) -> str:
    return str(first) if count == 1 else f"{first} to {first + count - 1}"


def _print_ops(ops: tuple[OpReport, ...]) -> None:
    _say(
        "Ops, one micro-batch on one rank; share of the speed of light at the data sheet's peaks",
        style="bold",
    )
    table = Table("llrrrlw", header=("op", "shape", "forward", "backward", "light", "of", "source"), indent=2)
    block = ""
    for op in ops:
        if op.block != block:
            block = op.block
            table.add(f"{op.copies} x {block}", *[""] * 6)
        source = op.source.replace("interpolated, ", "interp. ").replace(" octaves from a measurement", "")
        bound = {"arithmetic": "math", "memory": "bytes"}[op.bound]
        table.add(
            f" {op.name}", op.shape.replace(" heads x ", "h x "), format_quantity(op.forward, "s", digits=3),
            format_quantity(op.backward, "s", digits=3), f"{op.light:.0%}", bound, source,
        )  # fmt: skip
    if not table.fits(console().width - 20):
        table = table.without(5)
    _print_lines(table.lines(console().width), header=True)
    if any("interpolated" in op.source for op in ops):
        _say("interp. N: interpolated, N octaves from the nearest measured product", style="dim", indent="  ")


def _print_ranking(result: PlanResult) -> None:
    """One line of figures for each plan; below it the rest of the plan, and the reason."""
    from rich.text import Text

    header = ("", "step", "simulated", "tokens/s", "days", "MFU", "memory", "layout")
    table = Table("rrrrrrrl", header=header, indent=0)
    for ranked in result.ranked:
        one = ranked.prediction
        told = f"{one.training.expected / _DAY:,.2f}" if one.training else ""
        table.add(
            str(ranked.rank), format_quantity(one.step_time, "s"),
            format_quantity(ranked.simulated, "s") if ranked.simulated else "", f"{one.tokens_per_second:,.0f}", told,
            f"{one.mfu:.1%}", f"{one.memory / 1e9:.1f} GB", layout(one.plan).partition(", ")[0],
        )  # fmt: skip
    if not any(ranked.prediction.training for ranked in result.ranked):
        table = table.without(4)
    if not any(ranked.simulated for ranked in result.ranked):
        table = table.without(2)
    top, *lines = table.lines(console().width)
    _print_lines([top], header=True)
    for ranked, (columns, _) in zip(result.ranked, lines, strict=True):
        console().print(Text(columns, style="bold" if ranked.rank == 1 else ""))
        _say(layout(ranked.prediction.plan).partition(", ")[2], indent="     ")
        _say(f"{ranked.reason}.", style="dim", indent="     ")


def print_plans(result: PlanResult) -> None:
    """Print a ranking on a screen: the plans in order with their reasons, then the first in full."""
    partly = "" if result.complete else " (interrupted: the best so far)"
    _say(_title(result.model, result.gpus, result.cluster), style="bold")
    _say(f"{result.batch} sequences of {result.sequence} tokens a step")
    _say(f"{result.evaluated:,} plans evaluated in {result.seconds:.1f} s{partly}, {result.fitting:,} fit")
    print()
    _print_ranking(result)
    if result.pareto:
        fast, small = result.pareto[0], result.pareto[-1]
        print()
        _say(
            f"Pareto front of memory against time: {len(result.pareto)} plans, from "
            f"{format_quantity(fast.step_time, 's')} at {fast.memory / 1e9:.1f} GB to "
            f"{format_quantity(small.step_time, 's')} at {small.memory / 1e9:.1f} GB"
        )
    if result.trade is not None:
        print_trade(result.trade)
    if result.cut:
        worst = sorted(result.cut.items(), key=lambda item: -item[1])[:6]
        told = "; ".join(f"{reason} {number:,}" for reason, number in worst)
        _say(f"Cut before evaluation, by rule: {told}", style="dim")
    print()
    _say("The first plan", style="bold")
    _print_body(result.ranked[0].prediction)
