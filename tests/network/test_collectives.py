"""Collectives as tables: proofs, refusals, costs in closed form, and what no table can beat."""

from __future__ import annotations

from math import ceil, log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_laws import cost, execute, lower_bound

from podsim.errors import TableError
from podsim.hardware.parts import Link
from podsim.network.collectives import ALGORITHMS, check, expand, lookup, make_table, prove, split, summary
from podsim.network.collectives.algorithms import servers
from podsim.network.collectives.direct import (
    direct_all_to_all,
    naive_all_reduce,
    parameter_server_all_reduce,
)
from podsim.network.collectives.hierarchical import (
    hierarchical_all_reduce,
    hierarchical_all_to_all,
    server_ring_all_reduce,
)
from podsim.network.collectives.rings import (
    chain_broadcast,
    chain_reduce,
    multi_ring_all_reduce,
    rail_orders,
    ring_all_gather,
    ring_all_reduce,
)
from podsim.network.collectives.trees import double_tree_all_reduce, tree_parents

each = pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: a.name)
BY_NAME = {algorithm.name: algorithm.build for algorithm in ALGORITHMS}


@each
def test_every_rank_ends_with_the_right_content(algorithm):
    for ranks in [*range(1, 18), 24, 31, 32, 33, 48, 63, 64]:
        prove(algorithm.build(ranks))


@pytest.mark.parametrize("ranks", range(1, 65))
def test_halving_doubling_away_from_powers_of_two(ranks):
    prove(BY_NAME["halving-doubling"](ranks))


@each
def test_sums_of_numbers_with_odd_sizes(algorithm):
    # against numpy: element by element, chunks of different lengths
    for ranks, elements in ((1, 5), (3, 17), (6, 101), (8, 64), (12, 1009)):
        table = algorithm.build(ranks)
        cells = elements * (ranks if algorithm.collective == "all-to-all" else 1)
        table = split(table, elements)
        inputs = np.random.default_rng(ranks).integers(-99, 99, (ranks, cells))
        outputs = execute(table, inputs)
        share = np.cumsum(np.concatenate([[0.0], table.sizes]))
        cuts = np.rint(share / share[-1] * cells).astype(int)
        assert cuts[-1] == cells
        for chunk in range(table.chunks):
            span = slice(cuts[chunk], cuts[chunk + 1])
            home, goal = table.home[chunk], table.goal[chunk]
            wanted = inputs[:, span].sum(axis=0) if home < 0 else inputs[home, span]
            for rank in range(ranks) if goal < 0 else [goal]:
                assert np.array_equal(outputs[rank, span], wanted)


@each
def test_trains_written_out_are_the_same_table(algorithm):
    for ranks in (2, 5, 12):
        table = algorithm.build(ranks)
        flat, _ = expand(table)
        assert len(flat.step) == table.transfers
        prove(flat)
        assert list(vars(summary(flat, 7.0)).values()) == pytest.approx(
            list(vars(summary(table, 7.0)).values())
        )
        assert cost(flat, 1e6, 1e9, 1e-6) == pytest.approx(cost(table, 1e6, 1e9, 1e-6))


@each
def test_cost_keeps_the_lower_bound(algorithm):
    link = Link(name="wire", bandwidth=25e9, latency=2e-6)
    for ranks in (1, 2, 7, 16, 24):
        table = algorithm.build(ranks)
        figures = summary(table)
        for size in (0.0, 1e3, 1e9):
            bound = lower_bound(
                algorithm.collective, ranks, size, link, fan=max(figures.fan_out, figures.fan_in, 1),
                in_network=bool(table.switches),
            )  # fmt: skip
            assert cost(table, size, link.bandwidth, link.latency) >= bound * (1 - 1e-12)


# ---------------------------------------------------------------- closed forms, n ranks, S bytes, B B/s, a s


@pytest.mark.parametrize("ranks", [2, 3, 8, 64])
def test_costs_in_closed_form(ranks):
    size, rate, delay = 1e9, 25e9, 5e-6
    n, whole = ranks, size / rate

    def seconds(name):
        return cost(BY_NAME[name](ranks), size, rate, delay)

    assert seconds("parameter server") == pytest.approx(2 * (delay + (n - 1) * whole))
    assert seconds("naive") == pytest.approx(n * (delay + (n - 1) * whole))
    assert seconds("pipelined naive") == pytest.approx((n - 1) * (delay + whole))
    assert seconds("partitioned") == pytest.approx(2 * (delay + (n - 1) / n * whole))
    assert seconds("ring") == pytest.approx(2 * (n - 1) * (delay + whole / n))
    assert seconds("ring all-gather") == pytest.approx((n - 1) * (delay + whole / n))
    assert seconds("binomial broadcast") == pytest.approx(ceil(log2(n)) * (delay + whole))
    assert seconds("chain broadcast") == pytest.approx((n - 2 + 4) * (delay + whole / 4))
    assert seconds("in-network") == pytest.approx(5 * delay + 1.25 * whole)
    assert seconds("direct all-to-all") == pytest.approx((n - 1) * (delay + whole / n))


