"""The simulation of tables on links: cases worked by hand, theorems, and a slow simulation as the oracle.

The oracle shares nothing with the simulation but the max-min law: it writes trains out, finds what waits for what by
comparing every pair of transfers, and solves all shares at every event.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_fabrics import leaf_spine, single_switch
from table_laws import cost, lower_bound

from podsim.errors import ClusterError, TableError
from podsim.hardware.parts import Link
from podsim.network.collectives import ALGORITHMS, expand, make_table, split, summary
from podsim.network.collectives.algorithms import servers
from podsim.network.collectives.direct import direct_all_reduce, naive_all_reduce
from podsim.network.collectives.hierarchical import hierarchical_all_reduce
from podsim.network.collectives.rings import (
    chain_broadcast,
    multi_ring_all_reduce,
    rail_orders,
    ring_all_gather,
    ring_all_reduce,
)
from podsim.network.flow import max_min_rates
from podsim.network.play import play, prepare
from podsim.network.play_links import make_links
from podsim.network.play_state import run

each = pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: a.name)


def sends(*rows, ranks, chunks=1, collective="broadcast", **options):
    """A table of (step, source, destination, chunk)."""
    columns = {
        name: [row[k] for row in rows] for k, name in enumerate(("step", "source", "destination", "chunk"))
    }
    return make_table("mine", collective, columns, ranks=ranks, chunks=chunks, **options)


def trunk(*, ranks, wide, between, latency=0.0):
    """Every rank has a link of its own; all routes cross one link more, the last."""
    return make_links(
        [*[wide] * ranks, between], latency, lambda s, d: np.stack([s, np.full_like(s, ranks)], axis=1)
    )


def slow_play(table, size, fabric):
    """(seconds, when each rank has received all and sent all), by the book."""
    flat, row = expand(table)
    n = len(flat.step)
    ends = np.concatenate([[0.0], np.cumsum(flat.sizes)]) * size
    left = ends[flat.chunk + flat.count] - ends[flat.chunk]
    indptr, links = fabric.routes(flat.source, flat.destination)
    delay = np.array([fabric.latency[links[indptr[i] : indptr[i + 1]]].sum() for i in range(n)])
    data, wire = [set() for _ in range(n)], [set() for _ in range(n)]
    order = np.lexsort((row, flat.step))
    for place, a in enumerate(order):
        for b in order[:place]:
            if (flat.source[a], flat.destination[a], flat.channel[a]) == (
                flat.source[b], flat.destination[b], flat.channel[b],
            ):  # fmt: skip
                wire[a].add(b)
            meet = (
                flat.chunk[a] < flat.chunk[b] + flat.count[b]
                and flat.chunk[b] < flat.chunk[a] + flat.count[a]
            )
            if (
                flat.destination[b] == flat.source[a]
                and flat.step[b] < flat.step[a]
                and meet
                and not flat.own[a]
            ):
                data[a].add(b)
    sent, there, started = np.full(n, np.inf), np.full(n, np.inf), np.zeros(n, bool)
    now, finish = 0.0, np.zeros(table.nodes)
    while not np.all(there <= now):
        for a in range(n):
            if (
                not started[a]
                and all(there[b] <= now for b in data[a])
                and all(sent[b] <= now for b in wire[a])
            ):
                started[a] = True
        active = np.flatnonzero(started & np.isinf(sent))
        pieces = [links[indptr[a] : indptr[a + 1]] for a in active]
        rates = max_min_rates(
            (np.cumsum([0, *map(len, pieces)]), np.concatenate([*pieces, np.empty(0, np.int64)])),
            fabric.capacity,
        )
        need = np.where(left[active] > 0, left[active] / rates, 0.0)
        coming = there[(there > now) & np.isfinite(there)] - now
        step = min([*need, *coming])
        ended = active[need <= step * (1 + 1e-9)]
        left[active] -= np.where(np.isinf(rates), 0.0, rates * step)
        now = now + step if not len(coming) or step < coming.min() else float(there[(there > now)].min())
        sent[ended], there[ended] = now, now + delay[ended]
    np.maximum.at(finish, flat.destination, there)
    np.maximum.at(finish, flat.source, sent)
    return there.max(initial=0.0), finish[: table.ranks]


# ---------------------------------------------------------------- by hand


def test_a_ring_of_four():
    # 1 B chunks at 1 B/s: six steps of 1 s; each rank's link up carries 6 B and never rests
    played = play(ring_all_reduce(4), 4.0, single_switch(4, 1.0))
    assert played.seconds == pytest.approx(6.0)
    assert played.finish == pytest.approx([6.0] * 4)
    assert played.link_bytes == pytest.approx([6.0] * 8)
    assert played.link_busy == pytest.approx([6.0] * 8)
    assert (played.events, played.simulated) == (24, 24)


def test_latency_is_paid_once_a_step():
    assert play(ring_all_reduce(4), 4.0, single_switch(4, 1.0, 0.5)).seconds == pytest.approx(6 * 1.5)
    assert play(
        sends((0, 0, 1, 0), (1, 1, 2, 0), ranks=3), 1.0, single_switch(3, 1.0, 0.1)
    ).seconds == pytest.approx(2.2)


def test_two_groups_share_a_link():
    # 1 B each over a common link of 1 B/s: half the rate for both, 2 s; a group of half the size leaves after 1 s
    table = sends((0, 0, 1, 0), (0, 2, 3, 1), ranks=4, chunks=2, collective="all-to-all", sizes=[1.0, 1.0])
    assert play(table, 1.0, trunk(ranks=4, wide=1.0, between=1.0)).seconds == pytest.approx(2.0)
    table = replace(table, sizes=np.array([0.5, 1.0]))
    played = play(table, 1.0, trunk(ranks=4, wide=1.0, between=1.0))
    assert played.finish == pytest.approx([1.0, 1.0, 1.5, 1.5])
    assert played.link_busy == pytest.approx([1.0, 0.0, 1.5, 0.0, 1.5])


def test_a_degraded_link_slows_the_whole_ring():
    # rank 0 sends at half rate: its six transfers take 2 s each, the others wait for them in turn
    played = play(ring_all_reduce(4), 4.0, single_switch(4, [0.5, 1.0, 1.0, 1.0], down=1.0))
    assert played.seconds == pytest.approx(12.0)
    # rank i's last transfer ends at 12, 11, 10, 9 s; it is done when that of the rank before it has come, too
    assert played.finish == pytest.approx([12.0, 12.0, 11.0, 10.0])


def test_a_taper_of_two_to_one_doubles_what_crosses_it():
    table = sends((0, 0, 2, 0), (0, 1, 3, 0), ranks=4)
    full = leaf_spine(nodes=4, outside=1.0, leaf=2)
    half = leaf_spine(nodes=4, outside=1.0, leaf=2, taper=0.5)
    assert play(table, 1.0, full).seconds == pytest.approx(1.0)
    assert play(table, 1.0, half).seconds == pytest.approx(2.0)


def test_a_rate_rises_when_another_flow_ends():
    # three flows leave rank 0 at 1/3 each; that of 1 B ends at 3 s; then 1/2 each, 2 B more at 7 s, the last 1 B at 8 s
    table = sends((0, 0, 1, 0), (0, 0, 2, 1), (0, 0, 3, 2), ranks=4, chunks=3, sizes=[1.0, 3.0, 4.0])
    played = play(table, 1.0, single_switch(4, 1.0, down=10.0))
    assert played.finish == pytest.approx([8.0, 3.0, 7.0, 8.0])


def test_hierarchy_in_closed_form():
    # 2 servers of 4: 3/4 S over the inside twice, and S/4 over each rail, half of it there, half back
    fabric = leaf_spine(nodes=2, local=4, inside=12.0, outside=1.0, leaf=2)
    played = play(hierarchical_all_reduce(2, 4), 8.0, fabric)
    assert played.seconds == pytest.approx(2 * 6.0 / 12.0 + 2 * 1.0)


def test_chunks_of_a_chain_follow_each_other():
    # pieces of 1 B at 1 B/s over 3 hops with 10 s of latency: 4 pieces, the last leaves at 4 s and needs 3 s more, 30 s
    played = play(chain_broadcast(4, pieces=4), 4.0, single_switch(4, 1.0, 10.0))
    assert played.seconds == pytest.approx(4 + 2 + 30)


def test_many_transfers_under_way_in_long_links():
    # a thousand pieces are in the latency of the link at one time
    played = play(chain_broadcast(2, pieces=1000), 1.0, single_switch(2, 1.0, 100.0))
    assert played.seconds == pytest.approx(101.0)
    assert played.events == 1000


def test_one_edge_sends_one_after_the_other_channels_together():
    row = {"step": 0, "source": 0, "destination": 1, "chunk": [0, 1]}
    wide = single_switch(2, 1.0)
    serial = play(make_table("serial", "broadcast", row, ranks=2, chunks=2, sizes=[1.0, 3.0]), 1.0, wide)
    together = play(
        make_table("two", "broadcast", row | {"channel": [0, 1]}, ranks=2, chunks=2, sizes=[1.0, 3.0]),
        1.0,
        wide,
    )
    assert serial.seconds == together.seconds == pytest.approx(4.0)
    assert serial.link_busy == pytest.approx(together.link_busy)


def test_lockstep_waits_for_everybody():
    # naive: each rank in its turn; let go, all of them at once
    table = naive_all_reduce(4)
    fabric = single_switch(4, 1.0)
    assert play(table, 1.0, fabric).seconds == pytest.approx(12.0)
    assert play(replace(table, lockstep=False), 1.0, fabric).seconds == pytest.approx(3.0)
    assert play(table, 1.0, fabric).link_bytes == pytest.approx([3.0] * 8)


def test_local_routes_take_no_time():
    nowhere = make_links([1.0], 0.0, lambda s, d: np.full((len(s), 1), -1))
    assert play(ring_all_reduce(3), 9.0, nowhere).seconds == 0.0


def test_no_rows_no_time():
    played = play(ring_all_reduce(1), 9.0, single_switch(1, 1.0))
    assert (played.seconds, played.events) == (0.0, 0)
    assert played.finish.tolist() == [0.0]


# ---------------------------------------------------------------- the oracle


@st.composite
def tables(draw):
    """Any table of trains and single transfers, sensible or not; timing asks for no sense."""
    ranks = draw(st.integers(2, 4))
    rows = []
    for _ in range(draw(st.integers(1, 7))):
        source = draw(st.integers(0, ranks - 1))
        destination = (source + draw(st.integers(1, ranks - 1))) % ranks
        wheel, count = draw(st.sampled_from([(1, 1), (1, 2), (1, 3), (3, 1), (6, 1), (6, 2), (4, 2), (2, 1)]))
        turn = draw(st.sampled_from([-1, 1])) if wheel > 1 else 0
        limit = 12 - (wheel if wheel > 1 else count)
        chunk = draw(st.integers(0, limit)) // count * count
        chunk = chunk if wheel == 1 or chunk // wheel * wheel + wheel <= 12 else 0
        repeat = draw(st.integers(1, 7)) if turn else 1
        rows.append((draw(st.integers(0, 5)), source, destination, chunk, count, turn, wheel, repeat))
    names = ("step", "source", "destination", "chunk", "count", "turn", "wheel", "repeat")
    columns = {name: [row[k] for row in rows] for k, name in enumerate(names)}
    columns["channel"] = draw(st.lists(st.integers(0, 1), min_size=len(rows), max_size=len(rows)))
    columns["own"] = draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    sizes = draw(st.sampled_from([None, "uneven"]))
    return make_table(
        "any",
        "broadcast",
        columns,
        ranks=ranks,
        chunks=12,
        sizes=None if sizes is None else np.arange(1, 13) / 7.0,
    )


@settings(max_examples=150, deadline=None)
@given(tables(), st.integers(0, 3))
def test_any_table_as_the_slow_simulation_has_it(table, kind):
    fabric = (
        single_switch(4, 1.0, 0.3),
        single_switch(4, [1.0, 2.0, 0.7, 1.3], 0.0, down=1.1),
        trunk(ranks=4, wide=1.0, between=1.5, latency=0.2),
        leaf_spine(nodes=2, local=2, inside=3.0, outside=1.0, leaf=1, taper=0.6, outside_latency=0.1),
    )[kind]
    seconds, finish = slow_play(table, 3.0, fabric)
    for fold in (False, True):
        played = play(table, 3.0, fabric, fold=fold)
        assert played.seconds == pytest.approx(seconds, rel=1e-9)
        assert played.finish == pytest.approx(finish, rel=1e-9)


@each
def test_every_algorithm_as_the_slow_simulation_has_it(algorithm):
    for ranks, elements in ((4, 5), (6, 11)):
        table = split(algorithm.build(ranks), elements)
        if table.lockstep:
            continue
        fabric = single_switch(ranks, 1.0 + np.arange(ranks) / 10, 0.03, down=1.2)
        seconds, finish = slow_play(table, 3.0, fabric)
        played = play(table, 3.0, fabric)
        assert played.seconds == pytest.approx(seconds, rel=1e-9)
        assert played.finish == pytest.approx(finish, rel=1e-9)


# ---------------------------------------------------------------- theorems


@each
def test_in_lockstep_the_simulation_is_the_cost(algorithm):
    # equal links, no link shared but ports: a step ends when its busiest port does, as costs have it
    for ranks in (2, 8, 12):
        table = replace(algorithm.build(ranks), lockstep=True)
        delay = 0.0 if table.switches else 1e-6  # to a switch it is half the way
        played = play(table, 64e6, single_switch(ranks, 1e9, delay))
        least = cost(table, 64e6, 1e9, delay)
        assert played.seconds >= least * (1 - 1e-9)
        if "hierarchical all-to-all" not in algorithm.name and "tree" not in algorithm.name:
            assert played.seconds == pytest.approx(least)


@each
def test_lower_bound_holds(algorithm):
    link = Link(name="wire", bandwidth=1e9, latency=1e-6)
    for ranks in (2, 5, 8):
        table = algorithm.build(ranks)
        bound = lower_bound(
            algorithm.collective, ranks, 1e6, link, fan=max(ranks - 1, 1), in_network=bool(table.switches)
        )
        assert play(table, 1e6, single_switch(ranks, 1e9, 1e-6)).seconds >= bound * (1 - 1e-9)


@each
def test_bytes_are_conserved_and_links_never_overfull(algorithm):
    ranks = 12
    nodes, local = servers(ranks)
    table = algorithm.build(ranks)
    for fabric in (
        single_switch(ranks, 1e9),
        leaf_spine(nodes=nodes, local=local, inside=4e9, outside=1e9, leaf=1, taper=0.5, uplinks=2),
    ):
        if table.switches and len(fabric.capacity) > 2 * ranks:
            continue
        played = play(table, 12e6, fabric)
        assert np.all(played.link_bytes <= fabric.capacity * played.link_busy * (1 + 1e-9))
        assert np.all(played.link_busy <= played.seconds * (1 + 1e-9))
        if len(fabric.capacity) == 2 * ranks:
            assert played.link_bytes.sum() == pytest.approx(
                summary(table, 12e6).total * (1 if table.switches else 2)
            )


@each
def test_change_of_units(algorithm):
    table, ranks = algorithm.build(6), 6
    base = play(table, 1e6, single_switch(ranks, 1e9, 1e-5))
    bytes_ = play(table, 8e6, single_switch(ranks, 8e9, 1e-5))
    slower = play(table, 1e6, single_switch(ranks, 1e9 / 1024, 1024e-5))
    assert bytes_.finish == pytest.approx(base.finish)
    assert slower.finish == pytest.approx(base.finish * 1024)


@each
def test_folded_is_unfolded(algorithm):
    for ranks in (1, 2, 3, 8, 16, 24):
        table = algorithm.build(ranks)
        nodes, local = servers(ranks)
        tapered = leaf_spine(
            nodes=nodes,
            local=local,
            inside=10e9,
            outside=1e9,
            leaf=2,
            taper=0.5,
            outside_latency=1e-5,
            spine_latency=1e-6,
        )
        for fabric in (single_switch(ranks, 1e9, 1e-6), tapered):
            if not table.switches or len(fabric.capacity) == 2 * ranks:
                same(play(table, 64e6, fabric), play(table, 64e6, fabric, fold=True))


def same(unfolded, folded):
    for name in ("seconds", "finish", "link_bytes", "link_busy", "events"):
        assert getattr(folded, name) == pytest.approx(getattr(unfolded, name), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("uplinks", [1, 4])
def test_folding_512_ranks(uplinks):
    fabric = leaf_spine(
        nodes=64, local=8, inside=300e9, outside=25e9, leaf=8, taper=0.5, uplinks=uplinks, spine_latency=1e-6
    )
    table = hierarchical_all_reduce(64, 8)
    unfolded, folded = play(table, 1e9, fabric), play(table, 1e9, fabric, fold=True)
    same(unfolded, folded)
    assert folded.simulated < unfolded.simulated / 20


def test_folding_breaks_where_a_link_is_degraded():
    table = direct_all_reduce(16)
    even = single_switch(16, 1e9, 1e-6)
    odd = replace(even, capacity=np.where(np.arange(32) == 5, 0.5e9, even.capacity))
    unfolded, folded = play(table, 64e6, odd), play(table, 64e6, odd, fold=True)
    same(unfolded, folded)
    assert play(table, 64e6, even, fold=True).simulated == 2
    assert 2 < folded.simulated < unfolded.simulated


def test_folding_keeps_channels_of_a_lane_apart():
    table = multi_ring_all_reduce(rail_orders(2, 4))
    fabric = leaf_spine(nodes=2, local=4, inside=3e9, outside=1e9, leaf=2)
    same(play(table, 64e6, fabric), play(table, 64e6, fabric, fold=True))


def test_prepared_once_played_with_any_size():
    prepared = prepare(ring_all_gather(8), single_switch(8, 1e9, 1e-6))
    for size in (0.0, 1e3, 1e9):
        assert play(prepared, size).seconds == pytest.approx(7 * (1e-6 + size / 8 / 1e9))


def test_random_rings_agree_with_the_slow_simulation():
    rng = np.random.default_rng(3)
    table = replace(ring_all_reduce(16, rng.permutation(16)))
    fabric = leaf_spine(nodes=16, outside=1.0, leaf=4, taper=0.5, uplinks=2, outside_latency=0.01)
    seconds, finish = slow_play(table, 16.0, fabric)
    played = play(table, 16.0, fabric)
    assert played.seconds == pytest.approx(seconds, rel=1e-9)
    assert played.finish == pytest.approx(finish, rel=1e-9)
    assert 0 < played.solved < played.events  # what has been solved is remembered


# ---------------------------------------------------------------- refusals


def test_refusals():
    table = ring_all_reduce(4)
    dead = replace(single_switch(4, 1.0), capacity=np.array([1.0, 0.0, 1, 1, 1, 1, 1, 1]))
    with pytest.raises(ClusterError, match="link 1, on the way from 1 to 2, has capacity 0 B/s"):
        play(table, 1.0, dead)
    with pytest.raises(ClusterError, match="link 9 does not exist; there are links 0 to 0"):
        play(table, 1.0, make_links([1.0], 0.0, lambda s, d: np.full((len(s), 1), 9)))
    with pytest.raises(ClusterError, match="latency nan"):
        play(table, 1.0, single_switch(4, 1.0, float("nan")))
    with pytest.raises(ClusterError, match="all must be at least 1"):
        leaf_spine(nodes=0, outside=1.0, leaf=1)
    with pytest.raises(TableError, match="size nan B"):
        play(table, float("nan"), single_switch(4, 1.0))
    with pytest.raises(TableError, match="no fabric to play on"):
        play(table, 1.0)
    with pytest.raises(TableError, match="row 0: source 0 sends to itself"):
        play(sends((0, 0, 0, 0), ranks=2), 1.0, single_switch(2, 1.0))


def test_a_long_play_comes_back_to_python_for_ctrl_c(monkeypatch):
    calls = []

    def counted(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return run(*arguments)

    monkeypatch.setattr("podsim.network.play_trains.run", counted)
    monkeypatch.setattr("podsim.network.play_trains._WORTH", 10**12)  # each transfer is an event
    ranks = 1200
    fabric = single_switch(ranks, 1e9)
    played = play(ring_all_reduce(ranks), 1.2e6, fabric)
    assert played.events == played.simulated == 2 * ranks * (ranks - 1) > 2_000_000
    assert played.seconds == pytest.approx(2 * (ranks - 1) * 1e-6)
    assert len(calls) == 2
    with pytest.raises(KeyboardInterrupt):
        play(ring_all_reduce(ranks), 1.2e6, fabric)
