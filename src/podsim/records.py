"""Frozen dataclasses whose methods wait for their first use: classes that a command only imports cost it no compiler.

    @dataclass(frozen=True, kw_only=True)

means what it means in the standard library, which makes the fields and, at the first instance, the `__init__`. Its
comparison, hash and text are shared functions here. Classes with slots or an order, or that are not frozen, are
the standard library's own.
"""

# ruff: noqa: PLC0414 - modules take all of it from here

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import KW_ONLY as KW_ONLY
from dataclasses import MISSING as MISSING
from dataclasses import field as field
from dataclasses import fields as fields
from dataclasses import is_dataclass as is_dataclass
from dataclasses import replace as replace
from operator import attrgetter
from threading import local
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(kind: type | None = None, /, **rules: bool) -> Any:
        """The decorator of `dataclasses`, with the same rules."""
        if kind is None:
            return lambda decorated: dataclass(decorated, **rules)
        if not rules.get("frozen") or rules.keys() & {"init", "repr", "slots", "order", "unsafe_hash"}:
            return dataclasses.dataclass(kind, **rules)
        is_equal = rules.pop("eq", True)
        # made as if it and those above it could be changed: to forbid it, Python would compile two methods
        for base in kind.__mro__[1:]:
            known = vars(base).get("__dataclass_params__")
            if known is not None and not isinstance(known, _Frozen):
                base.__dataclass_params__ = _Frozen(known)
        _Frozen.making.is_on = True
        try:
            dataclasses.dataclass(kind, init=False, repr=False, eq=False, **rules | {"frozen": False})
        finally:
            _Frozen.making.is_on = False
        kind.__dataclass_params__.frozen = True
        methods = {"__init__": _Init(kind), **_SHARED} | (_comparison(kind) if is_equal else {})
        for name, method in methods.items():
            if vars(kind).get(name) is None:
                setattr(kind, name, method)
        return kind


class _Frozen:
    """The rules of a class, which seems not to be frozen to the thread that makes a record of it."""

    making = local()

    def __init__(self, rules: Any) -> None:
        self.rules = rules

    def __getattr__(self, name: str) -> Any:
        is_hidden = name == "frozen" and getattr(self.making, "is_on", False)
        return False if is_hidden else getattr(self.rules, name)


class _Init:
    """The `__init__` of a record, which is compiled when somebody asks for it."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def __get__(self, record: object | None, _: type) -> Any:
        if self.kind.__dict__["__init__"] is self:
            self.kind.__init__ = _compiled_init(self.kind)
        made = self.kind.__init__
        return made if record is None else made.__get__(record)


def _compiled_init(kind: type) -> Any:
    """The function that the standard library would have compiled for a frozen class."""
    known: dict[str, Any] = {"_store": object.__setattr__, "_absent": MISSING}
    unnamed, named, lines = ["self"], ["*"], ["pass"]
    for part in fields(kind):
        name, value = part.name, part.name
        known[f"_default_{name}"] = part.default
        is_open = part.default is MISSING and part.default_factory is MISSING
        if part.init:
            (named if part.kw_only else unnamed).append(name if is_open else f"{name}=_default_{name}")
        if part.default_factory is not MISSING:
            known[f"_new_{name}"] = part.default_factory
            value = f"_new_{name}() if {name} is _absent else {name}" if part.init else f"_new_{name}()"
        if part.init or part.default_factory is not MISSING:
            lines.append(f"_store(self, {name!r}, {value})")
    if hasattr(kind, "__post_init__"):
        lines.append("self.__post_init__()")
    heads = ", ".join(unnamed + named[: len(named) if len(named) > 1 else 0])
    exec(f"def __init__({heads}) -> None:\n " + "\n ".join(lines), known)
    made = known["__init__"]
    made.__qualname__ = f"{kind.__qualname__}.__init__"
    made.__annotations__ = {part.name: part.type for part in fields(kind) if part.init} | {"return": None}
    return made


def _comparison(kind: Any) -> dict[str, Callable[..., Any]]:
    """`__eq__` and `__hash__` of a record, by its fields."""
    compared = _values([part.name for part in fields(kind) if part.compare])
    hashed = _values(
        [part.name for part in fields(kind) if (part.compare if part.hash is None else part.hash)]
    )

    def is_equal(self: object, other: object) -> Any:
        return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

    return {"__eq__": is_equal, "__hash__": lambda self: hash(hashed(self))}


def _values(names: list[str]) -> Callable[[object], Any]:
    """The values of some fields."""
    return attrgetter(*names) if names else lambda _: ()


def _repr(self: Any) -> str:
    shown = (f"{part.name}={getattr(self, part.name)!r}" for part in fields(self) if part.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _forbidden(deed: str) -> Callable[..., None]:
    def forbid(self: object, name: str, *_: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot {deed} field {name!r}")

    return forbid


_SHARED = {"__repr__": _repr, "__setattr__": _forbidden("assign to"), "__delattr__": _forbidden("delete")}
