"""Bars on errors, skills and ranks, by hand."""

from __future__ import annotations

import pytest

from podsim.accuracy.bars import BARS, Bar, packaged_accuracy, verdicts, worse_figures
from podsim.accuracy.score import assess
from podsim.answers.comparison import ComparedRow, Comparison


def rows(*pairs: tuple[float, float], sweep: str = "", role: str = "test") -> Comparison:
    """Rows of (predicted, measured), in classes a, b, a, b, …"""
    made = tuple(
        ComparedRow(
            id=f"r{k}", role=role, table="korthikanti", predicted=predicted, measured=measured, group="ab"[k % 2],
            sweep=sweep, plan=f"p{k}" if sweep else "",
        )
        for k, (predicted, measured) in enumerate(pairs)
    )  # fmt: skip
    return assess(Comparison(table="korthikanti", title="T", what="seconds", rows=made))


@pytest.mark.parametrize(
    ("bar", "values", "met"),
    [
        # errors of +10, -20, 0 and +40 %: a mean of 17.5 %, a median of 15 %, a bias of +7.5 %
        ({"metric": "mae", "limit": 0.176, "bias": 0.08}, [0.175], [True]),
        ({"metric": "mae", "limit": 0.174, "bias": 0.08}, [0.175], [False]),
        ({"metric": "mae", "limit": 0.176, "bias": 0.07}, [0.175], [False]),
        ({"metric": "median", "limit": 0.16, "bias": 0.08}, [0.15], [True]),
        ({"metric": "mae", "limit": 0.2, "bias": 0.2, "each": True}, [0.05, 0.3], [True, False]),
        ({"metric": "mae", "limit": 0.2, "bias": 0.2, "classes": "b"}, [0.3], [False]),
        ({"metric": "mae", "limit": 0.2, "bias": 0.2, "classes": "c"}, [None], [False]),
        ({"metric": "mae", "limit": 0.2, "role": "calibrate"}, [None], [False]),
    ],
    ids=str,
)
def test_errors(bar: dict[str, object], values: list[float | None], met: list[bool]) -> None:
    found = verdicts(
        [rows((1.1, 1.0), (1.6, 2.0), (3.0, 3.0), (5.6, 4.0))],
        [Bar(table="korthikanti", **bar)],  # type: ignore[arg-type]
    )
    assert [verdict.value for verdict in found] == [None if v is None else pytest.approx(v) for v in values]
    assert [verdict.met for verdict in found] == met
    assert [verdict.rows > 0 for verdict in found] == [value is not None for value in values]


@pytest.mark.parametrize(
    ("metric", "limit", "value", "met"),
    # six plans in the measured order, but the two fastest: of 15 pairs one is turned; it costs 10 %
    [
        ("tau", 13 / 15 - 0.01, 13 / 15, True),
        ("tau", 13 / 15 + 0.01, 13 / 15, False),
        ("regret", 0.11, 0.1, True),
        ("regret", 0.09, 0.1, False),
    ],
)
def test_ranks(metric: str, limit: float, value: float, met: bool) -> None:
    plans = rows((2.0, 1.0), (1.9, 1.1), (3.0, 3.0), (4.0, 4.0), (5.0, 5.0), (6.0, 6.0), sweep="s")
    (verdict,) = verdicts([plans], [Bar(table="korthikanti", metric=metric, limit=limit)])
    assert verdict.value == pytest.approx(value)
    assert verdict.met == met


def test_a_worse_error_than_recorded_is_said_by_role() -> None:
    recorded = packaged_accuracy()["korthikanti"]["test"]
    many = [(1.75 if k % 2 else 0.25, 1.0) for k in range(recorded["rows"])]
    texts = worse_figures([rows(*many)], role="test")
    assert texts == (f"korthikanti, test: mean error 75.00%, was {recorded['mae']:.2%}",)
    assert worse_figures([rows(*[(1.0, 1.0)] * recorded["rows"])], role="test") == ()


def test_bars_are_narrower_than_any_guess() -> None:
    # a plan's rank or a skill is a share of the best; an error of a fifth is what the widest bar allows
    for bar in BARS:
        if bar.metric in ("mae", "median", "regret"):
            assert 0.005 <= bar.limit <= 0.2, bar
            assert 0.005 <= bar.bias <= 0.2, bar
        else:
            assert 0.5 <= bar.limit < 1, bar
