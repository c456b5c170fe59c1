"""What a failure in the middle of a simulated step does: plain values in SI that name no formula."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Some equal ranks that stand still."""

    ranks: str
    """"8 ranks from 16" """
    since: float
    """s from the start of the step: when the last of what they could still do was done"""
    op: str
    """what they cannot begin, or began and cannot end"""
    waits_for: str
    """the ranks that they wait for; "" for the failed one"""


@dataclass(frozen=True, kw_only=True)
class FailedStep:
    """A rank, or the adapter of one, that failed in the middle of a step."""

    what: str
    """"rank" or "adapter" """
    rank: int
    time: float
    """s from the start of the step"""
    healthy: float
    """s of the step without the failure"""
    rerouted: str
    """whose adapter carries the traffic since, "" if nothing does"""
    under_way: tuple[str, ...]
    """what could not end, of those ops that were under way: "2 ranks from 0: tp sync" """
    standing: tuple[Standing, ...]
    """who stands still since when, the first first; empty if the step goes on"""
    still: float
    """s from the start of the step: when all stand still; 0 if the step goes on"""
    noticed: float
    """s from the start of the step: when the watchdog of the first collective that hangs ends the run"""
    watchdog: float
    """s that a collective may take before the run is ended"""
    lost: float
    """s of the run's time that are lost: the step so far, the wait for the watchdog, half a checkpoint interval"""
