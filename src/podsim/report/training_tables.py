"""Training runs of the lab, and predictions next to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from podsim.answers.trained import (
    ComparedDdp,
    ComparedTraining,
    MeasuredDdp,
    MeasuredTables,
    MeasuredTraining,
)
from podsim.report.collectives import links_text
from podsim.report.columns import Column, Table, percent, signed_percent
from podsim.report.precision_tables import precision_report
from podsim.report.screen import Block, Paragraph, Rows, raw
from podsim.report.trained_texts import accuracy_text
from podsim.units import format_quantity, short_seconds

_EXCHANGES = {"ps": "a parameter server, in step", "async": "a parameter server, nobody waits"}
_OUTER = {"local": "the mean of the weights", "diloco": "an outer step of the weights (DiLoCo)"}
_SHOWN = 12
"""The number of printed steps of a long run."""
_PAIRS = Table(indent=0, columns=(Column("", "0"), Column("", "1", align="r")))


def layout_text(plan: Mapping[str, Any]) -> str:
    """The degrees of a plan in words, "dp 2, tp 2, pp 2 (1f1b, 4 micro-batches)"."""
    words = [f"{name} {plan[name]}" for name in ("dp", "tp", "pp") if plan[name] != 1] or ["one process"]
    if plan["pp"] != 1:
        count = int(plan["global_batch"]) // (int(plan["dp"]) * int(plan["micro_batch"]))
        words[-1] += f" ({plan['schedule']}, {count} micro-batches)"
    words += [f"ZeRO {plan['zero']}"] if plan["zero"] else []
    words += ["sequence parallel"] if plan["sequence_parallel"] else []
    return ", ".join(words)


def run_name(run: MeasuredTraining) -> str:
    """A run in short: its layout, and how gradients are exchanged if not by an all-reduce."""
    way = {"bsp": "", "ssp": f", ssp {run.staleness}"}.get(run.exchange, f", {run.exchange}")
    return layout_text(run.plan) + way


def _exchange_text(run: MeasuredTraining) -> str:
    if run.exchange == "ssp":
        return f"a parameter server, staleness {run.staleness} at most"
    if run.exchange in _OUTER:
        return f"{_OUTER[run.exchange]} after every {run.local_steps} steps"
    if run.exchange != "bsp":
        return _EXCHANGES[run.exchange]
    return "" if run.plan["dp"] == 1 or int(run.plan["zero"]) > 1 else f"all-reduce: {run.all_reduce}"


def training_report(
    run: MeasuredTraining, others: Mapping[str, MeasuredTraining] | None = None
) -> Iterator[Block]:
    """A run: its layout, some steps and its speed; then how its losses differ from those of other runs, by file name."""
    yield f"{run.model} on {run.ranks} rank{'s' * (run.ranks > 1)}: {layout_text(run.plan)}"
    texts = [
        f"{run.plan['global_batch']} samples a step",
        f"data {run.data}",
        f"seed {run.seed}",
        _exchange_text(run),
    ]
    yield Paragraph(", ".join(text for text in texts if text), indent="  ")
    yield Paragraph(f"{run.backend} on {run.device}, {run.software}", indent="  ")
    if run.resumed:
        yield Paragraph(f"resumed after {', '.join(map(str, run.resumed))} steps", indent="  ")
    columns = (Column("step", "", ":d"), Column("loss", "", ":.5f"), Column("time", "seconds", short_seconds))
    count = len(run.rows)
    some = sorted({round(index * (count - 1) / (_SHOWN - 1)) for index in range(_SHOWN)})
    shown = range(count) if count <= _SHOWN else some
    yield from ("", Rows(Table(columns=columns), [run.rows[index] for index in shown]), "")
    tokens = f", {format_quantity(run.samples * run.sequence, 'token/s', digits=3)}" if run.sequence else ""
    yield (
        f"{short_seconds(run.step_time)} a step (median), {run.samples:,.1f} samples/s{tokens}; processors: "
        f"{_processors(run)}"
    )
    if run.bubble is not None:
        yield f"bubble ratio {percent(run.bubble)}: the time that ranks waited over that of their passes"
    if run.late:
        mean = sum(int(key) * count for key, count in run.late.items()) / sum(run.late.values())
        yield f"gradients were {mean:.2f} updates late in the mean, {max(map(int, run.late))} at most"
    yield from precision_report(run)
    if run.accuracy:
        yield Paragraph(accuracy_text(run))
    if run.routing:
        yield (
            f"Experts: the busiest got {run.routing['imbalance']:.3g} times the mean number of tokens; "
            f"{run.routing['dropped']:.2%} of tokens were dropped"
        )
    if run.noise:
        yield Paragraph(run.noise)
    if run.train != "full":
        yield from (Paragraph(text) for text in _tuned(run))
    for name, other in (others or {}).items():
        pairs = list(zip(run.rows, other.rows, strict=False))
        most = max(abs(mine.loss / theirs.loss - 1.0) for mine, theirs in pairs)
        yield raw(
            f"losses of {len(pairs)} steps are within {most:.1e} of those of {name} ({run_name(other)})"
        )


def _tuned(run: MeasuredTraining) -> Iterator[str]:
    """What fine-tuning trained, left as it was, and held in memory on the first rank."""
    held = run.held
    kept = "unchanged bit for bit" if held["frozen_unchanged"] else "CHANGED"
    yield f"train {run.train}: {held['trained']:,.0f} parameters trained, {held['frozen']:,.0f} frozen and {kept}"
    sizes = (f"{name} {format_quantity(held[name], 'B')}" for name in ("weights", "gradients", "optimizer"))
    yield f"memory of the first rank: {', '.join(sizes)}"


def _processors(run: MeasuredTraining | MeasuredDdp) -> str:
    return f"ranks {percent(run.cpu)}, other programs {percent(run.others)} of {run.cores} cores"


def compared_training_report(compared: ComparedTraining) -> Iterator[Block]:
    """A training run next to its prediction."""
    yield f"{compared.model}, {layout_text(compared.plan)}, {compared.run}"
    yield Paragraph(f"predicted for {compared.cluster}", indent="  ")
    rows = [
        ("measured, a step", short_seconds(compared.measured)),
        ("predicted", short_seconds(compared.predicted)),
        ("off by", signed_percent(compared.difference)),
        *((f"  {kind}", short_seconds(seconds)) for kind, seconds in compared.parts.items()),
        *_lateness(compared),
        ("processors", f"{percent(compared.cpu)} ranks, {percent(compared.others)} others"),
    ]
    yield from ("", Rows(Table(columns=_PAIRS.columns), rows), "", compared.verdict)


def _lateness(compared: ComparedTraining) -> Iterator[tuple[str, str]]:
    """How late gradients were, and were predicted to be."""
    if compared.late_measured is not None and compared.late_predicted is not None:
        yield "updates late, measured", f"{compared.late_measured:.2f}"
        yield "updates late, predicted", f"{compared.late_predicted:.2f}"


def ddp_report(run: MeasuredDdp) -> Iterator[Block]:
    """Steps of DistributedDataParallel."""
    forward, backward = (format_quantity(seconds, "s") for seconds in (run.forward, run.backward))
    how, size = "during" if run.overlap else "after", format_quantity(run.size, "B")
    yield (
        f"DistributedDataParallel on {links_text(run)}: {run.layers} layers of {size}, {forward} "
        f"forward and {backward} backward each; gradients added up {how} the backward pass by {run.all_reduce}"
    )
    seconds = sorted(row.seconds for row in run.rows)
    low, high = (format_quantity(end, "s") for end in (seconds[0], seconds[-1]))
    yield ""
    yield (
        f"{format_quantity(run.step_time, 's')} a step, median of {len(seconds)} ({low} to {high}); processors: "
        f"{_processors(run)}"
    )


def compared_ddp_report(compared: ComparedDdp) -> Iterator[Block]:
    """Steps of DistributedDataParallel next to two predictions."""
    yield f"DistributedDataParallel on {compared.machine}, {compared.run}"
    off = f"{signed_percent(compared.difference)}, as it was run"
    rows = [
        ("measured, a step", format_quantity(compared.measured, "s"), ""),
        (
            "predicted with overlap",
            format_quantity(compared.overlapped, "s"),
            off if compared.overlap else "",
        ),
        ("predicted without", format_quantity(compared.apart, "s"), "" if compared.overlap else off),
        ("predicted, a bucket", format_quantity(compared.bucket, "s"), ""),
        ("processors", percent(compared.cpu), f"ranks, {percent(compared.others)} others"),
    ]
    columns = (*_PAIRS.columns, Column("", "2"))
    way = "overlap" if compared.overlap is compared.told else "no overlap"
    yield from ("", Rows(Table(columns=columns), rows), "")
    yield f"the measurement is nearer to {way}; {compared.verdict}"


def sparse_report(run: MeasuredTables) -> Iterator[Block]:
    """Losses, samples/s, and hit rates of the servers' caches, measured and by the law."""
    yield (
        f"{run.tables}, {run.parameters:,} weights of tables; {run.servers} servers, {run.workers} workers, "
        f"{run.exchange}; batch {run.batch}; {run.data}; {run.software}, {run.started}"
    )
    yield from [f"continued from the checkpoint of step {run.start}"] if run.start else []
    shown = sorted({round(n * (len(run.rows) - 1) / (_SHOWN - 1)) for n in range(_SHOWN)})
    columns = (
        Column("step", "step", align="r"),
        Column("loss", "loss", ":.6f"),
        Column("time", "seconds", short_seconds),
    )
    yield from ("", Rows(Table(indent=0, columns=columns), [run.rows[n] for n in shown]), "")
    yield f"{run.sample_rate:,.0f} samples/s (median step)"
    late = ", ".join(f"{count:,} by {updates}" for updates, count in run.late.items())
    yield Paragraph(f"pushes by how many updates late they were: {late}")
    rates = (
        Column(f"tables (cache {percent(run.cache)})", "0"),
        Column("distinct rows asked for", "1", ":,"),
        Column("hit rate", "2", percent),
        Column("by the law", "3", percent),
    )
    groups = [
        (group, count, run.hit_rates[group], run.law_rates[group]) for group, count in run.lookups.items()
    ]
    yield from ("", Rows(Table(indent=0, columns=rates), groups))
