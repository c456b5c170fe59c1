"""Spans too narrow to draw: the exact share of each pixel that each kind covers, and the mixture of their colours.

Letters of array names: R rows, K kinds, W pixels of the width, C colour channels.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from podsim.answers.timeline import Timeline
from podsim.timeline.kind_colours import rgb

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
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
    covers_RKW = covers.reshape(rows, kinds, width + 2)
    return np.asarray(np.cumsum(covers_RKW, axis=2)[:, :, :width])


def mix_colours(covers_RKW: Floats, colours: list[str]) -> Floats:
    """The picture [R, W, C]: each pixel the colours of its kinds in proportion, and paper for the time left over."""
    colours_KC = np.array([rgb(colour) for colour in colours])
    whole_RW = covers_RKW.sum(axis=1)
    paint_RWC = np.einsum("rkw,kc->rwc", covers_RKW, colours_KC)
    paint_RWC /= np.maximum(whole_RW, 1.0)[:, :, None]
    idle_RW = np.clip(1.0 - whole_RW, 0.0, 1.0)
    return np.asarray(np.clip(paint_RWC + idle_RW[:, :, None] * np.array(PAPER), 0.0, 1.0))
