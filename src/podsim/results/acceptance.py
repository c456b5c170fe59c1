"""Whether a machine is what it should be: what is in it, and what it does, beside what was expected. Plain values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Part:
    """One line of the inventory."""

    name: str
    """GPUs, GPU 0 and its adapter, TPM, …"""
    expected: str
    found: str
    verdict: str
    """ok, differs, cannot tell here"""
    source: str
    """file or tool that was read"""
    why: str = ""
    """what decides, or what would have to be there to tell"""


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """How much of what is expected must be reached, and why so much."""

    name: str
    least: float
    """share of the expected figure"""
    why: str


@dataclass(frozen=True, kw_only=True)
class Check:
    """One measured figure beside what was expected."""

    group: str
    """storage, metadata, network, training"""
    name: str
    unit: str
    """of the figures: B/s, 1/s"""
    measured: float | None
    """SI; None if it was not run"""
    expected: float | None
    """SI, predicted for the expected hardware; None where nothing predicts it"""
    limit: float | None
    """SI, what the parts could do at most; None where it is not known"""
    threshold: str
    """name of the Threshold that it is held to; empty where it was not run"""
    least: float
    """share of the expected figure that must be reached"""
    verdict: str
    """ok, wrong result, falls short, above the limit, no expectation, not run"""
    why: str
    """what decides"""
    basis: str
    """where the expected figure comes from"""
    how: str
    """what measured it"""

    @property
    def share(self) -> float | None:
        """Measured over expected; None without either."""
        return self.measured / self.expected if self.measured is not None and self.expected else None


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A figure over something else, to draw: all-reduce over size, images a second over ranks."""

    name: str
    over: str
    """what runs along: size, ranks, epoch"""
    over_unit: str
    """B, or nothing"""
    unit: str
    measured: tuple[tuple[float, float], ...]
    """SI, (what runs along, figure)"""
    expected: tuple[tuple[float, float], ...] = ()
    """SI, likewise; empty where nothing predicts it"""


@dataclass(frozen=True, kw_only=True)
class Acceptance:
    """A machine held against what it should be."""

    machine: str
    """what was found, in words"""
    expected: str
    """name of what it should be"""
    started: str
    """date and time in UTC, ISO 8601"""
    seconds: float
    """s that all of it took"""
    parts: tuple[Part, ...]
    checks: tuple[Check, ...]
    curves: tuple[Curve, ...] = ()
    thresholds: tuple[Threshold, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """What keeps it from being accepted, in words."""
        parts = [f"{part.name} differs" for part in self.parts if part.verdict == "differs"]
        bad = [check for check in self.checks if check.verdict not in ("ok", "no expectation")]
        found = (*parts, *(f"{check.name}: {check.verdict}" for check in bad))
        verdicts = {part.verdict for part in self.parts} | {check.verdict for check in self.checks}
        return found if found or "ok" in verdicts else ("nothing could be judged",)

    @property
    def accepted(self) -> bool:
        """Something was judged; nothing differs or falls short, and nothing that was asked for was left out."""
        return not self.problems
