"""Records behave as the frozen dataclasses of the standard library, method by method."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from podsim import records

Decorator = Callable[..., Any]


def made(decorator: Decorator) -> tuple[type[Any], type[Any]]:
    """A class with every kind of field, and one below it, as a decorator makes them."""

    @decorator(frozen=True, kw_only=True)
    class Base:
        a: int
        b: list[int] = dataclasses.field(default_factory=list, compare=False)
        c: float = 1.5
        d: str = dataclasses.field(default="x", repr=False, metadata={"unit": "s"})
        e: int = dataclasses.field(default=3, init=False, hash=False)

    @decorator(frozen=True)
    class Below(Base):
        f: int = 0

        def __post_init__(self) -> None:
            if self.f < 0:
                raise ValueError("below zero")

    return Base, Below


KINDS = list(zip(made(records.dataclass), made(dataclasses.dataclass), strict=True))


@pytest.mark.parametrize(("ours", "theirs"), KINDS)
def test_fields_values_and_signatures_are_those_of_the_standard_library(ours: Any, theirs: Any) -> None:
    one, other = ours(a=1, b=[2]), theirs(a=1, b=[2])
    assert [(f.name, f.kw_only, f.metadata) for f in dataclasses.fields(ours)] == [
        (f.name, f.kw_only, f.metadata) for f in dataclasses.fields(theirs)
    ]
    assert vars(one) == vars(other)
    assert repr(one).partition("(")[2] == repr(other).partition("(")[2]
    assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters)
    assert dataclasses.asdict(dataclasses.replace(one, c=2.0)) == dataclasses.asdict(
        dataclasses.replace(other, c=2.0)
    )
    assert ours.__match_args__ == theirs.__match_args__


@pytest.mark.parametrize("pair", KINDS)
def test_equality_and_hash_leave_out_the_same_fields(pair: tuple[Any, Any]) -> None:
    for kind in pair:
        assert kind(a=1, b=[2]) == kind(a=1, b=[3]) != kind(a=2)
        assert hash(kind(a=1, b=[2])) == hash(kind(a=1, b=[3]))
        assert kind(a=1) != 1


@pytest.mark.parametrize("pair", KINDS)
def test_nothing_changes_a_record(pair: tuple[Any, Any]) -> None:
    for kind in pair:
        one = kind(a=1)
        with pytest.raises(dataclasses.FrozenInstanceError):
            one.a = 2
        with pytest.raises(dataclasses.FrozenInstanceError):
            del one.a
        for wrong in ({}, {"a": 1, "z": 2}, {"a": 1, "e": 2}):
            with pytest.raises(TypeError):
                kind(**wrong)


@pytest.mark.parametrize("decorators", [(records.dataclass, dataclasses.dataclass)] * 2)
def test_each_may_stand_below_the_other(decorators: tuple[Decorator, Decorator]) -> None:
    for above, below in (decorators, decorators[::-1]):
        kind = below(frozen=True, kw_only=True)(
            type("Below", (made(above)[0],), {"__annotations__": {"z": "int"}})
        )
        assert kind(a=1, z=2) == kind(a=1, z=2) != kind(a=1, z=3)
    assert made(records.dataclass)[1](5, a=1).f == 5
    with pytest.raises(ValueError, match="below zero"):
        made(records.dataclass)[1](a=1, f=-1)


@records.dataclass(frozen=True, kw_only=True)
class Kept:
    """A record that goes through a file."""

    a: int = 0


def test_a_record_that_was_never_made_here_is_read_from_bytes() -> None:
    assert pickle.loads(pickle.dumps(Kept(a=4))) == Kept(a=4)


def test_another_thread_may_make_a_class_of_the_same_base_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two requests to a server may import modules that share a base at the same moment."""
    base, standard = made(records.dataclass)[0], dataclasses.dataclass

    def slow(kind: type, **rules: bool) -> Any:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: standard(frozen=True)(type("Other", (base,), {}))).result()
        return standard(kind, **rules)

    monkeypatch.setattr(dataclasses, "dataclass", slow)
    mine = records.dataclass(frozen=True)(type("Mine", (base,), {}))
    assert mine(a=1).a == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        mine(a=1).a = 2
