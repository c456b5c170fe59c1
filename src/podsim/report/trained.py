"""Training runs as text, and their losses drawn (needs podsim[report])."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from podsim.report.columns import percent, signed_percent
from podsim.report.lab import links_text
from podsim.report.plots import BLUE, INK, MUTED, STYLE, load_matplotlib
from podsim.report.table import Table, console, paragraph
from podsim.results.trained import ComparedDdp, ComparedTraining, MeasuredDdp, MeasuredTraining
from podsim.units import format_quantity

_SHOWN = 12
"""steps of a long run that are printed"""
_COLOURS = (BLUE, "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_EXCHANGES = {"ps": "a parameter server, in step", "async": "a parameter server, nobody waits"}


def layout_text(plan: Any) -> str:
    """The degrees of a plan in words, "dp 2, tp 2, pp 2 (1f1b, 4 micro-batches)"."""
    said = [f"{name} {plan[name]}" for name in ("dp", "tp", "pp") if plan[name] != 1] or ["one process"]
    if plan["pp"] != 1:
        count = int(plan["global_batch"]) // (int(plan["dp"]) * int(plan["micro_batch"]))
        said[-1] += f" ({plan['schedule']}, {count} micro-batches)"
    said += [f"ZeRO {plan['zero']}"] if plan["zero"] else []
    said += ["sequence parallel"] if plan["sequence_parallel"] else []
    return ", ".join(said)


def _name(run: MeasuredTraining) -> str:
    """A run in few words: its layout, and how gradients are exchanged if not by an all-reduce."""
    way = {"bsp": "", "ssp": f", ssp {run.staleness}"}.get(run.exchange, f", {run.exchange}")
    return layout_text(run.plan) + way


def _sums_text(run: MeasuredTraining) -> str:
    if run.exchange == "ssp":
        return f"a parameter server, staleness {run.staleness} at most"
    if run.exchange != "bsp":
        return _EXCHANGES[run.exchange]
    return "" if run.plan["dp"] == 1 or int(run.plan["zero"]) > 1 else f"all-reduce: {run.all_reduce}"


def trained_text(run: MeasuredTraining, width: int = 120) -> str:
    """A run: its layout, some of its steps, its speed."""
    return "\n".join(_lines(run, width)) + "\n"


def _lines(run: MeasuredTraining, width: int) -> Iterator[str]:
    yield from paragraph(
        f"{run.model} on {run.ranks} rank{'s' * (run.ranks > 1)}: {layout_text(run.plan)}", width
    )
    said = [
        f"{run.plan['global_batch']} samples a step",
        f"data {run.data}",
        f"seed {run.seed}",
        _sums_text(run),
    ]
    yield from paragraph(", ".join(part for part in said if part), width, indent="  ", first="  ")
    yield from paragraph(f"{run.backend} on {run.device}, {run.software}", width, indent="  ", first="  ")
    if run.resumed:
        yield f"  resumed after {', '.join(map(str, run.resumed))} steps"
    yield ""
    table = Table("rrr", header=("step", "loss", "time"), indent=2)
    for place in _places(len(run.rows)):
        row = run.rows[place]
        table.add(str(row.step), f"{row.loss:.5f}", format_quantity(row.seconds, "s", digits=3))
    yield from (line for line, _ in table.lines(width))
    yield ""
    tokens = f", {format_quantity(run.samples * run.sequence, 'token/s', digits=3)}" if run.sequence else ""
    yield (
        f"{format_quantity(run.step_time, 's', digits=3)} a step (median), {run.samples:,.1f} samples/s{tokens}; "
        f"processors: ranks {percent(run.cpu)}, other programs {percent(run.others)} of {run.cores} cores"
    )
    if run.late:
        total = sum(run.late.values())
        mean = sum(int(key) * count for key, count in run.late.items()) / total
        most = max(map(int, run.late))
        yield f"gradients were {mean:.2f} updates late in the mean, {most} at most"


def _places(count: int) -> list[int]:
    """The steps that are shown: all, or some at equal distances with the last."""
    if count <= _SHOWN:
        return list(range(count))
    return sorted({round(k * (count - 1) / (_SHOWN - 1)) for k in range(_SHOWN)})


def print_trained(run: MeasuredTraining, others: Mapping[str, MeasuredTraining] | None = None) -> None:
    """Print a run, and how far its losses are from those of other runs, by the names of their files."""
    out = console()
    for line in _lines(run, out.width):
        out.print(line)
    for name, other in (others or {}).items():
        both = list(zip(run.rows, other.rows, strict=False))
        most = max(abs(mine.loss / theirs.loss - 1.0) for mine, theirs in both)
        out.print(f"losses of {len(both)} steps are within {most:.1e} of those of {name} ({_name(other)})")


def print_compared_training(found: ComparedTraining) -> None:
    """Print a run beside its prediction."""
    out = console()
    for line in paragraph(f"{found.model}, {layout_text(found.plan)}, {found.run}", out.width):
        out.print(line)
    out.print(f"  predicted for {found.cluster}")
    out.print("")
    table = Table("lr", indent=2)
    table.add("measured, a step", format_quantity(found.measured, "s", digits=3))
    table.add("predicted", format_quantity(found.predicted, "s", digits=3))
    table.add("off by", signed_percent(found.difference))
    for kind, seconds in found.parts.items():
        table.add(f"  {kind}", format_quantity(seconds, "s", digits=3))
    table.add("processors", f"{percent(found.cpu)} ranks, {percent(found.others)} others")
    for line, _ in table.lines(out.width):
        out.print(line)
    out.print("")
    out.print(found.verdict)


def print_ddp(run: MeasuredDdp) -> None:
    """Print steps of DistributedDataParallel."""
    out = console()
    size, forward, backward = (
        format_quantity(run.size, "B"), format_quantity(run.forward, "s"), format_quantity(run.backward, "s"),
    )  # fmt: skip
    how = "beside" if run.overlap else "after"
    for line in paragraph(
        f"DistributedDataParallel on {links_text(run)}: {run.layers} layers of {size}, {forward} forward and {backward} "
        f"backward each; gradients added up {how} the backward pass by {run.all_reduce}", out.width,
    ):  # fmt: skip
        out.print(line)
    out.print("")
    seconds = sorted(row.seconds for row in run.rows)
    low, high = (format_quantity(one, "s", digits=4) for one in (seconds[0], seconds[-1]))
    out.print(
        f"{format_quantity(run.step_time, 's', digits=4)} a step, median of {len(seconds)} ({low} to {high}); "
        f"processors: ranks {percent(run.cpu)}, other programs {percent(run.others)} of {run.cores} cores"
    )


def print_compared_ddp(found: ComparedDdp) -> None:
    """Print a run beside its two predictions."""
    out = console()
    for line in paragraph(f"DistributedDataParallel on {found.machine}, {found.run}", out.width):
        out.print(line)
    out.print("")
    table = Table("lrl", indent=2)
    for name, seconds, overlap in (
        ("measured, a step", found.measured, None), ("predicted with overlap", found.overlapped, True),
        ("predicted without", found.apart, False),
    ):  # fmt: skip
        off = f"{signed_percent(found.difference)}, as it was run" if overlap is found.overlap else ""
        table.add(name, format_quantity(seconds, "s", digits=4), off)
    table.add("predicted, a bucket", format_quantity(found.bucket, "s", digits=4), "")
    table.add("processors", percent(found.cpu), f"ranks, {percent(found.others)} others")
    for line, _ in table.lines(out.width):
        out.print(line)
    out.print("")
    way = "overlap" if found.overlap is found.told else "no overlap"
    out.print(f"the measurement is nearer to {way}; {found.verdict}")


def loss_image(runs: Sequence[MeasuredTraining], kind: str, *, dpi: int = 150) -> bytes:
    """Bytes of a figure, "svg" or "png": the loss of each run over its steps, and its seconds below."""
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator

        figure = Figure(figsize=(8.4, 5.2))
        loss, time = figure.add_axes((0.095, 0.4, 0.875, 0.47)), figure.add_axes((0.095, 0.11, 0.875, 0.19))
        for place, run in enumerate(runs):
            colour = _COLOURS[place % len(_COLOURS)]
            steps = [row.step for row in run.rows]
            loss.plot(
                steps,
                [row.loss for row in run.rows],
                color=colour,
                lw=1.8 - 0.3 * min(place, 3),
                label=_name(run),
            )
            time.plot(steps, [1e3 * row.seconds for row in run.rows], color=colour, lw=1.0)
            for step in run.resumed:
                loss.axvline(step, color=MUTED, lw=0.8, ls="--")
        loss.set_title("loss", fontsize=9.5, loc="left", color=INK)
        time.set_title("milliseconds of a step", fontsize=9.5, loc="left", color=INK)
        time.set_xlabel("step", fontsize=9)
        time.set_ylim(bottom=0.0)
        loss.legend(loc="upper right", fontsize=8.5)
        for axes in (loss, time):
            axes.grid(axis="y", color=MUTED, alpha=0.25, lw=0.6)
            axes.tick_params(labelsize=8.5)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.text(
            0.012,
            0.955,
            f"{runs[0].model}, {runs[0].data}"[:110],
            fontsize=11,
            fontweight="bold",
            va="center",
        )
        out = io.BytesIO()
        how: dict[str, Any] = {"metadata": {"Date": None, "Creator": None}} if kind == "svg" else {"dpi": dpi}
        figure.savefig(out, format=kind, facecolor="white", **how)
    return out.getvalue()
