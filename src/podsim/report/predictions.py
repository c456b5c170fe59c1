"""Predictions of plans, and rankings of plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from podsim.answers.answer import Answer, call
from podsim.answers.prediction import (
    PARTS,
    OpReport,
    PlanResult,
    Prediction,
    Ranked,
    RunsCorrection,
    StageMemory,
    TrainingTime,
)
from podsim.report.columns import BAR, Column, Table, days
from podsim.report.expenses import expense_report, trade_report
from podsim.report.screen import Block, Paragraph, Rows, bold, dim, items, raw, warnings
from podsim.units import duration, format_quantity

if TYPE_CHECKING:
    from podsim.answers.scaling_answers import ScaleBest

_DAY = 86400.0
PARTS_TABLE = Table(
        Column("", "name"), Column("", "seconds", "s"), Column("", "share", ":.1%"), Column("", "share", BAR),
)  # fmt: skip
_OPS = Table(
    Column("op", lambda op: f" {op.name}"),
    Column("shape", lambda op: op.shape.replace(" heads x ", "h x ")),
    Column("forward", "", "s", digits=3),
    Column("backward", "", "s", digits=3),
    Column("light", "", ":.0%"),
    Column("of", lambda op: {"arithmetic": "math", "memory": "bytes"}[op.bound], drop=1),
    Column("source", lambda op: _short_source(op.source), wrap=True),
)
_RANKING = Table(
    Column("", "rank", ":d"),
    Column("step", "prediction.step_time", "s"),
    Column("simulated", "simulated", "s", optional=True),
    Column("tokens/s", "prediction.tokens_per_second", ":,.0f"),
    Column("days", "prediction.training.expected", lambda seconds: f"{seconds / _DAY:,.2f}", optional=True),
    Column("MFU", "prediction.mfu", ":.1%"),
    Column("memory", "prediction.memory", lambda size: f"{size / 1e9:.1f} GB"),
    Column("layout", lambda ranked: layout(ranked.prediction.plan).partition(", ")[0]),
    indent=0,
)


def plan_words(answer: ScaleBest) -> str:
    """The plan of the best network: the time of a step, its degrees, its utilisation and its money."""
    prediction, money = answer.prediction, answer.prediction.expense
    words = [
        f"{format_quantity(prediction.step_time, 's')} a step", layout(prediction.plan),
        f"MFU {prediction.mfu_6pd:.1%} ({prediction.parameter_flops:.3g} x parameters)",
    ]  # fmt: skip
    if money is not None and money.low:
        low, high = (format_quantity(end, "", digits=3) for end in (money.low, money.high))
        words.append(f"{low} USD to {high} USD")
    return "; ".join(words)


def layout(plan: Mapping[str, object]) -> str:
    """The degrees of a plan and its other choices, in a line."""
    degrees = ["tp", "pp", "dp", *(name for name in ("cp", "ep") if plan[name] != 1)]
    words = [" ".join(f"{name}={plan[name]}" for name in degrees)]
    words += [f"micro-batch={plan['micro_batch']}", *shared_choices(plan)]
    kind = str(plan["recompute"])
    some = f" of {plan['recompute_layers']} layers a stage" if plan["recompute_layers"] else ""
    words.append("no recomputation" if kind == "none" else f"{kind} recomputation{some}")
    words.append("flash attention" if plan["flash"] else "unfused attention")
    overlaps = [
        name.removeprefix("overlap_")
        for name in ("overlap_grad", "overlap_param", "overlap_tp")
        if plan[name]
    ]
    if overlaps:
        words.append("overlaps " + "+".join(overlaps))
    return ", ".join(words)


def shared_choices(plan: Mapping[str, object]) -> list[str]:
    """The schedule of a pipeline, sequence parallelism and ZeRO, as far as the plan has them."""
    words = []
    if plan["pp"] != 1:
        chunks = f" x{plan['virtual_stages']}" if plan["virtual_stages"] != 1 else ""
        words.append(f"{plan['schedule']}{chunks}")
    if plan["sequence_parallel"]:
        words.append("SP")
    if plan["zero"]:
        words.append(f"ZeRO-{plan['zero']}" + (f" over {plan['shard']}" if plan["shard"] else ""))
    return words


def cluster_name(cluster: str, gpus: int) -> str:
    """A cluster's name without the number of its GPUs."""
    return cluster.removesuffix(f" ({gpus} GPU{'s' * (gpus > 1)})")


def prediction_report(prediction: Prediction) -> Iterator[Block]:
    """One plan: its rates, the parts of the step, memory, and assumptions."""
    yield bold(_title(prediction))
    yield from map(dim, prediction.notes)
    yield from _plan_report(prediction)


