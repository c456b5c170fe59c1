"""Layouts, plans, states and laws of MIG as text for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from podsim.hardware.mig.layouts import Layout
from podsim.hardware.mig.profiles import Slicing
from podsim.hardware.mig.results import (
    ConfigRow,
    GpuPlan,
    GpuState,
    LawReport,
    LayoutSheet,
    LayoutTable,
    MigPlan,
)
from podsim.report.table import Table, console, paragraph
from podsim.units import format_quantity


def _say(text: str, *, style: str = "", first: str | None = None, indent: str = "") -> None:
    from rich.text import Text

    out = console()
    for line in paragraph(text, out.width, indent=indent, first=first):
        out.print(Text(line, style=style))


def _lines(table: Table, *, header: bool = True) -> None:
    from rich.text import Text

    out = console()
    for place, (columns, note) in enumerate(table.lines(out.width)):
        out.print(Text(columns + note, style="bold" if header and place == 0 else ""))


def _raw(text: str) -> None:
    from rich.text import Text

    console().print(Text(text.rstrip("\n")))


def bar(slicing: Slicing, layout: Layout | None, mode: str = "whole") -> str:
    """The memory slices of a GPU in a line, three columns each: "[    3g    ][ 2g ][1g] · "; a dot is a free one."""
    if layout is None:
        return "[" + mode.center(3 * slicing.memory_slices - 2) + "]"
    made, at = "", 0
    for one in layout.instances:
        made += " · " * (one.start - at)
        made += f"[{one.profile.partition('.')[0].center(3 * one.size - 2)}]"
        at = one.start + one.size
    return made + " · " * (slicing.memory_slices - at)


def print_layouts(table: LayoutTable) -> None:
    """Print the layouts of a GPU, one line each."""
    slicing = table.slicing
    _say(
        f"{table.gpu}: {slicing.compute_slices} compute slices, {slicing.memory_slices} memory slices",
        style="bold",
    )
    profiles = Table(
        "lrrrrw", header=("profile", "number", "SMs", "memory", "at most", "starts at memory slice")
    )
    for one in slicing.profiles:
        profiles.add(
            one.name, str(one.id), str(one.sms), f"{one.memory / 2**30:.2f} GiB", str(one.most),
            f"{', '.join(map(str, one.starts))} (takes {one.size})",
        )  # fmt: skip
    _lines(profiles)
    print()
    _say(
        f"{table.total} layouts of {table.distinct} sets of profiles; {table.maximal} of them are maximal: nothing can"
        " be added",
        style="bold",
    )
    rows = Table("rlrrrl", header=("", "memory slices", "instances", "compute", "memory", "profile@slice"))
    for row in table.rows:
        rows.add(
            str(row.number), bar(slicing, row.layout), str(row.instances), f"{row.compute}/{slicing.compute_slices}",
            f"{row.memory}/{slicing.memory_slices}", str(row.layout) + ("" if row.maximal else "  (not maximal)"),
        )  # fmt: skip
    _lines(rows if rows.fits(console().width) else rows.without(1))
    _notes(slicing)


def _notes(slicing: Slicing) -> None:
    said = "; ".join(f"{key}: {text}" for key, text in slicing.notes.items())
    print()
    _say(f"Source: {slicing.source}" + (f". Not read there: {said}" if said else ""), style="dim")


def print_sheet(sheet: LayoutSheet) -> None:
    """Print one layout: its instances as GPUs, what could be added, what makes it."""
    _say(f"{sheet.gpu}: {sheet.layout}", style="bold")
    _raw("  " + bar(sheet.slicing, sheet.layout))
    print()
    table = Table("lrrrrrr", header=("instance", "SMs", "memory", "bandwidth", "L2", "fp16", "int8"))
    for place, one in zip(sheet.layout.instances, sheet.slices, strict=True):
        peaks = [format_quantity(one.peaks[key], "FLOP/s", digits=3) for key in ("fp16", "int8")]
        table.add(
            str(place), str(one.sms), format_quantity(one.memory, "B"), format_quantity(one.memory_bandwidth, "B/s"),
            format_quantity(one.l2, "B"), *peaks,
        )  # fmt: skip
    _lines(table)
    print()
    free = ", ".join(f"{count} x {name}" for name, count in sheet.more.items())
    _say(f"Could be added, each alone: {free}." if free else "Maximal: nothing can be added.")
    print()
    _commands("Commands", sheet.commands)
    print()
    _say("mig-parted", style="bold")
    _raw(sheet.parted)


def _commands(title: str, commands: Sequence[str]) -> None:
    _say(title, style="bold")
    for command in commands:
        _raw(f"  {command}")


def print_plan(plan: MigPlan) -> None:
    """Print what the GPUs of a node become, and what an operator runs."""
    asked = ", ".join(_asked(one.name, one.count, one.profile, one.memory, one.fixed) for one in plan.wishes)
    _say(f"{plan.on} ({plan.gpu}): {asked}", style="bold")
    _say(f"{plan.devices} devices given out: GPUs and instances that jobs run on at once")
    print()
    table = Table("llw", header=("GPU", "memory slices", "jobs"))
    for label, one in _grouped(plan):
        jobs = ", ".join(
            f"{count} x {name}" if count > 1 else name for name, count in Counter(one.jobs).items()
        )
        slow = sorted({round(speed, 3) for speed in one.speeds if speed < 1})
        speeds = f" ({', '.join(f'{speed:.2f}' for speed in slow)} of a whole GPU's speed)" if slow else ""
        table.add(label, bar(plan.slicing, one.layout, one.mode), (jobs or "-") + speeds)
    _lines(table)
    if plan.value:
        what = "Sum of relative speeds" if plan.objective == "throughput" else "Least relative speed"
        print()
        _say(f"{what} of the jobs placed for it: {plan.value:.3f}")
    for nodes, commands in plan.commands:
        print()
        _commands(f"Commands on {nodes}" if plan.nodes > 1 else "Commands", commands)
    print()
    _say("mig-parted", style="bold")
    _raw(plan.parted)
    print()
    _say(f"Kubernetes, device plugin with MIG_STRATEGY={plan.strategy}", style="bold")
    _raw(plan.kubernetes)
    print()
    for note in plan.notes:
        _say(note, style="dim", first="  - ", indent="    ")


def _asked(name: str, count: int, profile: str, memory: float, fixed: float) -> str:
    if profile == "gpu":
        return f"{name} {count} whole GPU{'s' * (count > 1)}"
    what = profile or f"instances of {format_quantity(memory, 'B')} or more"
    return f"{name} {count} x {what}" + (f", {fixed:.0%} of its time fixed" if fixed else "")


def _grouped(plan: MigPlan) -> list[tuple[str, GpuPlan]]:
    """GPUs alike in one line: ("0 to 3", the first of them)."""
    groups: list[list[GpuPlan]] = []
    for one in plan.gpus:
        key = (one.mode, one.layout, one.jobs)
        if groups and (groups[-1][0].mode, groups[-1][0].layout, groups[-1][0].jobs) == key:
            groups[-1].append(one)
        else:
            groups.append([one])

    def name(one: GpuPlan) -> str:
        return f"{one.node}.{one.index}" if plan.nodes > 1 else str(one.index)

    return [
        (name(same[0]) if len(same) == 1 else f"{name(same[0])} to {name(same[-1])}", same[0])
        for same in groups
    ]


def print_states(states: Sequence[GpuState]) -> None:
    """Print what nvidia-smi showed of each GPU, and how what is wanted is reached."""
    for place, one in enumerate(states):
        if place:
            print()
        _say(f"GPU {one.index}: {one.name}", style="bold")
        _raw("  " + bar(one.slicing, one.layout))
        for instance, uuid in zip(one.layout.instances, one.uuids, strict=True):
            _raw(f"  {instance!s:<14}{uuid}".rstrip())
        free = ", ".join(f"{count} x {name}" for name, count in one.more.items())
        _say(f"Could be added, each alone: {free}." if free else "Nothing can be added.")
        _say(f"{one.open} layouts can be reached without destroying an instance.")
        for text in one.differences:
            _say(f"Differs: {text}", style="yellow")
        if one.change is not None:
            _change(one)


def _change(one: GpuState) -> None:
    change = one.change
    assert change is not None
    print()
    _say(f"Wanted: {change.target}")
    if change.stopped:
        busy = ", ".join(str(each) for each in change.stopped)
        _say(f"NOT REACHED while these are busy: {busy}. Instances cannot be moved.", style="bold red")
        return
    gone = ", ".join(str(each) for each in change.destroy)
    kept = ", ".join(str(each) for each in change.keep) or "nothing"
    _say(f"Reached {f'by destroying {gone}' if gone else 'without destroying anything'}; {kept} stays.")
    if one.commands:
        _commands("Commands", one.commands)


def print_configs(rows: Sequence[ConfigRow], slicing: Slicing) -> None:
    """Print the entries of a mig-parted file, each placed on a GPU."""
    table = Table("llll", header=("configuration", "GPUs", "memory slices", "profile@slice"))
    for one in rows:
        devices = "all" if one.devices is None else ",".join(map(str, one.devices))
        if one.enabled and one.layout is None:
            table.add(one.name, devices, bar(slicing, None, "MIG, empty"), "")
        else:
            table.add(
                one.name, devices, bar(slicing, one.layout), "" if one.layout is None else str(one.layout)
            )
    _lines(table if table.fits(console().width) else table.without(3))
    _say(f"Every entry can stand on a GPU of {slicing.name}.")


def print_law(report: LawReport) -> None:
    """Print how right the laws of slices are."""
    _say(
        "relative speed = 1 / (f + (1 - f) / share), share = the larger of compute and memory share",
        style="bold",
    )
    table = Table("lrrrrrw", header=("f known by", "jobs", "speeds", "mean", "median", "worst", "how"))
    for score in report.scores:
        table.add(
            score.name, str(score.cases), str(score.points), f"{score.mean:.1%}", f"{score.median:.1%}",
            f"{score.worst:.1%}", score.how,
        )  # fmt: skip
    _lines(table)
    print()
    names = list(report.scores[0].by_model)
    by_model = Table(
        "l" + "r" * len(report.scores), header=("mean error of", *(s.name for s in report.scores))
    )
    for name in names:
        by_model.add(name, *(f"{score.by_model[name]:.1%}" for score in report.scores))
    _lines(by_model)
    print()
    _say("Six busy neighbours cost, of the throughput of one instance", style="bold")
    for model, share in report.busy.items():
        _raw(f"  {model:<14}{share:.1%}")
    print()
    _say(
        "One smallest instance, in sevenths of the whole GPU (MLPerf Inference offline; none is fitted)",
        style="bold",
    )
    rows = Table("llrrw", header=("network", "GPU", "predicted", "measured", "by"))
    for one in report.sevenths:
        rows.add(one.model, one.gpu, f"{one.predicted:.3f}", f"{one.measured:.3f}", one.how)
    _lines(rows)
    _say(f"Mean error {report.seventh_error:.1%}")