@pytest.mark.parametrize("bits", range(1, 8))
def test_halving_doubling_in_closed_form(bits):
    n = 1 << bits
    seconds = cost(BY_NAME["halving-doubling"](n), 1e9, 25e9, 5e-6)
    assert seconds == pytest.approx(2 * bits * 5e-6 + 2 * (n - 1) / n * 1e9 / 25e9)


def test_the_comparison_of_a_lecture_for_any_ranks_and_parameters():
    # N ranks, P parameters: bytes at the busiest node in a step, and rounds
    ranks, size = 10, 4e6
    rows = {
        name: summary(BY_NAME[name](ranks), size)
        for name in ("parameter server", "naive", "partitioned", "ring")
    }
    assert (rows["parameter server"].rounds, rows["parameter server"].peak) == (2, 9 * size)
    assert (rows["naive"].rounds, rows["naive"].peak, rows["naive"].total) == (10, 9 * size, 90 * size)
    assert (rows["partitioned"].rounds, rows["partitioned"].peak) == (2, pytest.approx(9 * size / 10))
    assert (rows["ring"].rounds, rows["ring"].peak) == (18, pytest.approx(size / 10))
    assert rows["ring"].fan_in == 1
    assert rows["parameter server"].fan_in == 9
    assert rows["ring"].sent_most == pytest.approx(2 * 9 / 10 * size)


def test_summary_of_uneven_chunks():
    table = split(ring_all_reduce(3), 4)  # 2, 1, 1 elements
    assert summary(table, 4.0).peak == 2.0
    assert cost(table, 4.0, 1.0) == 8.0  # the long chunk is under way in each of four steps


def test_summary_of_a_large_ring_takes_trains_as_they_are():
    figures = summary(ring_all_reduce(4480), 2.0**30)
    assert (figures.rounds, figures.transfers) == (8958, 40_131_840)
    assert figures.sent_most == pytest.approx(2 * 4479 / 4480 * 2**30)


# ---------------------------------------------------------------- shapes of algorithms


def test_tree_parents_are_those_of_nccl():
    assert tree_parents(8).tolist() == [-1, 2, 4, 2, 0, 6, 4, 6]
    assert tree_parents(6).tolist() == [-1, 2, 4, 2, 0, 4]
    for ranks in range(1, 200):
        parent = tree_parents(ranks)
        children = np.bincount(parent[1:], minlength=ranks) if ranks > 1 else np.zeros(1)
        assert children.max() <= 2
        assert children[1::2].max(initial=0) == 0  # odd ranks are leaves


@pytest.mark.parametrize("ranks", [8, 9, 64, 65])
def test_double_tree_halves_the_load_of_the_inside(ranks):
    table = double_tree_all_reduce(ranks)
    inner = [set(table.destination[(table.channel == c) & table.reduce].tolist()) for c in (0, 1)]
    assert len(inner[0] & inner[1]) <= 1  # only a root may be inside both


def test_rail_orders_enter_each_node_at_their_rail():
    orders = rail_orders(2, 4)
    assert orders[1].tolist() == [1, 2, 3, 0, 5, 6, 7, 4]
    prove(multi_ring_all_reduce(orders))
    prove(multi_ring_all_reduce([[0, 1, 2], [2, 1, 0]]))


def test_orders_must_be_permutations():
    with pytest.raises(TableError, match="must visit ranks 0 to 3 once each"):
        ring_all_reduce(4, [0, 1, 2, 2])


@pytest.mark.parametrize(("nodes", "local"), [(1, 1), (1, 8), (5, 1), (3, 4), (7, 8), (8, 8)])
def test_hierarchies(nodes, local):
    for build in (hierarchical_all_reduce, server_ring_all_reduce):
        prove(build(nodes, local))
    figures = summary(hierarchical_all_reduce(nodes, local))
    assert figures.sent_most == pytest.approx(
        2 * (local - 1) / local + 2 * (nodes - 1) / nodes / local if nodes * local > 1 else 0
    )


def test_servers_are_as_large_as_can_be():
    assert [servers(n) for n in (1, 8, 12, 13, 64)] == [(1, 1), (1, 8), (2, 6), (13, 1), (8, 8)]


def test_rings_in_any_order():
    order = np.random.default_rng(0).permutation(13)
    prove(ring_all_reduce(13, order))
    prove(ring_all_gather(13, order))


# ---------------------------------------------------------------- what check and prove refuse


