"""A step's cost for arrays of steps at once: the tables of a `StepCost`, interpolated linearly as it does itself."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from podsim.axes import Floats
from podsim.serving.step_cost import StepCost


def _positions(grid: Floats, values: Floats) -> tuple[npt.NDArray[np.intp], Floats]:
    """The interval of an ascending grid for each value, and the position in it; the last one goes on."""
    if len(grid) == 1:
        return np.zeros(values.shape, np.intp), np.zeros(values.shape)
    low = np.clip(np.searchsorted(grid, values, side="right") - 1, 0, len(grid) - 2)
    return low, np.maximum((values - grid[low]) / (grid[low + 1] - grid[low]), 0.0)


def _along(grid: Floats, table: Floats, values: npt.ArrayLike) -> Floats:
    low, part = _positions(grid, np.asarray(values, float))
    high = np.minimum(low + 1, len(grid) - 1)
    return np.asarray(table[low] + part * (table[high] - table[low]))


def _across(
    rows: Floats, columns: Floats, table: Floats, row: npt.ArrayLike, column: npt.ArrayLike
) -> Floats:
    row_values, column_values = np.broadcast_arrays(np.asarray(row, float), np.asarray(column, float))
    low, part = _positions(rows, row_values)
    left, share = _positions(columns, column_values)
    high, right = np.minimum(low + 1, len(rows) - 1), np.minimum(left + 1, len(columns) - 1)
    first = table[low, left] + share * (table[low, right] - table[low, left])
    last = table[high, left] + share * (table[high, right] - table[high, left])
    return np.asarray(first + part * (last - first))


def token_seconds(cost: StepCost, tokens: npt.ArrayLike) -> Floats:
    """s of all that the number of tokens of a step decides."""
    return _along(cost.tokens, cost.tokens_seconds, tokens)


def decode_seconds(cost: StepCost, requests: npt.ArrayLike, context: npt.ArrayLike) -> Floats:
    """s of the attention of decoding sequences with a mean context."""
    return _across(cost.decode_requests, cost.decode_context, cost.decode_seconds, requests, context)


def chunk_seconds(cost: StepCost, new: npt.ArrayLike, past: npt.ArrayLike) -> Floats:
    """s of the attention of one chunk of a prompt, with tokens before it in the cache."""
    return _across(cost.prompt_new, cost.prompt_past, cost.prompt_seconds, new, past)
