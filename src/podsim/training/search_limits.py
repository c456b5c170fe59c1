"""What a user leaves a search to try: the values of each field, as options and limits give them."""

from __future__ import annotations

from collections.abc import ItemsView, Mapping, Sequence
from typing import Any, TypeAlias

from podsim.errors import PlanError, raise_all, unknown_name
from podsim.options.plan_options import FixedLayout, LayoutFields
from podsim.options.question import options_of

Space: TypeAlias = Mapping[str, Sequence[Any]]
"""The values that each field may take; every legal one for a field that is left out."""

SEARCHED = options_of(LayoutFields)
"""The fields that a search chooses; dp takes the remaining GPUs."""
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
                f"limit {name}={', '.join(wrong)[:60] or 'nothing'}: {name} may be {_allowed_text(name, gpus)}"
            )
        else:
            values[name] = tuple(dict.fromkeys(v for w in words if (v := _value(name, w, gpus)) is not None))
    raise_all(problems, PlanError)
    return values


def fixed_limits(options: FixedLayout, limit: Limit | None) -> Limit:
    """The limits of a search with the fields that the options fix; PlanError where they contradict each other."""
    given = {name: getattr(options, name) for name in options_of(FixedLayout)}
    fixed = {name: [value] for name, value in given.items() if value is not None}
    limits = dict(_items(limit))
    if twice := [name for name, value in fixed.items() if _words(limits.get(name, value)) != _words(value)]:
        raise PlanError([f"{name} is fixed and limited: give one of the two" for name in twice])
    return {**limits, **fixed}  # type: ignore[dict-item]


def limit_words(limit: Limit | None) -> dict[str, list[str]]:
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
    if not (word.isascii() and word.isdecimal() and len(word) < 10):
        return None
    number = int(word)
    return number if known.least <= number <= (known.most or gpus) else None


def _allowed_text(name: str, gpus: int) -> str:
    known = SEARCHED[name]
    if known.choices:
        return ", ".join(known.choices)
    if known.kind is bool:
        return "true, false"
    return f"whole numbers from {known.least} to {known.most or gpus}"
