"""Options of how a command prints and draws its answer; Python functions have none of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from podsim.options.question import like, option
from podsim.records import dataclass

PICTURES = (".svg", ".png")


@dataclass(frozen=True, kw_only=True)
class NoOutput:
    """What a command prints is fixed."""


@dataclass(frozen=True, kw_only=True)
class JsonOutput:
    """Text, or JSON."""

    json: bool = option(False, "Print JSON, numbers in SI.", flag="--json")


@dataclass(frozen=True, kw_only=True)
class Output(JsonOutput):
    """Text, JSON or CSV."""

    csv: bool = option(False, "Print CSV, numbers in SI.", flag="--csv")
    html: Path | None = option(None, "Also write the answer as one HTML page, with charts.")


@dataclass(frozen=True, kw_only=True)
class GlanceOutput(Output):
    """The answer at a glance, or in full."""

    verbose: bool = option(
        False, "Say more: parts of the step, memory, evidence, assumptions.", flag="--verbose", short="-v"
    )


@dataclass(frozen=True, kw_only=True)
class PlotOutput(Output):
    """The same, and a picture."""

    plot: Path | None = option(None, "Draw it: FILE.svg or .png.", suffixes=PICTURES)


@dataclass(frozen=True, kw_only=True)
class DrawOutput(PlotOutput):
    """A picture of the slices of GPUs."""

    plot: Path | None = like(PlotOutput, "plot", "Draw the slices: FILE.svg or .png.", older="--draw")


@dataclass(frozen=True, kw_only=True)
class SimulateOutput(Output):
    """The timeline and the links of a step, or a measured step next to it."""

    csv: bool = like(Output, "csv", "Print CSV: the critical path, or the ranks that a failure stops.")
    timeline: Sequence[Path] = option(
        (), "Write the timeline: FILE.pftrace or .json (Perfetto), .html, .png, .svg. Repeatable."
    )
    links: Path | None = option(None, "Draw the busiest links: FILE.png or .svg.")
    against: Path | None = option(
        None, "A PyTorch profile (Kineto JSON) of the real step, to compare it with."
    )
