"""What the ranks of a simulated step do and wait for: the seconds of their compute lanes by part."""

from __future__ import annotations

import numpy as np

from podsim.simulation.outcome import all_gaps
from podsim.simulation.pieces import Stream
from podsim.training.step import SPLIT


def lane_seconds(lowered, played):
    """Seconds of each class's compute lane by what runs or is waited for, shape (classes, parts); rows are the step."""
    parts = np.zeros((lowered.classes.count, len(SPLIT)))
    owner = np.searchsorted(lowered.base, np.arange(len(lowered.what)), side="right") - 1
    for op in np.flatnonzero(lowered.ops.stream % len(Stream) == Stream.COMPUTE):
        piece = lowered.pieces[lowered.what[op]]
        if piece.seconds:
            parts[owner[op]] += piece.parts / piece.seconds * (played.end[op] - played.start[op])
    gaps = all_gaps(lowered, played)
    np.add.at(parts, (gaps.owner, gaps.part), gaps.end - gaps.start)
    return parts
