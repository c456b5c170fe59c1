"""The event kernel: cases worked by hand, theorems, another simulation as the oracle, and what cannot be played."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_fabrics import leaf_spine

from podsim.errors import SimulationError
from podsim.network.collectives import ALGORITHMS, expand
from podsim.network.collectives.rings import ring_all_gather, ring_all_reduce
from podsim.network.flow import max_min_rates
from podsim.network.play import play as play_collective
from podsim.network.play_links import make_links
from podsim.simulation.events import critical_path, play
from podsim.simulation.ops import Ops, Streams, Transfers

close = pytest.approx


def ops(stream, seconds, edges=(), **more):
    """Ops from lists; `edges` are (before, after), `join` and `transfer` may be lists."""
    pairs = np.array(edges, np.int32).reshape(-1, 2)
    columns = {k: np.array(v, np.int32) if k in ("join", "transfer") else v for k, v in more.items()}
    return Ops(
        stream=np.array(stream, np.int32), seconds=np.array(seconds, float), before=pairs[:, 0].copy(),
        after=pairs[:, 1].copy(), **columns,
    )  # fmt: skip


def wires(capacity, routes, peak, latency=0.0, use=1.0):
    """Transfers of one kind a route: lists of links."""
    pointer = np.cumsum([0, *map(len, routes)])
    return Transfers(
        peak=np.broadcast_to(np.float64(peak), len(routes)).copy(), capacity=np.array(capacity, float),
        latency=np.broadcast_to(np.float64(latency), len(routes)).copy(),
        routes=(pointer.astype(np.int64), np.concatenate([*routes, []]).astype(np.int64)),
        use=np.full(int(pointer[-1]), use),
    )  # fmt: skip


def beside(streams, share, slows=(1,), slowed=(0,)):
    """One domain, in which some streams slow others."""
    kind = np.arange(streams)
    return Streams(
        domain=np.zeros(streams, np.int32),
        slows=np.isin(kind, slows),
        slowed=np.isin(kind, slowed),
        share=share,
    )


# by hand


def test_nothing_takes_no_time():
    played = play(ops([], []))
    assert played.seconds == 0
    assert len(critical_path(played)) == 0


def test_a_stream_runs_one_op_after_the_other():
    played = play(ops([0, 0, 0], [1.0, 2.0, 3.0]))
    assert played.start.tolist() == [0, 1, 3]
    assert played.end.tolist() == [1, 3, 6]
    assert played.why.tolist() == [-1, 0, 1]
    assert critical_path(played).tolist() == [0, 1, 2]


def test_an_op_waits_for_another_stream():
    """Stream 0: 1 s, then 1 s that needs the 3 s of stream 1."""
    played = play(ops([0, 0, 1], [1.0, 1.0, 3.0], [(2, 1)]))
    assert played.start.tolist() == [0, 3, 0]
    assert played.seconds == 4
    assert critical_path(played).tolist() == [2, 1]


def test_a_join_starts_when_its_last_member_can():
    """Two streams come to their collective after 1 s and 3 s; it takes each what it takes."""
    played = play(ops([0, 1, 0, 1], [1.0, 3.0, 2.0, 2.5], join=[-1, -1, 0, 0]))
    assert played.start.tolist() == [0, 0, 3, 3]
    assert played.end.tolist() == [1, 3, 5, 5.5]
    assert played.why[2] == played.why[3] == 1
    assert critical_path(played).tolist() == [1, 3]


def test_slowed_by_an_op_beside():
    """In 0.5 s at 0.9 of its speed an op does 0.45 of its 1 s; the rest takes 0.55 s."""
    played = play(ops([0, 1], [1.0, 0.5], streams=beside(2, 0.1)))
    assert played.end.tolist() == close([1.05, 0.5])


def test_two_that_slow_are_no_worse_than_one():
    played = play(ops([0, 1, 2], [1.0, 0.4, 0.6], streams=beside(3, 0.2, slows=(1, 2))))
    assert played.end[0] == close(0.6 + (1.0 - 0.6 * 0.8))


def test_slowing_is_of_one_domain_only():
    streams = replace(beside(2, 0.5), domain=np.array([0, 1], np.int32))
    assert play(ops([0, 1], [1.0, 0.5], streams=streams)).seconds == 1.0


def test_an_op_that_begins_beside_another_is_slow_from_the_start():
    played = play(ops([1, 0], [0.5, 0.9], [(0, 1)], streams=beside(2, 0.1)))
    assert played.end[1] == close(0.5 + 0.9)
    played = play(ops([2, 0, 1], [0.1, 0.9, 5.0], [(0, 1)], streams=beside(3, 0.1)))
    assert played.end[1] == close(0.1 + 1.0)


def test_transfers_share_a_link():
    """Two of 1 B over 1 B/s: half each for 2 s; one of 1 B and one of 2 B: 2 s, then 1 s alone."""
    pair = wires([1.0], [[0], [0]], peak=1.0)
    assert play(ops([0, 1], [1.0, 1.0], transfer=[0, 1], transfers=pair)).end.tolist() == close([2, 2])
    assert play(ops([0, 1], [1.0, 2.0], transfer=[0, 1], transfers=pair)).end.tolist() == close([2, 3])


def test_a_transfer_is_no_faster_than_its_peak_and_its_narrowest_link():
    many = wires([4.0, 1.0], [[0], [0, 1]], peak=2.0)
    played = play(ops([0, 1], [1.0, 1.0], transfer=[0, 1], transfers=many))
    assert played.end.tolist() == close([1.0, 2.0])  # 2 B at 2 B/s; 2 B at 1 B/s


def test_a_transfer_that_uses_a_link_twice_as_much_is_half_as_fast():
    twice = wires([1.0], [[0]], peak=1.0, use=2.0)
    assert play(ops([0], [1.0], transfer=[0], transfers=twice)).seconds == close(2.0)


def test_latency_comes_before_the_first_byte():
    """The second joins the link after 0.5 s: 0.5 B alone, then 0.5 B each at half speed, then its own rest alone."""
    pair = replace(wires([1.0], [[0], [0]], peak=1.0), latency=np.array([0.0, 0.5]))
    played = play(ops([0, 1], [1.0, 1.0], transfer=[0, 1], transfers=pair))
    assert played.end.tolist() == close([1.5, 2.0])
    assert played.start.tolist() == [0, 0]


def test_a_transfer_without_bytes_takes_no_time():
    one = wires([1.0], [[0]], peak=1.0, latency=3.0)
    assert play(ops([0, 0], [0.0, 1.0], transfer=[0, -1], transfers=one)).seconds == 1.0


def test_ops_without_time_pass_on_at_once():
    played = play(ops([0, 1, 0, 1], [0.0, 0.0, 1.0, 0.0], [(1, 2), (2, 3)], join=[0, 0, -1, -1]))
    assert played.end.tolist() == [0, 0, 1, 1]


# theorems


@st.composite
def graphs(draw, joins=False, transfers=False, slows=False):
    """Random ops whose edges lead from lower to higher numbers, so that they can be played."""
    n, streams = draw(st.integers(1, 14)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    stream = rng.integers(0, streams, n)
    seconds = np.round(rng.exponential(1.0, n), 2) * (rng.random(n) < 0.9)
    edges = [(a, b) for a in range(n) for b in range(a + 1, n) if rng.random() < 0.15]
    more = {}
    if joins:  # neighbours in number on different streams meet: no order can cross
        join = np.full(n, -1)
        for i in range(0, n - 1, 2):
            if stream[i] != stream[i + 1] and (i, i + 1) not in edges and rng.random() < 0.5:
                join[i : i + 2] = i // 2
        more["join"] = join
    kinds = 3
    more["transfer"] = np.where(rng.random(n) < 0.5, rng.integers(0, kinds, n), -1) if transfers else []
    if transfers:
        more["transfers"] = wires(
            rng.uniform(0.5, 2.0, 3), [[0], [0, 1], [1, 2]], rng.uniform(0.5, 3.0, 3), rng.uniform(0, 0.2, 3)
        )
    if slows:
        more["streams"] = beside(streams, 0.25, slows=(streams - 1,), slowed=range(streams - 1))
        more["transfer"] = []
    return ops(stream, seconds, edges, **more)


def longest(graph):
    """End of every op, where none shares and none is slowed: the longest path by the book."""
    end = np.zeros(len(graph.stream))
    for i in range(len(end)):
        before = [int(b) for b, a in zip(graph.before, graph.after, strict=True) if a == i]
        before += [k for k in range(i) if graph.stream[k] == graph.stream[i]]
        end[i] = max((end[b] for b in before), default=0.0) + graph.seconds[i]
    return end


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_pure_ops_take_the_longest_path(graph):
    assert play(graph).end == close(longest(graph))


@settings(max_examples=60, deadline=None)
@given(st.one_of(graphs(joins=True), graphs(joins=True, transfers=True), graphs(joins=True, slows=True)))
def test_what_every_play_keeps(graph):
    """Precedence, one op at a time, joins together, bounds from below, and a critical path without gaps."""
    played = play(graph)
    start, end = played.start, played.end
    assert np.all(start[graph.after] >= end[graph.before] - 1e-9)
    assert np.all(end - start >= graph.seconds - 1e-9)
    for s in np.unique(graph.stream):
        mine = np.flatnonzero(graph.stream == s)
        assert np.all(start[mine][1:] >= end[mine][:-1] - 1e-9)
        assert played.seconds >= graph.seconds[mine].sum() - 1e-9
    for j in np.unique(graph.join[graph.join >= 0]) if len(graph.join) else []:
        assert len(np.unique(start[graph.join == j])) == 1
    assert played.seconds >= longest(graph).max() - 1e-9
    assert played.seconds == end.max()
    path = critical_path(played)
    assert start[path[0]] == 0
    assert end[path[-1]] == played.seconds
    assert np.array_equal(start[path[1:]], end[path[:-1]])


@settings(max_examples=25, deadline=None)
@given(
    st.one_of(graphs(joins=True, transfers=True), graphs(slows=True)), st.sampled_from([1e-6, 0.5, 4.0, 1e5])
)
def test_a_change_of_units_scales_all_times(graph, unit):
    t = graph.transfers
    other = replace(
        graph, seconds=graph.seconds * unit,
        transfers=replace(t, peak=t.peak / unit, capacity=t.capacity / unit, latency=t.latency * unit),
    )  # fmt: skip
    assert play(other).end == close(play(graph).end * unit)


@settings(max_examples=25, deadline=None)
@given(graphs(joins=True, transfers=True))
def test_no_link_carries_more_than_its_capacity(graph):
    """Over any time in which the same transfers are under way, and in all."""
    played, t = play(graph), graph.transfers
    moved = graph.transfer >= 0
    kind = graph.transfer[moved]
    amount = graph.seconds[moved] * t.peak[kind]
    first = played.start[moved] + t.latency[kind]
    for link in range(len(t.capacity)):
        on = np.array([link in t.routes[1][t.routes[0][k] : t.routes[0][k + 1]] for k in kind], bool)
        on &= amount > 0
        if on.any():
            for low in first[on]:
                inside = on & (first >= low - 1e-9)
                span = played.end[moved][inside].max() - low
                assert amount[inside].sum() <= t.capacity[link] * span * (1 + 1e-9) + 1e-9


@settings(max_examples=20, deadline=None)
@given(graphs(joins=True, transfers=True))
def test_the_same_ops_play_the_same(graph):
    first, second = play(graph), play(graph)
    for name in ("start", "end", "why"):
        assert np.array_equal(getattr(first, name), getattr(second, name))


@settings(max_examples=25, deadline=None)
@given(graphs(joins=True, transfers=True), st.randoms(use_true_random=False))
def test_the_numbers_of_streams_and_joins_mean_nothing(graph, random):
    """Streams and joins renumbered: the same times, as ties change no rate."""
    streams = list(range(int(graph.stream.max()) + 1))
    random.shuffle(streams)
    numbers = list(range(int(graph.join.max(initial=0)) + 1))
    random.shuffle(numbers)
    join = np.where(graph.join >= 0, np.array(numbers)[np.maximum(graph.join, 0)], -1).astype(np.int32)
    other = replace(graph, stream=np.array(streams, np.int32)[graph.stream], join=join)
    assert play(other).end == close(play(graph).end, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 7))
def test_transfers_that_start_together_have_max_min_rates(seed, flows):
    """The first to end tells all rates: what each has moved by then, against the law of podsim.network.flow."""
    rng = np.random.default_rng(seed)
    capacity = rng.uniform(0.5, 2.0, 4)
    routes = [rng.choice(4, rng.integers(1, 4), replace=False).tolist() for _ in range(flows)]
    t = wires(capacity, routes, 1e6)
    own = [[*route, 4 + k] for k, route in enumerate(routes)]
    pointer = np.cumsum([0, *map(len, own)])
    rates = max_min_rates((pointer, np.concatenate(own)), [*capacity, *[1e6] * flows])
    # each has just as much to carry as its rate allows in one second, so that all end together
    graph = ops(range(flows), rates / 1e6, transfer=range(flows), transfers=t)
    assert play(graph).end == close(np.ones(flows))


# another simulation


def _lockstep(table, size, fabric):
    """A table whose steps follow each other, as ops: a step is its transfers, then an op without time on which the
    next one waits."""
    flat, _ = expand(table)
    bounds = np.concatenate([[0.0], np.cumsum(flat.sizes)]) * size
    amount = bounds[flat.chunk + flat.count] - bounds[flat.chunk]
    pointer, links = fabric.routes(flat.source, flat.destination)
    n = len(amount)
    stream, seconds, edges, gate = [], [], [], -1
    for step in np.unique(flat.step):
        rows = np.flatnonzero(flat.step == step)
        at = len(stream)
        stream += rows.tolist()
        seconds += (amount[rows] / 1e15).tolist()
        edges += [(gate, at + i) for i in range(len(rows)) if gate >= 0]
        gate = len(stream)
        stream.append(n)
        seconds.append(0.0)
        edges += [(at + i, gate) for i in range(len(rows))]
    order = [row for row in stream if row < n]
    transfer = [row if row < n else -1 for row in stream]
    assert len(order) == n
    kinds = wires(fabric.capacity, [links[pointer[i] : pointer[i + 1]] for i in range(n)], 1e15)
    return ops(stream, seconds, edges, transfer=transfer, transfers=kinds)


@pytest.mark.parametrize("fabric", [
    make_links([10e9] * 8, 0.0, lambda s, d: np.stack([s % 8, d % 8], axis=1)),
    leaf_spine(nodes=8, outside=10e9, leaf=4, taper=2.0),
], ids=["one link a rank", "tapered tree"])  # fmt: skip
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: a.name)
def test_collectives_take_what_the_network_says(algorithm, fabric):
    """A step at a time, the tables of all algorithms: two programs, one result."""
    table = replace(algorithm.build(8), lockstep=True)
    if table.switches and fabric.capacity.size > 8:
        pytest.skip("its switches are no nodes of this tree")
    size = 1e8
    assert play(_lockstep(table, size, fabric)).seconds == close(play_collective(table, size, fabric).seconds)


@pytest.mark.parametrize("build", [ring_all_reduce, ring_all_gather])
def test_rings_that_wait_for_their_own_data(build):
    """A rank sends on what it got in the step before, on one wire to its neighbour: uneven links, no lockstep."""
    ranks = 6
    capacity = np.random.default_rng(1).uniform(1e9, 3e9, ranks)
    fabric = make_links(capacity, 0.0, lambda s, d: s[:, None])
    table, _ = expand(build(ranks))
    row = {(int(a), int(b)): i for i, (a, b) in enumerate(zip(table.step, table.source, strict=True))}
    edges = [(row[k, (s - 1) % ranks], row[k + 1, s]) for k, s in row if (k + 1, s) in row]
    share = table.sizes[table.chunk] * 1e9
    kinds = wires(capacity, [[s] for s in range(ranks)], 1e12)
    graph = ops(table.source, share / 1e12, edges, transfer=table.source, transfers=kinds)
    assert play(graph).seconds == close(play_collective(build(ranks), 1e9, fabric).seconds)


# what cannot be played


def test_a_circle_is_named():
    with pytest.raises(
        SimulationError, match=r"2 of 3 ops never start: op 1 \(stream 1\) waits for op 2 \(stream 2\)"
    ):
        play(ops([0, 1, 2], [1.0, 1.0, 1.0], [(1, 2), (2, 1)]))
    with pytest.raises(SimulationError, match=r"op 0 .* waits for op 0"):
        play(ops([0], [1.0], [(0, 0)]))


def test_an_op_that_waits_for_a_later_one_of_its_stream():
    with pytest.raises(SimulationError, match=r"op 0 .* waits for op 1 .* waits for op 0"):
        play(ops([0, 0], [1.0, 1.0], [(1, 0)]))


def test_joins_in_different_orders_are_a_deadlock():
    """Two streams come to two collectives in opposite orders, as real jobs hang."""
    with pytest.raises(SimulationError, match="4 of 4 ops never start") as said:
        play(ops([0, 0, 1, 1], [1.0] * 4, join=[0, 1, 1, 0]))
    for op in range(4):
        assert f"op {op} " in str(said.value)
    with pytest.raises(SimulationError, match="never start"):
        play(ops([0, 0], [1.0, 1.0], join=[0, 0]))


def test_a_long_circle_is_cut():
    n = 5000
    edges = [(i, (i + 1) % n) for i in range(n)]
    with pytest.raises(SimulationError, match=f"{n} of {n} ops never start") as said:
        play(ops(range(n), [1.0] * n, edges))
    assert len(str(said.value)) < 400


GOOD = wires([1.0], [[0]], peak=1.0)


@pytest.mark.parametrize(("graph", "said"), [
    (ops([0, 0], [1.0]), "1 seconds, not 2"),
    (ops([0], [-1.0]), "seconds 0: -1; must be finite"),
    (ops([0], [np.nan]), "seconds 0: nan"),
    (ops([0], [np.inf]), "seconds 0: inf"),
    (ops([-1], [1.0]), "stream 0: -1; streams count from 0"),
    (ops([0], [1.0], [(0, 3)]), "after 0: 3; op does not exist"),
    (ops([0], [1.0], [(-2, 0)]), "before 0: -2; op does not exist"),
    (replace(ops([0], [1.0]), before=np.zeros(1, np.int32)), "0 after, not 1"),
    (ops([0], [1.0], join=[0, 1]), "2 join, not 1"),
    (ops([0], [1.0], transfer=[2], transfers=GOOD), "transfer 0: 2; there are 1 kinds"),
    (ops([0], [1.0], transfer=[0]), "transfer 0: 0; there are 0 kinds"),
    (ops([0, 1], [1.0, 1.0], streams=beside(2, 1.0)), "share 0: 1; ops can lose"),
    (ops([0, 1, 2], [1.0] * 3, streams=beside(2, 0.1)), "2 domain, not 3"),
    (ops([0], [1.0], streams=replace(beside(1, 0.1), domain=np.array([-1], np.int32))), "domain 0: -1"),
    (ops([0, 1], [1.0, 1.0], transfer=[0, -1], transfers=GOOD, streams=beside(2, 0.1)), "others slow it"),
    (ops([0], [1.0], transfers=wires([0.0], [[0]], peak=1.0)), "capacity 0: 0; must be positive"),
    (ops([0], [1.0], transfers=wires([1.0], [[4]], peak=1.0)), "link 0: 4; there are 1 links"),
    (ops([0], [1.0], transfers=wires([1.0], [[0]], peak=np.inf)), "peak 0: inf"),
    (ops([0], [1.0], transfers=wires([1.0], [[0]], peak=1.0, latency=-1.0)), "latency 0: -1"),
    (ops([0], [1.0], transfers=wires([1.0], [[0]], peak=1.0, use=0.0)), "use 0: 0; must be positive"),
    (ops([0], [1.0], transfers=replace(GOOD, latency=np.zeros(2))), "2 latency, not 1"),
    (ops([0], [1.0], transfers=replace(GOOD, routes=(np.array([0, 0]), np.array([0])))), "rise from 0 to 1"),
], ids=lambda value: value if isinstance(value, str) else "")  # fmt: skip
def test_what_makes_no_sense_is_refused(graph, said):
    with pytest.raises(SimulationError, match=said.replace("(", "\\(")):
        play(graph)


def test_all_mistakes_at_once():
    with pytest.raises(SimulationError, match=r"seconds 0: -1.*streams count from 0"):
        play(ops([-3], [-1.0]))
