"""Programs of tables: compiled for each rank, and carried out by hand in the worst order that a network may choose."""

from __future__ import annotations

from collections import defaultdict, deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.errors import LabError
from podsim.lab.data import input_of, wrong
from podsim.network.collectives import ALGORITHMS, EVERYWHERE, Algorithm, Table, make_table
from podsim.network.collectives.program import BARRIER, RECEIVE, RECEIVED, SEND, SENT, Program, Span, programs
from podsim.network.collectives.rings import ring_all_reduce


class _Node:
    """One node that follows its program; data of a send are read as late as its SENT allows."""

    def __init__(self, program: Program, ranks: int) -> None:
        self.program, self.at = program, 0
        self.held = np.full(program.elements, np.nan, np.float32)
        if program.node >= ranks:
            self.held[:] = 0.0
        self.own = input_of(program.node, program.elements)
        for first, last, _ in program.input:
            self.held[first:last] = self.own[first:last]
        self.beside: dict[int, np.ndarray] = {}
        self.posted: set[int] = set()


def carry_out(table: Table, elements: int, rng: np.random.Generator) -> list[_Node]:
    """All nodes run to the end, one random instruction at a time; a send's data are read only when it must be over."""
    nodes = [_Node(program, table.ranks) for program in programs(table, elements)]
    lines: dict[tuple[int, int, int], deque[np.ndarray]] = defaultdict(deque)
    waiting: dict[int, int] = defaultdict(int)

    def read(node: _Node, k: int) -> None:
        t = node.program.transfers[k]
        data = (node.own if t.own else node.held)[t.first : t.last].copy()
        lines[node.program.node, t.peer, t.tag].append(data)
        node.posted.discard(k)

    def step(node: _Node) -> bool:
        if node.at == len(node.program.order):
            return False
        what, k = node.program.order[node.at]
        if what == BARRIER:
            mine = node.program.node
            turn = sum(1 for done in node.program.order[: node.at] if done.what == BARRIER)
            if waiting[mine] == turn:
                waiting[mine] += 1
            if any(waiting[other] <= turn for other in range(len(nodes))):
                return False
        elif what == SEND:
            node.posted.add(k)
        elif what == SENT:
            if k in node.posted:
                read(node, k)
        elif what == RECEIVED:
            t = node.program.transfers[k]
            key = (t.peer, node.program.node, t.tag)
            if not lines[key]:
                sender = nodes[t.peer]
                late = [
                    j for j in sender.posted
                    if (sender.program.transfers[j].peer, sender.program.transfers[j].tag) == (node.program.node, t.tag)
                ]  # fmt: skip
                if not late:
                    return False
                read(sender, late[0])
            data = lines[key].popleft()
            place = node.held[t.first : t.last]
            place[...] = place + data if t.reduce else data
        node.at += 1
        return True

    while True:
        moved = [step(nodes[n]) for n in rng.permutation(len(nodes))]  # every one, not only until one has
        if not any(moved):
            break
    return nodes


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda one: one.name)
@pytest.mark.parametrize(("ranks", "elements"), [(2, 7), (4, 64), (6, 500), (8, 333)])
def test_every_algorithm_ends_right(algorithm: Algorithm, ranks: int, elements: int) -> None:
    table: Table = algorithm.build(ranks)
    nodes = carry_out(table, elements, np.random.default_rng(ranks))
    for node in nodes[: table.ranks]:
        assert node.at == len(node.program.order), "a rank waits for ever"
        assert wrong(node.held, node.program.output, table.ranks) == 0
    assert all(node.at == len(node.program.order) for node in nodes)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), which=st.integers(0, len(ALGORITHMS) - 1), ranks=st.integers(1, 9))
def test_no_order_of_events_matters(seed: int, which: int, ranks: int) -> None:
    table = ALGORITHMS[which].build(ranks)
    nodes = carry_out(table, 40, np.random.default_rng(seed))
    assert all(node.at == len(node.program.order) for node in nodes)
    assert sum(wrong(node.held, node.program.output, table.ranks) for node in nodes[:ranks]) == 0


def test_a_ring_of_two_by_hand() -> None:
    """Two ranks, ten elements: each sends the half that the other sums, then the half that it has summed."""
    program = programs(ring_all_reduce(2), 10)[0]
    sent = [(t.first, t.last) for t in program.transfers if t.sends]
    received = [(t.first, t.last, t.reduce, t.direct) for t in program.transfers if not t.sends]
    assert sorted(sent) == [(0, 5), (5, 10)]
    assert {r[2] for r in received} == {True, False}
    adding = next(r for r in received if r[2])
    copied = next(r for r in received if not r[2])
    assert sorted([adding[:2], copied[:2]]) == [(0, 5), (5, 10)]
    assert [do.what for do in program.order if do.what in (SEND, RECEIVE)] == [RECEIVE, SEND] * 2
    assert program.input == (Span(0, 10, EVERYWHERE),)
    assert program.output == (Span(0, 10, EVERYWHERE),)


def test_what_is_there_from_the_start_is_sent_at_once() -> None:
    """The pipelined naive algorithm has n - 1 steps, but a rank posts all of them before it waits for any."""
    table = next(one for one in ALGORITHMS if one.name == "pipelined naive").build(5)
    program = programs(table, 100)[2]
    first_wait = [do.what in (RECEIVED, SENT) for do in program.order].index(True)
    assert sum(do.what == SEND for do in program.order[:first_wait]) == 4
    assert program.keeps_input


def test_lockstep_has_the_same_barriers_everywhere() -> None:
    table = next(one for one in ALGORITHMS if one.name == "naive").build(4)
    counts = {sum(do.what == BARRIER for do in program.order) for program in programs(table, 12)}
    assert counts == {3}


def test_a_receive_waits_for_the_send_that_still_reads() -> None:
    """Rank 0 sends chunk 0 and receives a new one into it in the same step: not straight into place."""
    rows = {"step": [0, 0], "source": [0, 1], "destination": [1, 0], "chunk": 0, "reduce": True}
    table = make_table("swap", "all-reduce", rows, ranks=2, chunks=1)
    order = programs(table, 4)[0].order
    assert [do.what for do in order] == [RECEIVE, SEND, SENT, RECEIVED]


def test_too_many_messages_are_refused() -> None:
    with pytest.raises(LabError, match="messages in one call"):
        programs(ring_all_reduce(1200), 1200, range(1))


def test_wrong_counts_what_is_wrong() -> None:
    data = input_of(0, 200_000).copy()
    span = (Span(0, len(data), 0),)
    assert wrong(data, span, 2) == 0
    data[5], data[199_999] = np.nan, data[199_999] + 1e-3
    assert wrong(data, span, 2) == 2
    total = np.sum([input_of(rank, 1000).astype(np.float64) for rank in range(8)], axis=0)
    assert wrong(total.astype(np.float32), (Span(0, 1000, EVERYWHERE),), 8) == 0
    assert wrong((total * 1.0001).astype(np.float32), (Span(0, 1000, EVERYWHERE),), 8) > 900
    assert wrong(np.roll(input_of(0, 1000), 1), (Span(0, 1000, 0),), 2) == 1000