def table_of(rows, *, ranks=4, chunks=2, collective="broadcast", **options):
    names = ("step", "source", "destination", "chunk", "reduce")
    columns = {name: [row[k] for row in rows] for k, name in enumerate(names)}
    return make_table(
        "mine", collective, columns | options.pop("columns", {}), ranks=ranks, chunks=chunks, **options
    )


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [(0, 0, 1, 0, 0), (1, 2, 3, 1, 0)],
            "row 1: rank 2 reads chunk 1 in step 1, which nobody sent to it",
        ),
        ([(0, 0, 1, 0, 0), (0, 1, 2, 0, 0)], r"row 1: .* arrives only in step 0 \(row 0\): deadlock"),
        ([(0, 1, 2, 0, 0), (1, 0, 1, 0, 0)], r"row 0: .* arrives only in step 1 \(row 1\): deadlock"),
        ([(0, 1, 2, 0, 0), (0, 2, 1, 0, 0)], "row 0: .*deadlock, rows 0, 1 wait for each other in that step"),
        ([(0, 0, 0, 0, 0)], "row 0: source 0 sends to itself"),
        ([(0, 0, 4, 0, 0)], "row 0: destination 4 is no rank; ranks are 0 to 3"),
        ([(0, -1, 2, 0, 0)], "row 0: source -1 is no rank"),
        ([(0, 0, 1, 2, 0)], r"row 0: chunk 2 \(with its count\) is outside 0 to 1"),
        ([(-1, 0, 1, 0, 0)], "row 0: step -1 is negative"),
        (
            [(0, 0, 1, 0, 0), (1, 0, 2, 0, 0), (2, 1, 3, 0, 0), (2, 2, 3, 0, 0)],
            "row 3: another row writes chunk 0",
        ),
        (
            [(0, 0, 1, 0, 0), (1, 0, 1, 0, 1)],
            "row 1: in step 1 rank 1 reduces twice the same part of chunk 0",
        ),
    ],
)
def test_check_names_the_row(rows, message):
    with pytest.raises(TableError, match=message):
        check(table_of(rows))


def test_adding_twice_in_an_all_reduce():
    rows = [(0, 0, 1, 0, 1), (0, 1, 0, 0, 1), (1, 0, 1, 0, 1)]
    with pytest.raises(TableError, match="row 2: in step 1 rank 1 reduces twice"):
        check(table_of(rows, ranks=2, chunks=1, collective="all-reduce"))


def test_a_rank_left_out_is_found():
    rows = [(0, 0, 1, 0, 0), (0, 0, 1, 1, 0), (0, 0, 2, 0, 0), (0, 0, 2, 1, 0), (0, 0, 3, 1, 0)]
    table = table_of(rows)
    check(table)
    with pytest.raises(
        TableError, match="rank 3 ends with chunk 0 holding 0 times the part of rank 0, instead of 1"
    ):
        prove(table)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"repeat": 3}, "repeat 3 sends the same chunk again"),
        ({"repeat": 0}, "repeat 0 is below 1"),
        ({"turn": 2, "wheel": 2}, "turn 2 is not -1, 0 or"),
        ({"turn": 1, "wheel": 4}, "wheel 4 does not hold the chunk"),
        ({"count": 0}, "count 0 is below 1"),
        ({"count": 3}, "chunk 0 .* is outside"),
    ],
)
def test_trains_that_do_not_fit(columns, message):
    with pytest.raises(TableError, match=message):
        check(table_of([(0, 0, 1, 0, 0)], columns=columns))


def test_a_switch_has_nothing_of_its_own():
    with pytest.raises(TableError, match="source 4 is a switch"):
        check(table_of([(0, 4, 1, 0, 0)], columns={"own": True}, switches=1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"collective": "all-sing"}, "unknown collective 'all-sing'; known: all-reduce"),
        ({"ranks": 0}, "0 ranks, 2 chunks"),
        ({"columns": {"colour": 1}}, "columns colour unknown or missing"),
        ({"columns": {"channel": [0, 1]}}, "do not fit each other"),
        ({"sizes": [1.0, -1.0]}, "chunk 1 has size -1.0"),
        ({"sizes": [1.0, 1.0, 1.0]}, "do not fit each other"),
        ({"shape": 2}, "shape unknown; chunks have home, goal and sizes"),
    ],
)
def test_make_table_refuses(options, message):
    with pytest.raises(TableError, match=message):
        table_of([(0, 0, 1, 0, 0)] * 3, **options)


