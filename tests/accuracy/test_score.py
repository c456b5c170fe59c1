"""Statistics by hand, theorems, and scipy as an oracle."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from podsim.accuracy.rankings import group_ranks, kendall_tau, regrets, sweep_tau
from podsim.accuracy.score import (
    assess,
    best_constant,
    mean_absolute_error,
    relative_errors,
    score,
    skill,
)
from podsim.answers.comparison import ComparedRow, Comparison
from podsim.errors import TableError

positive = st.floats(1e-6, 1e6)
few = st.integers(0, 5).map(float)


def pairs(values: st.SearchStrategy[float], least: int = 1) -> st.SearchStrategy[list[tuple[float, float]]]:
    return st.lists(st.tuples(values, values), min_size=least, max_size=30)


def comparison(
    rows: list[tuple[str, float, float]],
    *,
    sweep: str = "",
    ideal: list[float] | None = None,
    what: str = "seconds",
) -> Comparison:
    made = tuple(
        ComparedRow(
            id=f"r{index}",
            role=role,
            table="t",
            predicted=predicted,
            measured=measured,
            sweep=sweep,
            group="even" if index % 2 == 0 else "odd",
            ideal=None if ideal is None else ideal[index],
        )
        for index, (role, predicted, measured) in enumerate(rows)
    )
    return Comparison(table="t", title="T", what=what, rows=made)


# by hand: errors +10 %, -20 %, 0, +40 %
HAND = [("test", 1.1, 1.0), ("test", 1.6, 2.0), ("test", 3.0, 3.0), ("test", 5.6, 4.0)]


def test_score_by_hand() -> None:
    found = score(comparison(HAND, sweep="s"), role="test")
    assert found.rows == 4
    assert found.mae == pytest.approx(0.7 / 4)
    assert found.median == pytest.approx(0.15)
    assert found.bias == pytest.approx(0.3 / 4)
    assert found.p95 == pytest.approx(0.2 + 0.85 * 0.2)  # rank 2.85 of 0, 0.1, 0.2, 0.4
    assert (found.worst_id, found.worst_error) == ("r3", pytest.approx(0.4))
    assert [(c.name, c.rows, c.worst_id) for c in found.classes] == [("even", 2, "r0"), ("odd", 2, "r3")]
    assert found.classes[0].mae == pytest.approx(0.05)
    assert found.classes[1].bias == pytest.approx(0.1)
    assert (found.sweeps, found.tau, found.regret, found.worst_regret) == (1, 1.0, 1.0, 1.0)
    assert found.skill is None


def test_roles_are_never_mixed() -> None:
    mixed = comparison([("test", 1.0, 1.0), ("calibrate", 2.0, 1.0)])
    for role in ("test", "calibrate"):
        with pytest.raises(TableError, match=r"never mixed: use comparison\.only"):
            score(mixed, role=role)
    assessed = assess(mixed)
    assert [(s.role, s.rows, s.mae) for s in assessed.scores] == [("test", 1, 0.0), ("calibrate", 1, 1.0)]
    assert assessed.only("test").scores == assessed.scores[:1]
    with pytest.raises(TableError, match="no rows"):
        score(comparison([]), role="test")


def test_tau_by_hand() -> None:
    assert kendall_tau([1, 2, 3, 4], [1, 2, 4, 3]) == pytest.approx(4 / 6)
    assert kendall_tau([1, 2, 2], [1, 2, 3]) == pytest.approx(2 / math.sqrt(2 * 3))
    assert kendall_tau([1, 1], [1, 2]) is None
    assert kendall_tau([1], [1]) is None
    with pytest.raises(TableError, match="do not pair"):
        kendall_tau([1, 2], [1])


@given(pairs(few, least=2))
def test_tau_is_scipys(values: list[tuple[float, float]]) -> None:
    a, b = zip(*values, strict=True)
    found = kendall_tau(a, b)
    if found is None:
        assert len(set(a)) == 1 or len(set(b)) == 1
    else:
        assert found == pytest.approx(kendalltau(a, b).statistic)


@given(pairs(few, least=2))
def test_tau_is_symmetric_and_changes_sign_with_a_reversed_order(values: list[tuple[float, float]]) -> None:
    a, b = (np.array(side) for side in zip(*values, strict=True))
    forward, backward = kendall_tau(a, b), kendall_tau(a, -b)
    assert kendall_tau(b, a) == (None if forward is None else pytest.approx(forward))
    if forward is None or backward is None:
        assert forward is backward
    else:
        assert backward == pytest.approx(-forward)
        assert -1 - 1e-12 <= forward <= 1 + 1e-12


def test_sweep_tau_weighs_by_pairs() -> None:
    predicted, measured = [1, 2, 3, 2, 1, 9], [1, 2, 3, 1, 2, 0]
    assert sweep_tau(predicted, measured, [*"aaabb", ""]) == pytest.approx((3 * 1 + 1 * -1) / 4)
    assert sweep_tau(predicted, measured, [""] * 6) is None


def test_regret_by_hand() -> None:
    predicted, measured, sweeps = (
        [1.0, 2.0, 3.0, 4.0, 4.0, 7.0],
        [3.0, 2.0, 4.0, 5.0, 6.0, 7.0],
        [*"aaabb", "c"],
    )
    assert regrets(predicted, measured, sweeps) == {"a": 1.5, "b": pytest.approx(6 / 5)}
    assert regrets([5.0, 6.0], [8.0, 4.0], ["a", "a"], more_is_better=True) == {"a": 2.0}


@given(pairs(positive))
def test_regret_is_at_least_one_and_one_for_the_measured_values(values: list[tuple[float, float]]) -> None:
    predicted, measured = zip(*values, strict=True)
    sweeps = ["a" if index % 2 else "b" for index in range(len(values))]
    for more in (False, True):
        assert all(
            value >= 1 - 1e-12 for value in regrets(predicted, measured, sweeps, more_is_better=more).values()
        )
        assert all(v == 1 for v in regrets(measured, measured, sweeps, more_is_better=more).values())


@given(pairs(positive), st.floats(1e-3, 1e3))
def test_errors_do_not_change_with_the_unit(values: list[tuple[float, float]], unit: float) -> None:
    predicted, measured = (np.array(side) for side in zip(*values, strict=True))
    assert relative_errors(predicted * unit, measured * unit) == pytest.approx(
        relative_errors(predicted, measured)
    )


def test_errors_refuse_what_does_not_pair() -> None:
    for predicted, measured in (
        ([1.0], [1.0, 2.0]),
        ([0.0], [1.0]),
        ([1.0], [float("nan")]),
        ([[1.0]], [[1.0]]),
    ):
        with pytest.raises(TableError):
            relative_errors(predicted, measured)
    with pytest.raises(TableError, match="no rows"):
        mean_absolute_error([], [])


def test_best_constant_by_hand() -> None:
    assert best_constant([1.0, 1.0, 1.0], [2.0, 2.0, 5.0]) == 2.0
    with pytest.raises(TableError, match="no rows"):
        best_constant([], [])


@given(pairs(st.floats(0.1, 10)), st.floats(0.01, 100))
def test_no_constant_beats_the_best(values: list[tuple[float, float]], other: float) -> None:
    ideal, measured = (np.array(side) for side in zip(*values, strict=True))
    best = mean_absolute_error(best_constant(ideal, measured) * ideal, measured)
    assert best <= mean_absolute_error(other * ideal, measured) + 1e-12


def test_skill() -> None:
    ideal, measured = [1.0, 1.0], [2.0, 4.0]
    constant = best_constant(ideal, measured)
    assert skill(measured, measured, ideal, constant) == 1.0
    assert skill([constant, constant], measured, ideal, constant) == 0.0
    assert skill([9.0, 9.0], measured, ideal, constant) < 0  # type: ignore[operator]
    assert skill([2.0], [2.0], [1.0], 2.0) is None


def test_the_constant_is_chosen_on_calibrate_rows_or_else_on_the_rows() -> None:
    rows = [("calibrate", 2.0, 2.0), ("test", 4.0, 3.0), ("test", 3.0, 3.0)]
    test, calibrate = assess(comparison(rows, ideal=[1.0, 1.0, 1.0])).scores
    assert (test.skill_basis, calibrate.skill_basis) == ("calibrate rows", "calibrate rows")
    assert test.skill == pytest.approx(1 - (1 / 6) / (1 / 3))  # the constant 2 misses both 3s by a third
    assert calibrate.skill is None  # the constant is exact on its only row
    alone = assess(comparison(rows[1:], ideal=[1.0, 2.0])).scores[0]
    assert alone.skill_basis == "the scored rows themselves"
    assert alone.skill is not None
    assert assess(comparison(rows)).scores[0].skill_basis == ""


@given(pairs(positive))
def test_perfect_predictions(values: list[tuple[float, float]]) -> None:
    ideal, measured = zip(*values, strict=True)
    found = score(comparison([("test", m, m) for m in measured], sweep="s", ideal=list(ideal)), role="test")
    assert (found.mae, found.median, found.bias, found.p95) == (0, 0, 0, 0)
    assert found.tau in (None, pytest.approx(1.0))
    assert found.regret in (None, 1.0)
    assert found.skill in (None, 1.0)


def test_repeats_of_a_plan_count_with_their_median() -> None:
    """By hand: the medians are 1 to 5, and the third is predicted first; two of ten pairs are wrong."""
    measured = {"a": (1.0,), "b": (1.5, 2.0, 9.0), "c": (3.0,), "d": (4.0,), "e": (5.0,)}
    predicted = {"a": 2.0, "b": 3.0, "c": 1.0, "d": 4.0, "e": 5.0}
    rows = [
        ComparedRow(id=f"{plan}{i}", role="test", table="t", predicted=predicted[plan], measured=value, sweep="s",
                    plan=plan)
        for plan, values in measured.items() for i, value in enumerate(values)
    ]  # fmt: skip
    (rank,) = group_ranks(rows, more_is_better=False)
    assert (rank.plans, rank.rows) == (5, 7)
    assert rank.tau == pytest.approx(6 / 10)  # c is predicted before a and b
    assert rank.regret == pytest.approx(2.0)  # c takes 3, a takes 1
    assert rank.limit < 1.0
    assert group_ranks(rows[:-1], more_is_better=False) == ()
    best, worse = (1.0, 2.0, 4.0, 8.0, 16.0), (1.0, 2.0, 4.0, 16.0, 8.0)
    rates = [
        ComparedRow(id=str(i), role="test", table="t", predicted=p, measured=m, sweep="s")
        for i, (p, m) in enumerate(zip(worse, best, strict=True))
    ]
    assert group_ranks(rates, more_is_better=True)[0].regret == pytest.approx(1.0)
