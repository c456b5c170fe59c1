"""The clock of the queue: arrivals, ends and decisions, in order, until all jobs end; queue_engine.c runs it."""

from __future__ import annotations

from podsim.fleet.queue_state import Plant, Rules, State, Work
from podsim.native import c_function

ALL_ENDED, ROOM, STUCK, PAUSE, MORE = range(5)
"""Why `advance` returns: all jobs ended, the spans are full, no event can follow, the rounds are over, outages
are to be drawn."""

advance = c_function("queue_advance", Work, Plant, Rules, State, int, result=int)
"""Advance by a number of rounds; see the reasons above."""
