"""Spans too narrow to draw: the exact share of each pixel that each kind covers, and the mixture of their colours.

Letters of array names: R rows, K kinds, W pixels of the width, C colour channels.
"""

from __future__ import annotations

import numpy as np

from podsim.answers.timeline import Timeline
from podsim.axes import Floats, Ints, Shaped
from podsim.timeline.kind_colours import rgb

PAPER = (0.955, 0.96, 0.965)
"""colour of a lane that is idle"""


def coverage(timeline: Timeline, row: Ints, rows: int, width: int, low: float, high: float) -> Floats:
    """Share of each pixel that the spans of each row and kind cover, [R, K, W]; `row` is the row of each span.

    The shares are exact at any width: a span adds 1 to each pixel inside it, and its part to the pixels at its ends.
    Overlapping spans of a row may add up to more than 1.
    """
    scale = width / (high - low)
    kinds = len(timeline.kinds)
    line = (row * kinds + timeline.kind) * (width + 2)
    covers = np.zeros(rows * kinds * (width + 2))
    for time, sign in ((timeline.start, 1.0), (timeline.end, -1.0)):
        at = np.clip((time - low) * scale, 0.0, float(width))
        pixel = at.astype(np.int64)
        share = at - pixel
        covers += sign * np.bincount(line + pixel, 1.0 - share, len(covers))
        covers += sign * np.bincount(line + pixel + 1, share, len(covers))
    grid = covers.reshape(rows, kinds, width + 2)  # [row, kind, pixel]
    return np.asarray(np.cumsum(grid, axis=2)[:, :, :width])


def mix_colours(covers: Shaped[Floats, "row kind pixel"], colours: list[str]) -> Floats:
    """The picture [R, W, C]: each pixel the colours of its kinds in proportion, and paper for the time left over."""
    palette = np.array([rgb(colour) for colour in colours])  # [kind, colour]
    total = covers.sum(axis=1)  # [row, pixel]
    paint = np.einsum("rkw,kc->rwc", covers, palette)  # [row, pixel, colour]
    paint /= np.maximum(total, 1.0)[:, :, None]
    idle = np.clip(1.0 - total, 0.0, 1.0)  # [row, pixel]
    return np.asarray(np.clip(paint + idle[:, :, None] * np.array(PAPER), 0.0, 1.0))
