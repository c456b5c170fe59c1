"""Which values of a plan's fields a search may try, as the user words them: text "4,8", or any list of values."""

from __future__ import annotations

from collections.abc import ItemsView, Mapping, Sequence
from typing import Any

from podsim.errors import PlanError, unknown_name
from podsim.training.search_space import SEARCHED, Space

Limit = Mapping[str, str | Sequence[object]]

_FLAGS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


def read_limits(limit: Limit | None, gpus: int) -> Space:
    """The space of a search on a number of GPUs; PlanError with every field and value that cannot be."""
    problems: list[str] = []
    values: dict[str, Any] = {}
    for name, given in _items(limit):
        if name not in SEARCHED:
            problems.append(unknown_name("field of a plan", name, SEARCHED))
            continue
        words = _words(given)
        wrong = [word for word in words if _value(name, word, gpus) is None]
        if wrong or not words:
            problems.append(
                f"limit {name}={', '.join(wrong)[:60] or 'nothing'}: {name} may be {_allowed(name, gpus)}"
            )
        else:
            values[name] = tuple(dict.fromkeys(v for w in words if (v := _value(name, w, gpus)) is not None))
    if problems:
        raise PlanError(problems)
    return values


def spelled(limit: Limit | None) -> dict[str, list[str]]:
    """The same limits as lists of words, as an experiment file keeps them."""
    return {name: _words(given) for name, given in _items(limit)}


def _items(limit: Limit | None) -> ItemsView[str, object]:
    if limit is not None and not isinstance(limit, Mapping):
        raise PlanError([f'limit={str(limit)[:60]!r}: give a mapping, such as {{"tp": [4, 8]}}'])
    return (limit or {}).items()


def _words(given: object) -> list[str]:
    values = given.split(",") if isinstance(given, str) else given if isinstance(given, Sequence) else [given]
    return [str(word).strip().lower() for word in values]


def _value(name: str, word: str, gpus: int) -> int | None:
    """The code of a word; None if the field cannot have it."""
    known = SEARCHED[name]
    if known.choices:
        return known.choices.index(word) if word in known.choices else None
    if known.kind is bool:
        return _FLAGS.get(word)
    if not (word.isascii() and word.isdigit() and len(word) < 10):
        return None
    number = int(word)
    return number if known.least <= number <= (known.most or gpus) else None


def _allowed(name: str, gpus: int) -> str:
    known = SEARCHED[name]
    if known.choices:
        return ", ".join(known.choices)
    if known.kind is bool:
        return "true, false"
    return f"whole numbers from {known.least} to {known.most or gpus}"
