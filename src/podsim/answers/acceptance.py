"""Whether a machine is what it should be: its parts and its speed, compared with the expected ones. Plain values."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.answers.answer import Answer, View, call
from podsim.answers.fields import shown

VERDICTS = (
    "ok", "differs", "wrong result", "falls short", "above the limit", "not run", "remark", "no expectation",
    "cannot tell here",
)  # fmt: skip
"""the verdicts on a part or a check, in the order of a summary"""
_FIGURE, _SHARE = "report.acceptance_tables:figure_text", "report.acceptance_tables:share_text"
_LONGEST = 30
"""the most characters of a part on a terminal"""


def short_text(text: str) -> str:
    """A text that leaves room for others on a line; --json has all of it."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


@dataclass(frozen=True, kw_only=True)
class Part:
    """One line of the inventory."""

    name: str = shown("part")
    """The name: GPUs, GPU 0 and its adapter, TPM, …"""
    expected: str = shown(format=short_text)
    found: str = shown(format=short_text)
    verdict: str
    """The verdict: ok, differs, cannot tell here."""
    source: str = shown(is_hidden=True)
    """The file or tool that was read."""
    why: str = ""
    """The reason, or what would be needed to tell."""


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """The share of the expected figure that must be reached, and the reason."""

    name: str
    least: float
    """share. The smallest acceptable share of the expected figure."""
    most: float
    """factor. The largest plausible multiple of it: beyond it, other things were measured."""
    why: str


@dataclass(frozen=True, kw_only=True)
class Check:
    """One measured figure and the expected one."""

    group: str = shown(is_hidden=True)
    """The group: storage, metadata, network, ranks, training, trend."""
    name: str = shown("check")
    unit: str = shown(is_hidden=True)
    """The unit of the figures: B/s, 1/s."""
    measured: float | None = shown(of_row=lambda check: call(_FIGURE, "measured", check))
    """SI. The measured figure; None if it was not run."""
    expected: float | None = shown(of_row=lambda check: call(_FIGURE, "expected", check))
    """SI. The figure predicted for the expected hardware; None if nothing predicts it."""
    limit: float | None = shown(of_row=lambda check: call(_FIGURE, "limit", check))
    """SI. The most that the parts could do; None if unknown."""
    threshold: str = shown(is_hidden=True)
    """The name of its Threshold; empty if it was not run."""
    least: float = shown("of it", of_row=lambda check: call(_SHARE, check.share))
    """share. The share of the expected figure that it must reach."""
    verdict: str
    """The verdict: ok, remark, wrong result, falls short, above the limit, no expectation, not run."""
    why: str
    basis: str = shown(is_hidden=True)
    """The origin of the expected figure."""
    how: str = shown(is_hidden=True)
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
    view=View(rows="checks", page="report.pages:acceptance_page"),
):
    """A machine compared with what it should be."""

    machine: str
    """The machine, in words."""
    expected: str = shown("verdict", of_row=lambda acceptance: acceptance.outcome, remark="")
    """The name of the expected system."""
    started: str
    """The date and time in UTC, ISO 8601."""
    seconds: float
    """s. The duration of the whole run."""
    parts: tuple[Part, ...]
    checks: tuple[Check, ...]
    curves: tuple[Curve, ...] = shown(default=(), is_hidden=True)
    thresholds: tuple[Threshold, ...] = shown(default=(), is_hidden=True)
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

    @property
    def outcome(self) -> str:
        """One sentence: whether the machine is accepted, and the number of lines by verdict."""
        given = [part.verdict for part in self.parts] + [check.verdict for check in self.checks]
        order = sorted(
            set(given), key=lambda name: VERDICTS.index(name) if name in VERDICTS else len(VERDICTS)
        )
        counts = ", ".join(f"{given.count(name)} {name}" for name in order)
        word = "Accepted" if self.accepted else "Not accepted"
        return f"{word} as {self.expected}: {counts or 'nothing was judged'}."