def _title(result: Prediction | PlanResult) -> str:
    return f"{result.model} on {result.gpus} GPUs of {cluster_name(result.cluster, result.gpus)}"


def _plan_report(prediction: Prediction) -> Iterator[Block]:
    yield from (layout(prediction.plan), "")
    yield from _rates(prediction)
    yield from ("", bold("Where the step goes"), part_rows(prediction.parts, prediction.step_time), "")
    yield from _memory(prediction)
    yield from ("", f"Bottleneck: {prediction.bottleneck}.")
    if prediction.gains:
        gains = ", ".join(f"{name} {gain:+.1%}" for name, gain in prediction.gains.items())
        yield f"Throughput gained by 10 % more of a resource: {gains}"
    yield from warnings(prediction.warnings)
    if prediction.expense is not None:
        yield from expense_report(prediction.expense)
    if prediction.ops:
        yield from _ops(prediction.ops)
    yield from items("Assumptions", prediction.assumptions)


def _rates(prediction: Prediction) -> Iterator[Block]:
    seconds, band = partial(format_quantity, unit="s"), prediction.band
    yield bold(
        f"{seconds(prediction.step_time)} a step: {prediction.tokens_per_second:,.0f} tokens/s, "
        f"{prediction.samples_per_second:,.2f} sequences/s"
    )
    if band is not None:
        low, high = (seconds(prediction.step_time * (1 + share)) for share in (band.low, band.high))
        yield f"Error band {low} to {high} ({band.low:+.0%} to {band.high:+.0%}): {band.basis}"
    yield (
        f"MFU {prediction.mfu_6pd:.1%} ({prediction.parameter_flops:.3g} x parameters x tokens), "
        f"{prediction.mfu:.1%} (attention counted); HFU {prediction.hfu:.1%} (recomputation counted)"
    )
    yield from _evidence(prediction)
    if prediction.training is not None:
        yield from _training(prediction.training)


def runs_words(own: RunsCorrection) -> str:
    """What the user's runs changed, in a line."""
    return (
        f"{own.runs} of yours; the law says {format_quantity(own.law_time, 's')}; compute takes {own.compute:.2f} times "
        f"its time, communication {own.communication:.2f}, host {own.host:.2f}; most by {own.moved}"
    )


def _evidence(prediction: Prediction) -> Iterator[Block]:
    """The nearest measured run, and what other calibrated software would make of the plan."""
    own, near = prediction.correction, prediction.nearest
    if own is not None:
        yield (
            f"Corrected by your measured step of {format_quantity(own.measured, 's')} ({own.plan}): {own.factor:.3f} "
            f"times the law with the constants of {own.software}"
        )
    if prediction.own_runs is not None:
        yield f"Measured runs: {runs_words(prediction.own_runs)}"
    if near is not None:
        layout = "".join(
            f", {name}={value}" for name, value in (("tp", near.tp), ("pp", near.pp)) if value > 1
        )
        yield (
            f"Nearest measured run: {near.id}, {near.framework} with {near.parameters / 1e9:.3g} B parameters on "
            f"{near.gpus} {near.architecture} GPUs{layout}, MFU {near.utilisation:.1%}; podsim is off by "
            f"{near.error:+.1%} on it (distance {near.distance:.1f}; 0 = same setup)"
        )
    if prediction.software_range:
        (fast, low), (slow, high) = (
            choose(prediction.software_range.items(), key=lambda item: item[1]) for choose in (min, max)
        )
        yield (
            f"Over {len(prediction.software_range)} calibrated software: "
            f"{format_quantity(low, 's')} ({fast}) to {format_quantity(high, 's')} ({slow})"
        )


def _training(run: TrainingTime) -> Iterator[Block]:
    yield bold(
        f"{format_quantity(run.tokens, '')} tokens in {run.steps:,} steps: {days(run.seconds)} without failures, "
        f"{days(run.expected)} with them"
    )
    yield (
        f"A failure every {duration(run.mtbf)}, {duration(run.restart)} to restart, a checkpoint of "
        f"{duration(run.stall)} every {duration(run.interval)}; {run.basis}"
    )


def part_rows(parts: Mapping[str, float], step_time: float) -> Rows:
    """The parts of a step, the longest first, without those below 0.005 %."""
    rows = [
        {"name": PARTS.get(name, name), "seconds": seconds, "share": seconds / step_time}
        for name, seconds in sorted(parts.items(), key=lambda part: -part[1])
        if seconds / step_time >= 5e-5
    ]
    return Rows(PARTS_TABLE, rows)


