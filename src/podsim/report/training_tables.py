"""Training runs of the lab, and predictions next to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from podsim.answers.trained import MeasuredTraining, layout_text, some_steps
from podsim.report.columns import Column, Table, percent
from podsim.report.screen import Block, Paragraph, Rows, raw
from podsim.units import format_quantity, short_seconds

_EXCHANGES = {"ps": "a parameter server, in step", "async": "a parameter server, nobody waits"}
_OUTER = {"local": "the mean of the weights", "diloco": "an outer step of the weights (DiLoCo)"}


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
    yield from ("", Rows(Table(*columns), some_steps(run.rows)), "")
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


def _processors(run: MeasuredTraining) -> str:
    return f"ranks {percent(run.cpu)}, other programs {percent(run.others)} of {run.cores} cores"


def precision_report(run: MeasuredTraining) -> Iterator[Block]:
    """What a precision did to one run; nothing of one in fp32 without a loss scale."""
    if run.precision == "fp32" and run.loss_scale == "none":
        return
    lost = sum(run.lost) / max(1, len(run.lost))
    names = ", ".join(f"{name} {share:.0%}" for name, share in list(run.lost_by.items())[:3])
    most = f"; most in {names}" if names else ""
    scale = f", loss scale {run.loss_scale}" if run.loss_scale != "none" else ""
    yield Paragraph(
        f"precision {run.precision}{scale}: {percent(lost)} of the gradients became 0 by rounding{most}"
    )
    if run.scales and run.loss_scale == "dynamic":
        yield Paragraph(
            f"the loss scale ended at {run.scales[-1]:,.0f}; {len(run.skipped)} steps were skipped"
        )
    if run.diverged is not None:
        where = f": {run.overflow} is not finite" if run.overflow else ""
        yield Paragraph(f"diverged at step {run.diverged}{where}", "alarm")


def accuracy_text(run: MeasuredTraining) -> str:
    """The accuracy on a sample, before and after pruning."""
    shares = {name: f"{share:.2%}".replace("%", " %") for name, share in run.accuracy.items()}
    kept = (
        f"pruned 2:4 after step {run.prune_at}, {shares['kept']} of the magnitude kept"
        if "kept" in shares
        else ""
    )
    if "end" not in shares:
        return kept
    if "dense" not in shares:
        return f"accuracy {shares['end']}" + f"; {kept}" * bool(kept)
    points = 100 * (run.accuracy["end"] - run.accuracy["dense"])
    end = f"{shares['end']} after retraining ({points:+.2f} points)"
    return f"accuracy {shares['dense']} dense, {shares['pruned']} {kept}, {end}"
