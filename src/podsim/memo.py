"""Values that are computed once: hashes of large frozen dataclasses, and tables of single plans.

A prediction asks for the same model and cluster hundreds of times. Their hash walks through every part, so it is kept.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Hashable
from dataclasses import fields, is_dataclass
from functools import cached_property
from threading import Lock
from typing import Any, Generic, TypeVar

import numpy as np

Kind = TypeVar("Kind")
Value = TypeVar("Value")
_HASH = "_kept_hash"


def hashed_once(kind: type[Kind]) -> type[Kind]:
    """A frozen dataclass whose instances compute their hash once. Copies for other processes leave it out."""
    compute: Callable[[Any], int] = kind.__hash__

    def kept_hash(self: Any) -> int:
        known = self.__dict__.get(_HASH)
        if known is None:
            known = self.__dict__[_HASH] = compute(self)
        return int(known)

    def state(self: Any) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != _HASH}

    setattr(kind, "__hash__", kept_hash)  # noqa: B010  (mypy refuses assignments to methods)
    setattr(kind, "__getstate__", state)  # noqa: B010
    return kind


class Later(UserDict[str, Value]):
    """A mapping that is worked out when somebody looks into it; copies for other processes have its values."""

    def __init__(self, make: Callable[[], dict[str, Value]]) -> None:
        """Keep the function that makes it."""
        self._make = make

    @cached_property
    def data(self) -> dict[str, Value]:  # type: ignore[override]
        """The values."""
        return self._make()

    def __reduce__(self) -> tuple[type[dict[str, Value]], tuple[dict[str, Value]]]:
        """A dictionary."""
        return dict, (self.data,)


class Memo(Generic[Value]):
    """The values of the latest keys; the oldest go first. Arrays in them are read-only."""

    def __init__(self, most: int) -> None:
        """Start empty; at most so many values stay."""
        self._most, self._values, self._lock = most, dict[Hashable, Value](), Lock()

    def of(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value of a key, made at its first use."""
        known = self._values.get(key)
        if known is not None:
            return known
        value = make()
        freeze(value)
        with self._lock:
            self._values[key] = value
            if len(self._values) > self._most:
                del self._values[next(iter(self._values))]
        return value


def freeze(value: object) -> None:
    """Make the arrays of a value read-only: an array, or a dataclass or tuple of such."""
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
    elif isinstance(value, (tuple, list)):
        for part in value:
            freeze(part)
    elif is_dataclass(value):
        for field in fields(value):
            freeze(getattr(value, field.name))