def test_other_refusals():
    with pytest.raises(TableError, match="0 elements"):
        split(ring_all_reduce(2), 0)
    with pytest.raises(TableError, match="inputs of shape"):
        execute(ring_all_reduce(2), np.zeros((3, 4)))
    with pytest.raises(TableError, match="at least 1"):
        lower_bound("all-reduce", 0, 1.0, Link(name="x", bandwidth=1.0))
    with pytest.raises(TableError, match="must not be negative"):
        cost(ring_all_reduce(2), 1.0, 0.0)
    with pytest.raises(TableError, match="transfers written out"):
        expand(ring_all_reduce(20_000))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(2, 6),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 5)), max_size=12),
)
def test_a_wrong_table_never_passes_for_a_right_one(ranks, rows):
    # any table of reductions: prove agrees with the sums of random numbers
    rows = [(k, s % ranks, d % ranks, 0, 1) for k, (_, s, d) in enumerate(rows) if s % ranks != d % ranks]
    table = table_of(rows, ranks=ranks, chunks=1, collective="all-reduce")
    values = 10.0 ** np.arange(ranks)[:, None]
    held = values.copy()
    for _, source, destination, _, _ in rows:
        held[destination] += held[source]
    right = bool(np.all(held == values.sum()))
    try:
        prove(table)
        assert right
    except TableError:
        assert not right


def test_a_user_table_in_python():
    # two ranks add each other's data; the first then passes it on
    rows = [(0, 1, 0, 0, 1), (1, 0, 1, 0, 0), (1, 0, 2, 0, 0), (0, 2, 0, 0, 1)]
    table = table_of(rows, ranks=3, chunks=1, collective="all-reduce")
    prove(table)
    same = parameter_server_all_reduce(3)
    assert cost(table, 3.0, 1.0, 1.0) == cost(same, 3.0, 1.0, 1.0)


def test_naive_sends_inputs_not_sums():
    prove(naive_all_reduce(5))
    assert naive_all_reduce(5).lockstep


@pytest.mark.parametrize(
    ("build", "counts", "steps"),
    [
        (parameter_server_all_reduce, (5,), 2),
        (direct_all_to_all, (5,), 4),
        (chain_reduce, (5,), 5 - 2 + 4),
        (chain_broadcast, (5,), 5 - 2 + 4),
        (hierarchical_all_reduce, (3, 4), 1 + 2 * 2 + 1),
        (hierarchical_all_reduce, (3, 1), 2 * 2),
        (server_ring_all_reduce, (3, 4), 1 + 2 * 2 + 1),
        (server_ring_all_reduce, (1, 4), 2),
        (hierarchical_all_to_all, (3, 4), 3 + 2),
        (hierarchical_all_to_all, (3, 1), 2),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_steps_follow_one_another(build, counts, steps):
    flat, _ = expand(build(*counts))
    assert np.unique(flat.step).tolist() == list(range(steps))


def test_step_k_of_an_exchange_goes_k_plus_one_ranks_on():
    table = direct_all_to_all(6)
    assert ((table.destination - table.source) % 6).tolist() == (table.step + 1).tolist()


def test_each_of_two_trees_has_its_half_and_its_channel():
    table = double_tree_all_reduce(6, pieces=2)
    assert set(zip(table.chunk.tolist(), table.channel.tolist(), strict=True)) == {(0, 0), (2, 1)}


def test_tables_of_a_collective_by_ranks():
    tables, left_out = lookup.all_tables("all-reduce", 2, 4)
    assert {"ring", "hierarchical", "halving-doubling"} <= {table.name for table in tables}
    assert not left_out
    assert {table.ranks for table in tables} == {8}
    assert "torus" not in {table.name for table in tables}


def test_large_tables_are_estimated_before_they_are_built():
    _, left_out = lookup.all_tables("all-to-all", 512, 8)
    assert left_out["direct all-to-all"].startswith("about 17,000,000 rows for 4,096 ranks")  # 4096 squared


def test_a_file_that_is_not_there_is_no_table():
    with pytest.raises(TableError, match=r"missing\.py"):
        lookup.table_of("missing.py:build", "all-reduce", 1, 4)


def test_a_function_of_a_users_file_makes_the_table(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from podsim.network.collectives.rings import ring_all_reduce as made\n"
        "def wrong(ranks): return ranks\n"
        "def broken(ranks): return 1 / 0\n"
        "other = 3\n"
    )
    told = {
        "made": "all-reduce over 4 ranks; asked for is all-gather", "wrong": "wrong returns int",
        "other": "is no function", "missing": "is no function", "broken": "ZeroDivisionError",
    }  # fmt: skip
    table = lookup.table_of(f"{tmp_path}/mine.py:made", "all-reduce", 2, 2)
    assert (table.name, table.ranks) == (ring_all_reduce(4).name, 4)
    for function, message in told.items():
        with pytest.raises(TableError, match=message):
            lookup.table_of(f"{tmp_path}/mine.py:{function}", "all-gather", 2, 2)
