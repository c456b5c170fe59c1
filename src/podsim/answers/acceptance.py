"""Whether a machine is what it should be: its parts and its speed, compared with the expected ones. Plain values."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.answers.answer import Answer, View


@dataclass(frozen=True, kw_only=True)
class Part:
    """One line of the inventory."""

    name: str
    """The name: GPUs, GPU 0 and its adapter, TPM, …"""
    expected: str
    found: str
    verdict: str
    """The verdict: ok, differs, cannot tell here."""
    source: str
    """The file or tool that was read."""
    why: str = ""
    """The reason, or what would be needed to tell."""


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """The share of the expected figure that must be reached, and the reason."""

    name: str
    least: float
    """share. The smallest acceptable share of the expected figure."""
    why: str


@dataclass(frozen=True, kw_only=True)
class Check:
    """One measured figure and the expected one."""

    group: str
    """The group: storage, metadata, network, ranks, training, trend."""
    name: str
    unit: str
    """The unit of the figures: B/s, 1/s."""
    measured: float | None
    """SI. The measured figure; None if it was not run."""
    expected: float | None
    """SI. The figure predicted for the expected hardware; None if nothing predicts it."""
    limit: float | None
    """SI. The most that the parts could do; None if unknown."""
    threshold: str
    """The name of its Threshold; empty if it was not run."""
    least: float
    """share. The share of the expected figure that it must reach."""
    verdict: str
    """The verdict: ok, remark, wrong result, falls short, above the limit, no expectation, not run."""
    why: str
    """The reason."""
    basis: str
    """The origin of the expected figure."""
    how: str
    """The tool that measured it."""

    @property
    def share(self) -> float | None:
        """Measured over expected; None without either."""
        return self.measured / self.expected if self.measured is not None and self.expected else None


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A figure over something else, to draw: all-reduce over size, images a second over ranks."""

    name: str
    over: str
    """The horizontal axis: size, ranks, epoch."""
    over_unit: str
    """The unit of the horizontal axis: B, or none."""
    unit: str
    measured: tuple[tuple[float, float], ...]
    """SI. The points (position on the axis, measured figure)."""
    expected: tuple[tuple[float, float], ...] = ()
    """SI. The expected points; empty if nothing predicts them."""


@dataclass(frozen=True, kw_only=True)
class Acceptance(
    Answer,
    view=View(
        report="report.acceptance_tables:acceptance_report",
        rows="checks",
        page="report.pages:acceptance_page",
    ),
):
    """A machine compared with what it should be."""

    machine: str
    """The machine, in words."""
    expected: str
    """The name of the expected system."""
    started: str
    """The date and time in UTC, ISO 8601."""
    seconds: float
    """s. The duration of the whole run."""
    parts: tuple[Part, ...]
    checks: tuple[Check, ...]
    curves: tuple[Curve, ...] = ()
    thresholds: tuple[Threshold, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """What keeps it from being accepted, in words."""
        parts = [f"{part.name} differs" for part in self.parts if part.verdict == "differs"]
        bad = [check for check in self.checks if check.verdict not in ("ok", "no expectation", "remark")]
        problems = (*parts, *(f"{check.name}: {check.verdict}" for check in bad))
        verdicts = {part.verdict for part in self.parts} | {check.verdict for check in self.checks}
        return problems if problems or "ok" in verdicts else ("nothing could be judged",)

    @property
    def accepted(self) -> bool:
        """Something was judged; nothing differs or falls short, and nothing that was asked for was left out."""
        return not self.problems
