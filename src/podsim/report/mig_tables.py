"""Layouts, plans, states and laws of MIG."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from podsim.hardware.mig.best import Wish
from podsim.hardware.mig.layouts import Layout
from podsim.hardware.mig.profiles import Slicing
from podsim.hardware.mig.results import (
    GpuPlan,
    GpuState,
    LayoutSheet,
    MigPlan,
)
from podsim.report.columns import Column, Table
from podsim.report.screen import Block, Paragraph, Rows, bold, raw
from podsim.units import format_quantity

_INSTANCES = Table(
    Column("instance", "0"),
    Column("SMs", "1.sms", ":d"),
    Column("memory", "1.memory", "B"),
    Column("bandwidth", "1.memory_bandwidth", "B/s"),
    Column("L2", "1.l2", "B"),
    Column("fp16", "1.peaks.fp16", "FLOP/s", digits=3),
    Column("int8", "1.peaks.int8", "FLOP/s", digits=3),
)


def bar(slicing: Slicing, layout: Layout | None, mode: str = "whole") -> str:
    """The memory slices of a GPU in a line, three columns each: "[    3g    ][ 2g ][1g] · "; a dot is a free slice."""
    if layout is None:
        return "[" + mode.center(3 * slicing.memory_slices - 2) + "]"
    text, at = "", 0
    for instance in layout.instances:
        text += " · " * (instance.start - at)
        text += f"[{instance.profile.partition('.')[0].center(3 * instance.size - 2)}]"
        at = instance.start + instance.size
    return text + " · " * (slicing.memory_slices - at)


def _free_text(more: Mapping[str, int], nothing: str) -> str:
    """The instances that a layout has room for."""
    free = ", ".join(f"{count} x {name}" for name, count in more.items())
    return f"Could be added, each alone: {free}." if free else nothing


def layout_report(sheet: LayoutSheet) -> Iterator[Block]:
    """One layout: its instances as GPUs, what could be added, and the commands that create it."""
    yield from (bold(f"{sheet.gpu}: {sheet.layout}"), raw(bar(sheet.slicing, sheet.layout), indent="  "))
    yield from ("", Rows(_INSTANCES, list(zip(sheet.layout.instances, sheet.slices, strict=True))), "")
    yield from (_free_text(sheet.more, "Maximal: nothing can be added."), "")
    yield from (*_commands("Commands", sheet.commands), "", bold("mig-parted"), raw(sheet.parted))


def _commands(title: str, commands: Sequence[str]) -> Iterator[Block]:
    yield bold(title)
    yield from (raw(command, indent="  ") for command in commands)


def plan_report(plan: MigPlan) -> Iterator[Block]:
    """The layouts of a node's GPUs, and the commands for an operator."""
    yield bold(f"{plan.on} ({plan.gpu}): {', '.join(map(_wish_text, plan.wishes))}")
    yield f"{plan.devices} devices given out: GPUs and instances that jobs run on at once"
    columns = (
        Column("GPU", lambda group: _group_name(group, plan.nodes)),
        Column("memory slices", lambda group: bar(plan.slicing, group[0].layout, group[0].mode)),
        Column("jobs", lambda group: _jobs_text(group[0]), wrap=True),
    )
    yield from ("", Rows(Table(*columns), _equal_neighbours(plan.gpus)))
    if plan.value:
        what = "Sum of relative speeds" if plan.objective == "throughput" else "Least relative speed"
        yield from ("", f"{what} of the jobs placed for it: {plan.value:.3f}")
    for nodes, commands in plan.commands:
        yield from ("", *_commands(f"Commands on {nodes}" if plan.nodes > 1 else "Commands", commands))
    yield from ("", bold("mig-parted"), raw(plan.parted))
    yield from (
        "",
        bold(f"Kubernetes, device plugin with MIG_STRATEGY={plan.strategy}"),
        raw(plan.kubernetes),
        "",
    )
    yield from (Paragraph(note, "dim", indent="    ", first="  - ") for note in plan.notes)


def _wish_text(wish: Wish) -> str:
    if wish.profile == "gpu":
        return f"{wish.name} {wish.count} whole GPU{'s' * (wish.count > 1)}"
    what = wish.profile or f"instances of {format_quantity(wish.memory, 'B')} or more"
    return f"{wish.name} {wish.count} x {what}" + (
        f", {wish.fixed:.0%} of its time fixed" if wish.fixed else ""
    )