def _memory(prediction: Prediction) -> Iterator[Block]:
    """Memory by kind and stage: a line for each stage, or for each kind where that is too wide."""
    verdict = "fits in" if prediction.fits else "DOES NOT FIT in"
    need, room = (format_quantity(size, "B") for size in (prediction.memory, prediction.memory_limit))
    yield Paragraph(
        f"Memory: {need} on the fullest stage, {verdict} {room}", "bold" if prediction.fits else "alarm"
    )
    stages = prediction.stages
    names = [name for name in prediction.memory_kinds if any(stage.kinds[name] > 0 for stage in stages)]
    across = (
        Column("stage, GB", _stage_name),
        *(_gigabytes(n, f"kinds.{n}") for n in names),
        _gigabytes("total", "total"),
    )
    down = (Column("GB by stage", "0"), *(_gigabytes(_stage_name(s), f"1.{k}") for k, s in enumerate(stages)))
    kinds = [(name, [stage.kinds[name] for stage in stages]) for name in names]
    kinds.append(("total", [stage.total for stage in stages]))
    yield Rows(Table(*across), stages, otherwise=Rows(Table(*down), kinds))


def _gigabytes(heading: str, path: str) -> Column:
    return Column(heading, path, lambda size: f"{size / 1e9:.2f}")


def _stage_name(stage: StageMemory) -> str:
    return str(stage.first) if stage.count == 1 else f"{stage.first} to {stage.first + stage.count - 1}"


def _short_source(source: str) -> str:
    return source.replace("interpolated, ", "interp. ").replace(" octaves from a measurement", "")


def _ops(ops: tuple[OpReport, ...]) -> Iterator[Block]:
    yield from (
        "",
        bold("Ops, one micro-batch on one rank; share of the roofline at the data sheet's peaks"),
    )
    rows: list[OpReport | Paragraph] = []
    block = ""
    for op in ops:
        if op.block != block:
            block = op.block
            rows.append(raw(f"{op.copies} x {block}", indent="  "))
        rows.append(op)
    yield Rows(_OPS, rows)
    if any("interpolated" in op.source for op in ops):
        yield Paragraph(
            "interp. N: interpolated, N octaves from the nearest measured product", "dim", indent="  "
        )


def plans_report(result: Answer) -> Iterator[Block]:
    """A ranking: the plans in order with their reasons, then the first in full; or the runs of a benchmark."""
    if not isinstance(result, PlanResult):
        yield from call(result.view.report, result)
        return
    partly = "" if result.complete else " (interrupted: the best so far)"
    yield from (bold(_title(result)), *map(dim, result.notes))
    yield f"{result.batch} sequences of {result.sequence} tokens a step"
    yield f"{result.evaluated:,} plans evaluated in {result.seconds:.1f} s{partly}, {result.fitting:,} fit"
    if result.optimism:
        yield Paragraph(f"{result.optimism.basis}.")
    yield from ("", _ranking(result))
    if result.pareto:
        fast, small = (
            f"{format_quantity(point.step_time, 's')} at {point.memory / 1e9:.1f} GB"
            for point in (result.pareto[0], result.pareto[-1])
        )
        yield from (
            "",
            f"Pareto front of memory against time: {len(result.pareto)} plans, from {fast} to {small}",
        )
    if result.trade is not None:
        yield from trade_report(result.trade)
    if result.cut:
        worst = sorted(result.cut.items(), key=lambda item: -item[1])[:6]
        yield dim(
            "Cut before evaluation, by rule: " + "; ".join(f"{reason} {count:,}" for reason, count in worst)
        )
    yield from ("", bold("The first plan"))
    yield from _plan_report(result.ranked[0].prediction)


def _beyond(prediction: Prediction) -> Iterator[Paragraph]:
    """The mark of a plan that would be faster than every comparable measured run."""
    if run := prediction.faster_than:
        text = f"{run.ratio - 1:.0%} faster than the best of {run.rows} comparable measured runs, {run.id}"
        yield Paragraph(text, "warning", indent=" " * 5)


def _ranking(result: PlanResult) -> Rows:
    """Figures of each plan; below them the rest of the plan, and the reason."""
    rows: list[Ranked | Paragraph] = []
    for ranked in result.ranked:
        rows += [
            ranked,
            Paragraph(layout(ranked.prediction.plan).partition(", ")[2], indent=" " * 5),
            *_beyond(ranked.prediction),
            Paragraph(f"{ranked.reason}.", "dim", indent=" " * 5),
        ]
    return Rows(_RANKING, rows, marked=0)
