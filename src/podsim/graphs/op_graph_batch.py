"""A captured graph for any batch: each number is fixed, or linear in the batch.

Bytes and arithmetic of activations grow with the batch, those of weights do not. So captures at two batches determine
the graph at any batch, and a third capture checks it. In JSON a number that grows is {"fixed": a, "per_sample": b}; all
others are plain numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import chain
from typing import Any

import numpy as np

from podsim.errors import ModelError
from podsim.graphs.op_graph import OpGraph

BATCHES = (3, 5, 8)
"""The batches of the captures; 1 and 2 may be special cases."""
_KEYS = {"fixed", "per_sample"}


def for_any_batch(captures: Sequence[tuple[int, Any]]) -> Any:
    """The JSON value of a graph for any batch, from (batch, value) of three captures.

    Raises ModelError with the op's name if captures differ by more than numbers, or a number is not linear.
    """
    return _join([batch for batch, _ in captures], [value for _, value in captures], "")


def _join(batches: Sequence[int], values: Sequence[Any], where: str) -> Any:
    first = values[0]
    if all(value == first for value in values):
        return first
    if all(isinstance(value, dict) for value in values):
        keys = dict.fromkeys(key for value in values for key in value)
        inside = f"op {first['name']!r}" if "before" in first else where
        return {
            key: _join(batches, [value.get(key, 0) for value in values], f"{inside} {key}".strip())
            for key in keys
        }
    if all(isinstance(value, list) and len(value) == len(first) for value in values):
        return [
            _join(batches, items, where if isinstance(items[0], (dict, list)) else f"{where}[{position}]")
            for position, items in enumerate(zip(*values, strict=True))
        ]
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
        return _line(batches, values, where)
    raise ModelError(
        f"the graph depends on the batch beyond its numbers ({where or 'number of ops'}); capture it at one batch"
    )


def _line(batches: Sequence[int], values: Sequence[Any], where: str) -> dict[str, float]:
    """The line through the first two values. Raises ModelError if the others are not on it."""
    slope = (values[1] - values[0]) / (batches[1] - batches[0])
    fixed = values[0] - slope * batches[0]
    for batch, value in zip(batches, values, strict=True):
        if abs(fixed + slope * batch - value) > 1e-9 * abs(value):
            said = ", ".join(f"{v:g} at {b}" for b, v in zip(batches, values, strict=True))
            raise ModelError(f"{where} is not linear in the batch ({said}); capture it at one batch")
    return {"fixed": plain_number(fixed), "per_sample": plain_number(slope)}


def plain_number(value: float) -> float | int:
    """A number for JSON: an int if it is one."""
    return int(value) if float(value).is_integer() else float(value)


def interpolate_batch(single: OpGraph, double: OpGraph, batch: int) -> OpGraph:
    """The graph for a batch from those of one and two samples: equal to `at_batch`, but without parsing."""

    def line(first: Any, second: Any) -> Any:
        return first + (second - first) * (batch - 1)

    columns = {
        field.name: (getattr(single, field.name), getattr(double, field.name)) for field in fields(OpGraph)
    }
    arrays = {
        name: line(*pair)
        for name, pair in columns.items()
        if isinstance(pair[0], np.ndarray) and name not in _SAME
    }
    pairs = list(zip(single.shapes, double.shapes, strict=True))
    known = {pair: tuple(line(a, b) for a, b in zip(*pair, strict=True)) for pair in set(pairs)}
    shapes = tuple(known[pair] for pair in pairs)
    changed: dict[str, Any] = {**arrays, "shapes": shapes, "batch": batch}
    return replace(single, **changed)


def side_by_side(graphs: Sequence[OpGraph]) -> OpGraph:
    """The ops of several graphs as one, without edges: what each op costs is priced in one call."""
    assert len({graph.element for graph in graphs}) == 1, "elements of several sizes"
    columns = {field.name: [getattr(graph, field.name) for graph in graphs] for field in fields(OpGraph)}
    joined: dict[str, Any] = {
        name: np.concatenate(parts) for name, parts in columns.items() if isinstance(parts[0], np.ndarray)
    }
    joined |= {name: tuple(chain.from_iterable(columns[name])) for name in ("names", "targets", "shapes")}
    joined |= {
        "first": np.zeros(len(joined["kind"]) + 1, np.int64),
        "before": np.zeros(0, np.int64),
        "carried": np.zeros(0),
    }
    return replace(graphs[0], **joined)


_SAME = ("kind", "first", "before", "gradient")


def is_for_any_batch(value: Any) -> bool:
    """Whether a graph's JSON value is for any batch."""
    return isinstance(value, dict) and isinstance(value.get("batch"), dict)


def at_batch(value: Any, batch: int) -> Any:
    """The JSON value for `batch` samples; integers stay integers."""
    if isinstance(value, dict):
        if value.keys() == _KEYS:
            return plain_number(value["fixed"] + value["per_sample"] * batch)
        return {key: at_batch(item, batch) for key, item in value.items()}
    return [at_batch(item, batch) for item in value] if isinstance(value, list) else value
