"""A simulated step: its time against the closed form, its waits, its critical path, links, and failures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from podsim.answers.failed import FailedStep
from podsim.answers.simulated import LinkUse, SimulatedStep
from podsim.answers.timeline import Timeline
from podsim.axes import Floats
from podsim.report.columns import BAR, Column, Table, percent, signed_percent
from podsim.report.plain_data import plain_value
from podsim.report.predictions import cluster_name, layout, part_rows
from podsim.report.screen import Block, Line, Paragraph, Rows, bold, report_text, show, warnings
from podsim.units import format_quantity, short_seconds

_SHOWN = 12
"""rows and ops that are listed"""
_FASTER = 0.1
"""share of their time that the ops of a critical path are to lose"""
_BARS = " ▁▂▃▄▅▆▇█"
_LINKS, _BINS = 8, 80
"""links that are listed, and the most columns of their use over time"""
_TRACED = 32
"""GPUs of a job whose every port is followed: thousands take long"""
LEVELS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9)
"""lower ends of the classes of utilisation that links and times are counted in"""
_STANDING = Table(
    Column("ranks"),
    Column("since", "", "s"),
    Column("at", "op"),
    Column("waits for", lambda wait: wait.waits_for or "(failed)"),
)


def print_simulated(step: SimulatedStep) -> None:
    """Print a simulated step on a screen: the times and the warnings stand out."""
    show(simulated_report(step))


def simulated_text(step: SimulatedStep, width: int = 100) -> str:
    """The text of a simulated step, lines of at most `width` where the tables allow."""
    return report_text(simulated_report(step), width)


def simulated_report(step: SimulatedStep) -> Iterator[Block]:
    """Everything about a simulated step."""
    yield bold(
        f"{step.model} on {step.gpus:,} GPUs of {cluster_name(step.cluster, step.gpus)}, one step simulated"
    )
    yield from (layout(step.plan), "")
    yield from _times(step)
    if step.failure is not None:
        yield ""
        yield from _failure(step.failure)
    if step.parts:
        yield from ("", bold("Where the step goes"), part_rows(step.parts, step.step_time))
    need, room = (format_quantity(size, "B") for size in (step.memory, step.memory_limit))
    does_fit = step.memory <= step.memory_limit
    yield ""
    yield Paragraph(
        f"Memory: {need} at most on the fullest rank, {'fits in' if does_fit else 'DOES NOT FIT in'} {room}",
        "bold" if does_fit else "alarm",
    )
    yield ""
    yield from _critical(step)
    yield ""
    yield from links_report(step)
    yield from _port_bytes(step)
    yield from warnings(step.warnings)


def _times(step: SimulatedStep) -> Iterator[Block]:
    first = f"{format_quantity(step.step_time, 's')} a step"
    if step.closed_form > 0:
        difference = signed_percent(step.step_time / step.closed_form - 1)
        first += f"; closed form {format_quantity(step.closed_form, 's')}, {difference} by simulation"
    yield bold(first if step.failure is None else _failure_time(step.failure, step.step_time))
    if step.parts:
        yield f"Bubble: {percent(step.bubble)} of the time between first and last pass"
    yield f"Played: {step.ops:,} ops on {step.ranks:,} ranks, for {step.represented:,} ops on {step.gpus:,} GPUs"


def _failure_time(failure: FailedStep, step_time: float) -> str:
    """The time of the step, or the fact that it never ended."""
    who = f"rank {failure.rank}" if failure.what == "rank" else f"the adapter of rank {failure.rank}"
    after, healthy, still = (format_quantity(s, "s") for s in (failure.time, failure.healthy, failure.still))
    if failure.standing:
        return f"{who} fails after {after}; all stand still after {still} (a whole step: {healthy})"
    more = signed_percent(step_time / failure.healthy - 1)
    return f"{who} fails after {after}; {format_quantity(step_time, 's')} a step, {more} on {healthy}"


def _failure(failure: FailedStep) -> Iterator[Block]:
    """The ops in progress, the waits between ranks, and the cost of a failure."""
    if not failure.standing:
        text = failure.rerouted
        if not text.startswith("nothing"):
            text = f"Its traffic goes on over {text}, each of the two with half of it; nothing hangs"
        yield text[0].upper() + text[1:]
        return
    rest = len(failure.under_way) - _SHOWN
    ops = "; ".join(failure.under_way[:_SHOWN]) or "nothing"
    yield f"Under way, and never ends: {ops}" + (f"; and {rest} more" if rest > 0 else "")
    yield from ("", bold("Who stands still, since when, and for whom"))
    yield Rows(_STANDING, failure.standing[:_SHOWN])
    if len(failure.standing) > _SHOWN:
        yield f"  and {len(failure.standing) - _SHOWN} more"
    watchdog, noticed, lost = (
        format_quantity(seconds, "s") for seconds in (failure.watchdog, failure.noticed, failure.lost)
    )
    yield ""
    yield (
        f"The watchdog ends the run {watchdog} after the first exchange hangs, {noticed} after the step did; {lost} of "
        "every GPU's time are lost, the restart apart"
    )


def _critical(step: SimulatedStep) -> Iterator[Block]:
    if not step.critical:
        yield "What would shorten the step: the critical path was not followed"
        return
    yield bold("What would shorten the step: the ops on its critical path")
    columns = (
        Column("op", "name"),
        Column("kind", drop=2),
        Column("where", drop=3),
        Column("ops", "count", ":,", drop=1),
        Column("seconds", "", "s"),
        Column("share", lambda op: op.seconds / step.step_time, percent),
        Column("gain", lambda op: _FASTER * op.seconds, "s", digits=3),
    )
    yield Rows(Table(*columns), step.critical[:_SHOWN])
    if rest := step.critical[_SHOWN:]:
        yield f"  and {len(rest)} more, {format_quantity(sum(op.seconds for op in rest), 's')} together"
    yield Paragraph(
        f"gain: what the step loses, at most, if these ops take {_FASTER * 100:.0f} % less time; beyond that another "
        "path may be the longest", "dim", indent="  ",
    )  # fmt: skip


def utilisation(use: LinkUse, seconds: float) -> float:
    """Utilisation of a link: the carried share of its capacity in a length of time."""
    return use.bytes / (use.capacity * seconds) if seconds > 0 and use.capacity > 0 else 0.0


def use_over_time(use: LinkUse, seconds: float, bins: int) -> Floats:
    """Mean utilisation in each of `bins` equal parts of a length of time: the bytes carried there over what fits."""
    edges = np.linspace(0.0, seconds, bins + 1)
    if not len(use.time):
        return np.zeros(bins)
    time = np.append(use.time, max(seconds, float(use.time[-1])))
    carried = np.concatenate([[0.0], np.cumsum(use.rate * np.diff(time))])
    share = np.diff(np.interp(edges, time, carried)) / (use.capacity * seconds / bins)
    return np.asarray(share)


def time_by_level(use: LinkUse, seconds: float) -> Floats:
    """Share of a length of time that a link spends in each class of LEVELS; the first class counts idle time."""
    if not len(use.time) or seconds <= 0:
        return np.asarray([1.0, *[0.0] * (len(LEVELS) - 1)])
    time = np.append(use.time, max(seconds, float(use.time[-1])))
    held = np.diff(np.clip(time, 0.0, seconds))
    level = np.searchsorted(np.array(LEVELS), use.rate / use.capacity + 1e-9, side="right") - 1
    spent = np.bincount(np.clip(level, 0, None), held, len(LEVELS))
    spent[0] += seconds - held.sum()
    return np.asarray(spent / seconds)


def busiest_links(step: SimulatedStep) -> list[LinkUse]:
    """Links that carried something, the busiest first."""
    used = [use for use in step.links if use.bytes > 0]
    return sorted(used, key=lambda use: -utilisation(use, step.step_time))


def carriers(use: LinkUse) -> str:
    """The users of a link: kinds of op with their shares of its bytes, "tp 80 %, dp 20 %"."""
    total = sum(use.carried.values())
    order = sorted(use.carried.items(), key=lambda item: -item[1])
    shares = [f"{kind} {100 * size / total:.0f} %" for kind, size in order[:3] if size > 0.005 * total]
    return ", ".join(shares) if total else "-"


def _busiest_tenth(use: LinkUse, seconds: float) -> str:
    """The tenth of the step in which the link is busiest, and its utilisation there."""
    share = use_over_time(use, seconds, 10)
    top = int(np.argmax(share))
    return f"{100 * share[top]:.0f} % from {short_seconds(top * seconds / 10)}"


def links_report(step: SimulatedStep) -> Iterator[Block]:
    """The busiest links with their use over time, then the number of links by utilisation."""
    links, seconds = busiest_links(step), step.step_time
    if not links:
        yield "Adapters: none carried anything"
        return
    columns = (
        Column("busiest links", lambda use: use.name + (f" x{use.copies:,}" if use.copies > 1 else "")),
        Column("each", "capacity", "B/s", drop=1),
        Column("sent", "bytes", "B", drop=3),
        Column("used", lambda use: utilisation(use, seconds), percent),
        Column("busy", lambda use: use.busy / seconds, percent, drop=2),
        Column("busiest tenth", lambda use: _busiest_tenth(use, seconds)),
        Column("by", carriers),
    )
    yield from (Rows(Table(*columns), links[:_LINKS]), "")
    yield lambda width: _use_lines(links[:_LINKS], seconds, width)
    yield ""
    yield from _levels(links, step)


def _port_bytes(step: SimulatedStep) -> Iterator[Block]:
    """The most bytes that a link of each kind carried, NVLink and links of a torus too, by parallelism side by side."""
    if step.make_telemetry is None or step.gpus > _TRACED:
        return
    carried = defaultdict[tuple[str, str, str], float](float)
    for row in step.make_telemetry().rows:
        if row.kind not in ("compute", "storage"):
            carried[row.kind, row.port, row.collective] += row.bytes
    most = defaultdict[tuple[str, str], float](float)
    for (kind, _, traffic), size in sorted(carried.items()):
        most[kind, traffic or "all"] = max(most[kind, traffic or "all"], size)
    if most:
        kinds, names = (dict.fromkeys(key[at] for key in most) for at in (0, 1))
        rows = [{"link": kind} | {name: most.get((kind, name)) for name in names} for kind in kinds]
        columns = (Column("most on one link, of", "link"), *(Column(name, "", "B") for name in names))
        yield from ("", Rows(Table(*columns), rows))


def _use_lines(links: Sequence[LinkUse], seconds: float, width: int) -> Iterator[Line]:
    """A line of bars for each link: its mean utilisation in equal parts of the step."""
    longest = max(len(use.name) for use in links)
    bins = max(10, min(_BINS, width - longest - 6))
    end = short_seconds(seconds)
    yield ((f"  {'use over the step':{longest}}  0 s".ljust(longest + 4 + bins - len(end)) + end, ""),)
    for use in links:
        heights = np.ceil(use_over_time(use, seconds, bins) * 8 - 1e-9)
        bars = "".join(_BARS[int(height)] for height in np.clip(heights, 0, 8))
        yield ((f"  {use.name:{longest}}  {bars}".rstrip(), ""),)


def _levels(links: Sequence[LinkUse], step: SimulatedStep) -> Iterator[Block]:
    """The number of links (with copies) by utilisation, and the time of the busiest at each level."""
    mean = [utilisation(use, step.step_time) for use in links]
    level = np.clip(np.searchsorted(np.array(LEVELS), mean, side="right") - 1, 0, None)
    count = np.bincount(level, [use.copies for use in links], len(LEVELS)).astype(int)
    total = sum(use.copies for use in step.links)
    idle = total - int(count.sum())
    count[0] += idle
    shares = time_by_level(links[0], step.step_time).tolist()
    rows = [
        (f"{low * 100:.0f} to {high * 100:.0f} %", links_there, share)
        for low, high, links_there, share in zip(
            LEVELS, (*LEVELS[1:], 1.0), count.tolist(), shares, strict=True
        )
    ]
    columns = (
        Column("used", "0"),
        Column("links", "1", ":,"),
        Column("time of the busiest", "2", percent),
        Column("", "2", BAR),
    )
    yield Rows(Table(*columns), rows)
    if idle:
        yield f"  {idle:,} of {total:,} links carried nothing."


def simulated_data(step: SimulatedStep, *, spans: bool = False) -> dict[str, Any]:
    """A simulated step as dicts, lists and numbers in SI, for JSON and CSV.

    The timeline is summed up by its lanes and its seconds by kind; with `spans` the data include every span and counter,
    column by column. A link has its mean `utilisation` in addition to its own fields.
    """
    held = {
        field.name: getattr(step, field.name)
        for field in fields(step)
        if field.name not in ("make_timeline", "links")
        and not (field.name == "failure" and step.failure is None)
    }
    data: dict[str, Any] = plain_value(held)
    data["links"] = [
        {**plain_value(use), "utilisation": utilisation(use, step.step_time)} for use in step.links
    ]
    data["timeline"] = plain_value(step.timeline) if spans else _summary(step.timeline)
    return data


def _summary(timeline: Timeline) -> dict[str, Any]:
    lanes = [
        {**plain_value(lane), "busy": float(busy)}
        for lane, busy in zip(timeline.lanes, timeline.busy("lane"), strict=True)
    ]
    kinds = {kind: float(busy) for kind, busy in zip(timeline.kinds, timeline.busy(), strict=True)}
    return {"spans": len(timeline), "seconds": timeline.seconds, "lanes": lanes, "kinds": kinds}
