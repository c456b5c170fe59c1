"""The plans of a search that fit, as a picture of bounded size: how many fall into each cell, and the best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Shaped
from podsim.errors import PlanError, raise_all
from podsim.options.plan_options import LayoutFields, SearchOptions
from podsim.options.question import Progress, option, options_of, question
from podsim.runs.search_case import Case, read_case
from podsim.training.search import SearchResult, search
from podsim.training.search_limits import read_limits

Column: TypeAlias = Shaped[NDArray[np.float64], "plan"]

_MEASURES = ("step_time", "memory", "tokens_per_second")
AXES = (*_MEASURES, *(name for name, known in options_of(LayoutFields).items() if known.kind is not str))
_CELLS = (72, 48)
"""cells along x and y"""


@dataclass(frozen=True, kw_only=True)
class MapOptions(SearchOptions):
    """A search, and what its picture shows."""

    x: str = option(
        "step_time", "The horizontal axis: step_time, memory, or a field of a plan.", choices=AXES
    )
    y: str = option("memory", "The vertical axis, one of the same.", choices=AXES)
    low: float | None = option(None, "Only plans from this value of x on.")
    high: float | None = option(None, "Only plans up to this value of x.")


@question(MapOptions)
def plan_map(options: MapOptions, *, progress: Progress | None = None) -> dict[str, Any]:
    """The cells of a grid that hold plans: [column, row, number of plans, least seconds of a step].

    `best` has the fields of the fastest plan of each cell, in the order of the cells; `front` the plans that nothing
    beats in both time and memory. PlanError for unknown axes.
    """
    wrong = [f"{axis}={value!r}: one of {', '.join(AXES)}" for axis, value in (("x", options.x), ("y", options.y))
             if value not in AXES]  # fmt: skip
    raise_all(wrong, PlanError)
    case, _ = read_case(options)
    gpus = case.cluster.gpus
    limits = read_limits(options.limit, gpus)
    result = search(case.model, case.cluster, case.fixed, wanted=limits, progress=progress, every=True)
    shown = np.asarray(result.order)
    x, y = (_column(result, case, shown, axis) for axis in (options.x, options.y))
    inside = (x >= (-np.inf if options.low is None else options.low)) & (
        x <= (np.inf if options.high is None else options.high)
    )
    shown, x, y = shown[inside], x[inside], y[inside]
    return {
        "model": case.model.name, "cluster": case.cluster.name, "gpus": gpus, "evaluated": result.evaluated,
        "fitting": result.fitting, "x": options.x, "y": options.y,
        **_grid(result, shown, x, y), "front": _front(result, case, options),
    }  # fmt: skip


def _column(result: SearchResult, case: Case, positions: NDArray[np.int64], axis: str) -> Column:
    """The values of an axis for plans."""
    combination = positions % result.memory_bytes.size
    if axis == "memory":
        return np.asarray(result.memory_bytes[combination])
    if axis in _MEASURES:
        seconds = result.seconds_of(positions)
        tokens = float(case.fixed.global_batch) * case.fixed.length(case.model)
        return np.asarray(seconds if axis == "step_time" else tokens / seconds)
    if axis in ("overlap_grad", "overlap_param"):
        flag = result.flags[positions // result.memory_bytes.size]
        return np.asarray(flag[:, int(axis == "overlap_param")], dtype=float)
    return np.asarray(getattr(result.combinations, axis)[combination], dtype=float)


def _grid(result: SearchResult, positions: NDArray[np.int64], x: Column, y: Column) -> dict[str, Any]:
    """The cells, their borders, and the fastest plan of each."""
    if positions.size == 0:
        return {"x_edges": [], "y_edges": [], "cells": [], "best": []}
    edges = [_edges(values, count) for values, count in zip((x, y), _CELLS, strict=True)]
    column, row = (
        np.clip(np.searchsorted(edge, values, side="right") - 1, 0, len(edge) - 2)
        for edge, values in zip(edges, (x, y), strict=True)
    )
    # positions come fastest first, so the first of a cell is its fastest
    cells, first, number = np.unique(column * _CELLS[1] + row, return_index=True, return_counts=True)
    best = positions[first]
    return {
        "x_edges": edges[0].tolist(),
        "y_edges": edges[1].tolist(),
        "cells": [
            [int(cell // _CELLS[1]), int(cell % _CELLS[1]), int(count), result.seconds(position)]
            for cell, count, position in zip(cells, number, best.tolist(), strict=True)
        ],
        "best": [_layout(result, position) for position in best.tolist()],
    }


def _edges(values: Column, count: int) -> Column:
    """Borders of cells: evenly spaced logarithms, or one cell for each of a few values."""
    low, high = float(values.min()), float(values.max())
    distinct = np.unique(values[:: max(1, values.size // 100_000)])
    if distinct.size <= 24:
        return np.asarray(np.append(distinct, distinct[-1] + 1))
    if low > 0:
        return np.asarray(np.geomspace(low, high * (1 + 1e-9), count + 1))
    return np.linspace(low, high, count + 1)


def _layout(result: SearchResult, position: int) -> dict[str, object]:
    """The fields of a plan that a search chooses."""
    described = result.plan(position).describe()
    return {name: described[name] for name in options_of(LayoutFields)}


def _front(result: SearchResult, case: Case, options: MapOptions) -> list[dict[str, Any]]:
    positions = np.asarray(result.pareto)
    columns = [_column(result, case, positions, axis).tolist() for axis in (options.x, options.y)]
    return [
        {"x": x, "y": y, "step_time": result.seconds(position), "memory": result.memory(position),
         "plan": _layout(result, position)}
        for position, x, y in zip(positions.tolist(), *columns, strict=True)
    ]  # fmt: skip
