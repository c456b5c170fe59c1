"""One declaration makes a field of a plan, a keyword, an option and what a search may try."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from typing import Any

import pytest

import podsim
from podsim.errors import PodsimError
from podsim.options.plan_options import FixedLayout, LayoutFields, PlanOptions, PredictOptions
from podsim.options.question import (
    factors,
    like,
    option,
    options_of,
    pairs,
    question,
    servers,
    throttles,
    values_of,
)
from podsim.training.plan import Plan
from podsim.training.plan_values import ARRAY_FIELDS
from podsim.training.search_limits import SEARCHED


@dataclass(frozen=True, kw_only=True)
class Walk:
    """A walk."""

    place: str = option(MISSING, "Where it begins.", argument=True)
    steps: int = option(3, "How many.")
    stops: Sequence[str] = option((), "Where to rest.")


@dataclass(frozen=True, kw_only=True)
class LongWalk(Walk):
    """A longer one."""

    steps: int = like(Walk, "steps", default=300)


@question(Walk)
def walk(options: Walk, *, pace: float = 1.0) -> tuple[Any, ...]:
    """Seconds of a walk."""
    return options.place, options.steps, tuple(options.stops), pace


def test_a_file_may_be_given_by_its_name() -> None:
    with pytest.raises(PodsimError, match=r"no-such-day\.om"):
        podsim.diagnose("no-such-day.om")


def test_a_question_has_the_signature_and_the_help_of_its_options() -> None:
    parameters = inspect.signature(walk).parameters
    assert [(name, known.default) for name, known in parameters.items()] == [
        ("place", inspect.Parameter.empty), ("steps", 3), ("stops", ()), ("pace", 1.0),
    ]  # fmt: skip
    assert "steps  How many." in (walk.__doc__ or "")
    assert walk("here", steps=4, pace=2.0) == ("here", 4, (), 2.0)


@pytest.mark.parametrize(
    ("arguments", "named", "words"),
    [
        ((), {}, "walk.*missing.*'place'"),
        (("here",), {"step": 4}, "unexpected keyword argument 'step'; did you mean steps"),
        (("here", 4), {}, "too many positional arguments"),
    ],
)
def test_wrong_keywords_are_type_errors_with_a_remedy(
    arguments: tuple[Any, ...], named: dict[str, Any], words: str
) -> None:
    with pytest.raises(TypeError, match=words):
        walk(*arguments, **named)


def test_an_option_may_be_like_another_one() -> None:
    known = options_of(LongWalk)["steps"]
    assert (known.default, known.help, known.kind) == (300, "How many.", int)
    assert options_of(LongWalk)["stops"].many
    assert values_of(LongWalk(place="here", stops=("there",)), Walk) == {
        "place": "here", "steps": 300, "stops": ("there",),
    }  # fmt: skip


def test_a_field_of_a_layout_is_a_field_of_plans_an_option_and_searched() -> None:
    """So that a new one is declared once, and only the law that reads it is written."""
    fields = set(options_of(LayoutFields))
    assert fields <= set(ARRAY_FIELDS) <= fields | {"global_batch"}
    assert fields <= set(options_of(PlanOptions)) <= set(inspect.signature(podsim.predict).parameters)
    assert set(SEARCHED) == fields
    assert set(options_of(FixedLayout)) <= fields
    unsaid = {"capacity_factor", "imbalance"}  # of mixtures only
    assert set(Plan().describe()) == set(options_of(Plan)) - unsaid | {"global_batch"}
    assert options_of(PredictOptions)["tp"] == options_of(Plan)["tp"]


@pytest.mark.parametrize(
    ("reader", "texts", "values"),
    [
        (pairs("tp=4,8"), ["tp = 4,8", "zero=1"], {"tp": "4,8", "zero": "1"}),
        (factors("rank", "5=1.2"), ["5=1.2", "7=0.5"], {5: 1.2, 7: 0.5}),
        (throttles("rank", "5=1.3@2s"), ["5=1.3@2ms"], {5: (1.3, 0.002)}),
        (servers("1=a30"), ["1=a30"], {1: "a30"}),
    ],
)
def test_repeated_options_are_read(reader: Any, texts: list[str], values: dict[Any, Any]) -> None:
    assert reader(texts, "--it") == values


@pytest.mark.parametrize(
    ("reader", "texts", "words"),
    [
        (pairs("tp=4,8"), ["tp"], "--it 'tp': expected key=value, such as tp=4,8"),
        (pairs("tp=4,8"), ["tp=1", "tp=2"], "--it tp is given twice: 1 and 2"),
        (factors("rank", "5=1.2"), ["x=1"], "--it x: a rank is a number, such as 5=1.2"),
        (throttles("rank", "5=1.3@2s"), ["5=1.3"], "expected FACTOR@TIME, such as 5=1.3@2s"),
    ],
)
def test_repeated_options_that_cannot_be_read(reader: Any, texts: list[str], words: str) -> None:
    with pytest.raises(PodsimError, match=words):
        reader(texts, "--it")
