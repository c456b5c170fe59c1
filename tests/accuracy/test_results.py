"""The values of results.py: what they refuse, and what they derive."""

from __future__ import annotations

import pytest

from podsim.answers.comparison import ComparedRow, Comparison, Measurement
from podsim.errors import TableError


def row(id: str, predicted: float, measured: float, role: str = "test") -> ComparedRow:
    return ComparedRow(id=id, role=role, table="t", predicted=predicted, measured=measured)


def table(*rows: ComparedRow, what: str = "seconds per step") -> Comparison:
    return Comparison(table="t", title="T", what=what, rows=rows)


def test_error_is_relative_to_the_measurement() -> None:
    assert row("a", 1.1, 1.0).error == pytest.approx(0.1)
    assert row("a", 0.5, 1.0).error == -0.5


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"source": " "}, "no source"),
        ({"value": 0.0}, "not a finite positive"),
        ({"value": float("nan")}, "not a finite positive"),
        ({"value": float("inf")}, "not a finite positive"),
        ({"role": "tests"}, "did you mean test"),
        ({"what": "second"}, "did you mean seconds"),
    ],
)
def test_a_measurement_needs_a_source_a_role_a_quantity_and_a_number(
    changes: dict[str, object], says: str
) -> None:
    given: dict[str, object] = {
        "id": "a",
        "what": "seconds",
        "value": 1.0,
        "source": "a paper",
        "role": "test",
    }
    with pytest.raises(TableError, match=says):
        Measurement(**(given | changes))  # type: ignore[arg-type]


def test_a_comparison_refuses_bad_values_and_ids_given_twice() -> None:
    with pytest.raises(TableError, match="row 'a'"):
        table(row("a", -1.0, 1.0))
    with pytest.raises(TableError, match="more than once: a"):
        table(row("a", 1.0, 1.0), row("a", 2.0, 1.0))
    with pytest.raises(TableError, match="more than once: a"):
        Comparison(
            table="t", title="T", what="seconds", rows=(row("a", 1, 1),), not_expressed=(("a", "why"),)
        )
    with pytest.raises(TableError, match="unknown quantity 'parsecs'"):
        table(row("a", 1.0, 1.0), what="parsecs")


def test_only_keeps_one_role() -> None:
    both = table(row("a", 1.0, 1.0), row("b", 1.0, 1.0, "calibrate"), row("c", 1.0, 1.0))
    assert both.roles == ("test", "calibrate")
    assert [r.id for r in both.only("test").rows] == ["a", "c"]
    assert both.only("calibrate").roles == ("calibrate",)
    assert both.unit == "s"
    with pytest.raises(TableError, match="unknown role 'all'"):
        both.only("all")
