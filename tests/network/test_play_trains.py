"""Trains by themselves against the event kernel, which simulates each of their transfers."""

import numpy as np
import pytest
from made_fabrics import single_switch

from podsim.hardware.cluster import load_cluster
from podsim.hardware.fabrics import fabric_of
from podsim.network import play_trains
from podsim.network.collectives.lookup import table_of
from podsim.network.play import play, prepare


def results(ready, size, monkeypatch, worth):
    monkeypatch.setattr(play_trains, "_WORTH", worth)
    return play(ready, size)


@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("nodes", [3, 33, 40])
@pytest.mark.parametrize(
    ("collective", "algorithm"),
    [("all-reduce", "hierarchical"), ("all-reduce", "ring"), ("all-gather", "ring"), ("all-reduce", "server ring"),
     ("all-reduce", "tree")],
)  # fmt: skip
def test_trains_end_when_their_transfers_do(collective, algorithm, nodes, fold, monkeypatch):
    cluster = load_cluster(f"dgx-h100:{nodes}")
    ready = prepare(table_of(algorithm, collective, nodes, 8, None), fabric_of(cluster), fold=fold)
    events = results(ready, 1e6, monkeypatch, 10**12)
    trains = results(ready, 1e6, monkeypatch, 0)
    assert trains.seconds == pytest.approx(events.seconds, rel=1e-12)
    for name in ("finish", "link_bytes", "link_busy"):
        assert getattr(trains, name) == pytest.approx(getattr(events, name), rel=1e-10, abs=1e-18)
    assert (trains.events, trains.simulated) == (events.events, events.simulated)


def test_a_ring_of_equal_links_takes_its_steps_one_after_the_other(monkeypatch):
    table = table_of("ring", "all-reduce", 1, 10, None)
    ready = prepare(table, single_switch(10, 1e9, 2e-6))
    run = results(ready, 1e6, monkeypatch, 0)
    assert run.seconds == pytest.approx(18 * (1e5 / 1e9 + 2e-6), rel=1e-12)
    assert np.allclose(run.finish, run.seconds, rtol=1e-9)


def test_trains_are_what_large_rings_take():
    table, fabric = (
        table_of("hierarchical", "all-reduce", 33, 8, None),
        fabric_of(load_cluster("dgx-h100:33")),
    )
    program = prepare(table, fabric, fold=True).stages[0].program
    is_train = play_trains._is_train(program)
    assert play_trains._order(program, is_train) is not None
    assert program.repeat[is_train].sum() > 0.9 * program.repeat.sum()