def _jobs_text(gpu: GpuPlan) -> str:
    jobs = ", ".join(f"{count} x {name}" if count > 1 else name for name, count in Counter(gpu.jobs).items())
    slow = sorted({round(speed, 3) for speed in gpu.speeds if speed < 1})
    speeds = ", ".join(f"{speed:.2f}" for speed in slow)
    return (jobs or "-") + (f" ({speeds} of a whole GPU's speed)" if slow else "")


def _equal_neighbours(gpus: Sequence[GpuPlan]) -> list[list[GpuPlan]]:
    """Neighbouring GPUs with the same layout, as one."""
    groups: list[list[GpuPlan]] = []
    for gpu in gpus:
        last = groups[-1][0] if groups else None
        if last is not None and (last.mode, last.layout, last.jobs) == (gpu.mode, gpu.layout, gpu.jobs):
            groups[-1].append(gpu)
        else:
            groups.append([gpu])
    return groups


def _group_name(group: Sequence[GpuPlan], nodes: int) -> str:
    """ "0 to 3", with the node before each number where there are several."""
    ends = group[:1] if len(group) == 1 else (group[0], group[-1])
    return " to ".join(f"{gpu.node}.{gpu.index}" if nodes > 1 else str(gpu.index) for gpu in ends)


def states_report(states: Sequence[GpuState]) -> Iterator[Block]:
    """The state of each GPU from nvidia-smi, and the way to the wanted layout."""
    for index, state in enumerate(states):
        if index:
            yield ""
        yield from (
            bold(f"GPU {state.index}: {state.name}"),
            raw(bar(state.slicing, state.layout), indent="  "),
        )
        for instance, uuid in zip(state.layout.instances, state.uuids, strict=True):
            yield raw(f"  {instance!s:<14}{uuid}")
        yield _free_text(state.more, "Nothing can be added.")
        yield f"{state.open} layouts can be reached without destroying an instance."
        yield from (Paragraph(f"Differs: {text}", "warning") for text in state.differences)
        yield from _change(state)


def _change(state: GpuState) -> Iterator[Block]:
    change = state.change
    if change is None:
        return
    yield from ("", f"Wanted: {change.target}")
    if change.stopped:
        busy = ", ".join(map(str, change.stopped))
        yield Paragraph(f"NOT REACHED while these are busy: {busy}. Instances cannot be moved.", "alarm")
        return
    gone = ", ".join(map(str, change.destroy))
    kept = ", ".join(map(str, change.keep)) or "nothing"
    yield f"Reached {f'by destroying {gone}' if gone else 'without destroying anything'}; {kept} stays."
    if state.commands:
        yield from _commands("Commands", state.commands)


def layout_rows(table: Any) -> list[dict[str, Any]]:
    """A row for each layout."""
    return [
        {
            "number": row.number, "layout": str(row.layout), "instances": row.instances, "compute": row.compute,
            "memory": row.memory, "maximal": row.maximal,
        }
        for row in table.rows
    ]  # fmt: skip


def instance_rows(sheet: LayoutSheet) -> list[dict[str, Any]]:
    """A row for each instance of a layout."""
    return [
        {
            "instance": str(instance), "sms": gpu.sms, "memory": gpu.memory,
            "memory_bandwidth": gpu.memory_bandwidth, "l2": gpu.l2, "peaks": dict(gpu.peaks),
        }
        for instance, gpu in zip(sheet.layout.instances, sheet.slices, strict=True)
    ]  # fmt: skip


def plan_rows(plan: MigPlan) -> list[dict[str, Any]]:
    """A row for each GPU of a plan."""
    return [
        {
            "node": gpu.node, "gpu": gpu.index, "mode": gpu.mode, "layout": "" if gpu.layout is None else str(gpu.layout),
            "jobs": " ".join(gpu.jobs), "speeds": " ".join(f"{speed:g}" for speed in gpu.speeds),
        }
        for gpu in plan.gpus
    ]  # fmt: skip


def state_rows(states: Sequence[GpuState]) -> list[dict[str, Any]]:
    """A row for each instance that nvidia-smi showed."""
    return [
        {
            "gpu": state.index, "instance": str(instance), "uuid": uuid, "start": instance.start,
            "size": instance.size,
        }
        for state in states
        for instance, uuid in zip(state.layout.instances, state.uuids, strict=True)
    ]  # fmt: skip


def config_rows(configurations: Sequence[Any]) -> list[dict[str, Any]]:
    """A row for each configuration of a mig-parted file."""
    return [
        {
            "configuration": entry.name,
            "devices": "all" if entry.devices is None else ",".join(map(str, entry.devices)),
            "enabled": entry.enabled, "layout": "" if entry.layout is None else str(entry.layout),
        }
        for entry in configurations
    ]  # fmt: skip
