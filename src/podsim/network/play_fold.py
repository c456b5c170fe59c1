"""Symmetry: flows that nothing tells apart are simulated once.

Flows, lanes, links, gates and groups are coloured by what they are, then again and again by the colours of what they
touch, until no colour splits (colour refinement; the result is an equitable partition). Elements of one colour then
do the same things at the same times, so one of each is simulated; a link of the quotient carries as many
flows of a colour as each link of its colour does. The unfolded run is the oracle in the tests.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from podsim.native import c_function, c_struct
from podsim.network.collectives.table import Ints
from podsim.network.play_program import mix, number_rows
from podsim.network.play_state import Program, typed_program


class Colours(NamedTuple):
    """The colours of the elements, by kind; equal elements have equal colours."""

    flow: Ints
    lane: Ints
    link: Ints
    gate: Ints
    group: Ints
    flow_count: int
    lane_count: int
    link_count: int
    gate_count: int
    group_count: int


_refine = c_function("fold_refine", Ints, Ints, Colours, Program, Ints)
"""One round: colours of lanes, links, gates and groups from the flows' colours, and the flows' next colours, written to
the last argument."""


def _classes(colour: Ints) -> tuple[Ints, Ints]:
    """(class of each element, first element of each class)."""
    return number_rows(colour[None, :])


def _colours(p: Program) -> list[Ints]:
    """Stable colours of flows, lanes, links, gates and groups."""
    what = [p.repeat, p.delay, p.width, p.channel]  # two flows of a lane at one time are on two channels
    if np.any(p.chunk_bytes != p.chunk_bytes[0]):
        what += [p.chunk, p.turn, p.wheel]
    flow, _ = number_rows(np.stack(what))
    binding = np.zeros(len(p.capacity), np.int64)
    lane_of = np.repeat(np.arange(len(p.start)), p.end - p.start)
    binding[p.link] = np.arange(len(p.link)) < p.middle[lane_of]
    link, _ = number_rows(np.stack([p.capacity.view(np.int64), binding]))
    lane, _ = number_rows(
        np.stack([p.first - p.start, p.capacity[len(p.capacity) - len(p.start) :].view(np.int64)])
    )
    flow, lane, link = mix(flow), mix(lane), mix(link)
    counts = len(flow), len(lane), len(link), len(p.dep_ptr) - 1, len(p.group_repeat)
    colours = Colours._make((flow, *(np.empty(count, np.int64) for count in counts[1:]), *counts))
    struct, program, new = c_struct(colours), c_struct(p), np.empty_like(flow)
    classes, rounds = 0, 0
    while True:
        _refine(lane, link, struct, program, new)
        rounds += 1
        if rounds % 4 == 0:  # classes only split: when four rounds split none, none will
            now = len(_classes(new)[1])
            if (
                now == classes
            ):  # so lanes, links, gates and groups, which follow from the flows, are stable too
                return list(colours[:5])
            classes = now
        flow[:] = new


def _quotient_rows(pointer: Ints, first: Ints, columns_CR: Ints) -> tuple[Ints, Ints]:
    """Rows of the first element of each class, each different row once: (pointer, columns)."""
    length = np.diff(pointer)[first]
    owner = np.repeat(np.arange(len(first)), length)
    entry = (
        np.repeat(pointer[first], length)
        + np.arange(len(owner))
        - np.repeat(np.cumsum(length) - length, length)
    )
    rows_CR = np.concatenate([owner[None, :], columns_CR[:, entry]])
    _, once = number_rows(rows_CR)
    rows_CR = rows_CR[:, once]
    return np.searchsorted(rows_CR[0], np.arange(len(first) + 1)), rows_CR[1:]


def _inverse(pointer: Ints, values: Ints, n: int) -> tuple[Ints, Ints, Ints]:
    """(pointer, owner, place) of rows by value."""
    order = np.argsort(values, kind="stable")
    owner = np.repeat(np.arange(len(pointer) - 1), np.diff(pointer))
    return np.searchsorted(values[order], np.arange(n + 1)), owner[order], order


def _quotient_lanes(p: Program, lane: Ints, lane_first: Ints, link: Ints) -> tuple[dict[str, Any], Ints]:
    """Lane columns of the quotient, and the place in it of every link.

    A link of class x is crossed by (lanes of class a) x (their links of class x) / (links of class x) lanes of class a.
    """
    lanes, alone = len(p.start), len(p.capacity) - len(p.start)
    used = np.unique(p.link[p.link < alone])
    numbers, first = _classes(link[used])
    link_number = np.full(len(p.capacity), -1)
    link_number[used] = numbers
    link_number[alone:] = len(first) + lane
    links = len(first) + len(lane_first)
    size_of_link = np.bincount(link_number[link_number >= 0], minlength=links)
    owner = np.repeat(np.arange(lanes), p.end - p.start)
    entries = np.flatnonzero(lane_first[lane[owner]] == owner)
    bound = np.where(p.link[entries] >= alone, 0, np.where(entries < p.middle[owner[entries]], 1, 2))
    key = (lane[owner[entries]] * 3 + bound) * links + link_number[p.link[entries]]
    rows, times = np.unique(key, return_counts=True)
    row_lane, row_kind, row_link = rows // links // 3, rows // links % 3, rows % links
    use = times * np.bincount(lane)[row_lane] / size_of_link[row_link]
    assert np.array_equal(use, np.rint(use)), "classes of flows and links are not equitable"
    start = np.searchsorted(row_lane, np.arange(len(lane_first) + 1))
    columns: dict[str, Any] = {
        "start": start[:-1],
        "first": start[:-1] + (p.first - p.start)[lane_first],
        "middle": start[:-1] + np.bincount(row_lane, row_kind < 2, len(lane_first)).astype(np.int64),
        "end": start[1:],
        "link": row_link,
        "use": use,
        "capacity": np.concatenate([p.capacity[used[first]], p.capacity[alone + lane_first]]),
        "key": mix(np.arange(len(lane_first))),
        "ones": np.ones(len(lane_first)),
    }
    return columns, link_number


def fold_program(p: Program) -> tuple[Program, Ints, Ints]:
    """(the quotient of a program, class of each flow [F], place in the quotient of each link [L + A], -1 if unused)."""
    if not len(p.repeat):
        return p, np.arange(0), np.arange(len(p.capacity))
    colours = _colours(p)
    (flow, flow_1), (lane, lane_1), _, (gate, gate_1), (group, group_1) = (
        _classes(colour) for colour in colours
    )
    lanes, link_number = _quotient_lanes(p, lane, lane_1, colours[2])

    def named(numbers: Ints, of: Ints) -> Ints:
        return np.where(of >= 0, numbers[of], -1) if len(numbers) else of

    dep_ptr, deps_CR = _quotient_rows(p.dep_ptr, gate_1, np.stack([group[p.dep_group], p.dep_lag]))
    group_ptr, members_CR = _quotient_rows(p.group_ptr, group_1, flow[p.group_flow][None, :])
    flow_gate = named(gate, p.gate[flow_1])
    order = np.argsort(flow_gate, kind="stable")
    gate_ptr = np.searchsorted(flow_gate[order], np.arange(len(gate_1) + 1))
    wake_ptr, wake_gate, wake = _inverse(dep_ptr, deps_CR[0], len(group_1))
    columns = {
        name: getattr(p, name)[flow_1]
        for name in ("repeat", "chunk", "width", "turn", "wheel", "channel", "delay")
    }
    quotient = Program(
        **columns, lane=lane[p.lane[flow_1]], before=named(flow, p.before[flow_1]), after=named(flow, p.after[flow_1]),
        gate=flow_gate, group=named(group, p.group[flow_1]), chunk_bytes=p.chunk_bytes, chunk_ends=p.chunk_ends,
        delays=p.delays, dep_ptr=dep_ptr, dep_group=deps_CR[0], dep_lag=deps_CR[1],
        gate_ptr=gate_ptr - gate_ptr[0], gate_flow=order[gate_ptr[0] :], group_repeat=p.group_repeat[group_1],
        group_ptr=group_ptr, group_flow=members_CR[0], wake_ptr=wake_ptr, wake_gate=wake_gate,
        wake_lag=deps_CR[1][wake], **lanes,
    )  # fmt: skip
    return typed_program(quotient), flow, link_number
