"""The tests of symptoms, and comparisons with peers, by hand: samples every 10 minutes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from podsim.monitoring.metric_table import xids
from podsim.monitoring.panels import Panel
from podsim.monitoring.peer_scores import Comparison, silent_series
from podsim.monitoring.symptoms import Metrics, Symptom, _odd_ports

NAN = np.nan


def panel(*rows: list[float], jobs: list[list[str]] | None = None) -> Panel:
    keys = tuple(("node", str(number)) for number in range(len(rows)))
    values = np.array(rows, float)
    groups = jobs or [[""] * values.shape[1] for _ in rows]
    return Panel(
        keys=keys, values=values, groups=dict(zip(keys, groups, strict=True)), models=dict.fromkeys(keys, "")
    )


def metrics(times: int, expected: dict[str, float] | None = None, **panels: Panel) -> Metrics:
    return Metrics(panels, 600.0 * np.arange(times), 1.0, expected or {})


def symptom(**changes: Any) -> Symptom:
    return Symptom(**{"finding": "f", "part": "gpu", "metric": "m", "test": "t"} | changes)


def test_a_gauge_outside_its_bounds() -> None:
    told = metrics(3, {"clock": 10.0})
    at = panel([10.0, 9.0, NAN], [11.0, 12.0, 8.9], jobs=[["1", "", ""], ["", "1", "1"]])
    assert told.level(at, symptom(above=11.0, below=9.0))[0].tolist() == [[False] * 3, [False, True, True]]
    assert told.level(at, symptom(above=0.95, share="clock", in_job=True))[0].tolist() == [
        [True, False, False], [False, True, False]
    ]  # fmt: skip
    share = told.level(at, symptom(above=1.1, share="unknown"))[1]
    assert share[1, 1] == pytest.approx(12 / 10)  # of the median
    bits = panel([4.0, 6.0, 3.0])
    assert told.level(bits, symptom(bits=4, above=0.0))[0].tolist() == [[True, True, False]]


def test_growth_and_its_ratio_to_another() -> None:
    waits, sent = panel([0.0, 6.0, NAN, 2.0], [0, 1, 2, 3]), panel([0.0, 2.0, 3.0, 4.0], [0, 1, 2, 3])
    told = metrics(4, sent=sent)
    grown, passed = told.growth(waits)
    assert np.nan_to_num(grown, nan=-1).tolist() == [[-1, 6, -1, 2], [-1, 1, 1, 1]]  # a reset, to 2
    assert np.nan_to_num(passed, nan=-1).tolist() == [[-1, 600, -1, 1200], [-1, 600, 600, 600]]
    hits, values = told.mean(waits, symptom(over="sent", above=2.0, times=2.5))
    assert values[:, 1].tolist() == [3.0, 1.0]
    assert hits.tolist() == [[False, True, False, False], [False] * 4]
    assert not told.mean(waits, symptom(over="sent", above=2.0, times=3.0))[0].any()  # as much as the peers'
    assert not told.mean(waits, symptom(over="missing", above=0.0))[0].any()


def test_a_code_tells_of_one_hour() -> None:
    code = next(code for code, told in xids().items() if told[0] == "failing")
    other = next(code for code, told in xids().items() if told[0] != "failing")
    told = metrics(9)
    row = [0.0, code, code, code, code, code, code, code, code]
    wanted = symptom(severity="failing")
    assert told.xid(panel(row), wanted)[0].tolist() == [[False, *[True] * 7, False]]
    assert told.xid(panel([99999.0] * 9), wanted)[0][0, 0]  # an unknown code
    assert not told.xid(panel([float(other)] * 9), wanted)[0].any()


def test_a_part_that_reports_no_more_while_others_do() -> None:
    at = panel([1.0, NAN, NAN, 1.0, NAN], [1.0, 1.0, NAN, 1.0, 1.0], [NAN, NAN, NAN, NAN, NAN])
    assert metrics(5).absent(at, symptom())[0].tolist() == [
        [False, True, False, False, True],
        [False] * 5,
        [False] * 5,
    ]


def test_ports_at_a_switch_of_another_device() -> None:
    peers = ["a", "a", "a", "b", "b", "", ""]
    assert _odd_ports(["m0", "m0", "m1", "m1", "m0", "m0", "m1"], peers) == [False, False, True, *[False] * 4]
    values = np.array([[1.0, NAN], [1.0, 1.0], [1.0, 1.0]])
    keys = (("a", "m0"), ("b", "m1"), ("c", "m1"))
    at = Panel(keys=keys, values=values, groups={key: ["s", "s"] for key in keys}, models={})
    assert metrics(2).minority(at, symptom())[0].tolist() == [[True, False], [False] * 2, [False] * 2]


@pytest.mark.parametrize(
    ("seconds", "kept"), [(600.0, [2, 3, 5, 6, 7]), (601.0, [5, 6, 7]), (0.0, [0, 2, 3, 5, 6, 7])]
)
def test_what_lasts(seconds: float, kept: list[int]) -> None:
    """Hits at 0, at 2 and 3, and from 5 to 7, where the sample of 6 is missing."""
    hits = np.array([[True, False, True, True, False, True, True, True]])
    values = np.zeros((1, 8))
    told = metrics(8)
    assert np.flatnonzero(told.lasts(hits, values, seconds)).tolist() == kept
    assert told.lasts(hits[:, 2:4], np.zeros((1, 2)), 1e9).all()  # as long as the samples


def comparison(at: Panel, told: Metrics, **metric: Any) -> Any:
    given = {
        "relative": 0.1,
        "absolute": 0.5,
        "type": "gauge",
        "peers": "job",
        "entity": "gpu",
        "part": "gpu",
    }
    return Comparison(metrics=told, metric=SimpleNamespace(name="m", **given | metric), panel=at, roles=None)  # type: ignore[arg-type]


def test_far_from_the_median_of_peers() -> None:
    """By more than a tenth, by more than 0.5, and by more than nine deviations."""
    one = comparison(panel([0.0]), metrics(1))
    values = np.array([[8.9, 0.4, 8.0], [9.1, 0.6, 7.0]])
    middle, spread = np.array([10.0, 0.0, 10.0]), np.array([0.0, 0.0, 0.3])
    assert one._far(values, middle, spread).tolist() == [[True, False, False], [False, True, True]]


def test_far_from_its_own_past_with_five_samples() -> None:
    one = comparison(panel([0.0]), metrics(1))
    rows = np.array([[10.0, 10, 10, 10, 8.9], [10, 10, 10, NAN, 8.9], [10, 10, 10, 10, 9.1]])
    moved, usual = one._moved(rows, np.abs(rows))
    assert moved.tolist() == [[False] * 4 + [True], [False] * 5, [False] * 5]
    assert usual[0].tolist() == [10.0] * 5


def test_stuck_while_peers_change() -> None:
    random = np.random.default_rng(0)
    block = random.random((20, 8))
    block[0, 2:6] = 0.3
    block[1] = 1.0
    one = comparison(panel([0.0]), metrics(1))
    assert np.flatnonzero(one._stuck(block)[0]).tolist() == [2, 3, 4, 5]
    assert not one._stuck(block)[1].any()  # a share at its end
    assert not one._stuck(block[:, :5]).any()
    assert not comparison(panel([0.0]), metrics(1), type="counter")._stuck(block).any()


def test_events_of_an_hour_above_those_of_most() -> None:
    """Two are allowed: one row grows by 3 at once, the next by 3 in 110 minutes, and the last by as much in 50."""
    rows = np.zeros((7, 13))
    rows[4, 3:] = 3.0
    rows[5, 1:], rows[5, 12:] = 1.5, 3.0
    rows[6, 1:], rows[6, 6:] = 1.5, 3.0
    told = metrics(13)
    one = comparison(panel(*rows.tolist()), told, absolute=2.0, type="counter")
    assert [np.flatnonzero(row).tolist() for row in one._events()] == [[]] * 4 + [[3], [], [6]]
    half = comparison(panel(*rows[4:].tolist()), told, absolute=2.0, type="counter")
    assert not half._events().any()  # most of them have such events
    single = comparison(panel([0.0], [0.0], [1.0]), metrics(1), absolute=0.0, type="counter")
    assert single._events().tolist() == [[False], [False], [True]]


def test_a_series_that_is_missing_while_most_of_its_part_are_there() -> None:
    whole = [1.0] * 4
    known: Any = {
        SimpleNamespaceKey(name, "gpu"): panel(whole, row) for name, row in (
            ("a", whole), ("b", whole), ("c", [1.0, NAN, NAN, NAN])
        )
    }  # fmt: skip
    ((part, (found, shows, _)),) = silent_series(metrics(4), known)
    assert (part, found.metric, shows.tolist()) == (("gpu", ("node", "1")), "c", [False, True, True, True])


class SimpleNamespaceKey:
    """A metric by its name and part."""

    def __init__(self, name: str, part: str) -> None:
        self.name, self.part, self.entity = name, part, part
