"""What a failure in the middle of a simulated step does: plain values in SI that name no formula."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Some equal ranks that stand still."""

    ranks: str
    """The ranks: "8 ranks from 16"."""
    since: float
    """s. The time from the start of the step until they had done all that they still could."""
    op: str
    """The op that they cannot begin, or began and cannot end."""
    waits_for: str
    """The ranks that they wait for; "" for the failed one."""


@dataclass(frozen=True, kw_only=True)
class FailedStep:
    """A rank, or the adapter of one, that failed in the middle of a step."""

    what: str
    """The part that failed: "rank" or "adapter"."""
    rank: int
    time: float
    """s. The time of the failure, from the start of the step."""
    healthy: float
    """s. The time of the step without the failure."""
    rerouted: str
    """The rank whose adapter carries the traffic afterwards; "" if none does."""
    under_way: tuple[str, ...]
    """The ops that had begun and could not end: "2 ranks from 0: tp sync"."""
    standing: tuple[Standing, ...]
    """The ranks that stand still, in the order of time; empty if the step continues."""
    still: float
    """s. The time from the start of the step until all stand still; 0 if the step continues."""
    noticed: float
    """s. The time from the start of the step until the watchdog of the first hanging collective ends the run."""
    watchdog: float
    """s. The time that a collective may take before the run is ended."""
    lost: float
    """s. The lost time of the run: the step so far, the wait for the watchdog, half a checkpoint interval."""
