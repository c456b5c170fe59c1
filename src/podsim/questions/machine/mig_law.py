"""`podsim mig law`: the laws of slices against what was measured."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.answers.answer import Answer, View
from podsim.answers.fields import shown
from podsim.hardware.mig.measured_slices import SliceCase, SliceScore, cases, interference, slice_scores
from podsim.options.question import NoOptions, question
from podsim.serving.mlperf import Seventh, sevenths


@dataclass(frozen=True, kw_only=True)
class LawReport(Answer, view=View(rows="scores")):
    """The laws of slices: speed = 1 / (f + (1 - f) / share), share = the larger of compute and memory share."""

    scores: tuple[SliceScore, ...] = shown(title="Rules for f, and their errors")
    """The scores of each rule for f."""
    cases: tuple[SliceCase, ...] = shown(is_hidden=True)
    """The training jobs."""
    busy: dict[str, float] = shown(
        format=":.1%", title="Six busy neighbours cost, of the throughput of one instance"
    )
    """share. The share of throughput that six busy neighbours cost, by model."""
    sevenths: tuple[Seventh, ...] = shown(
        title="One smallest instance, in sevenths of the whole GPU (MLPerf Inference offline; none is fitted)"
    )
    """MLPerf's pairs of an instance and its GPU."""
    seventh_error: float = shown("mean error of the sevenths", ":.1%")
    """share. The mean of their absolute relative errors."""


@question(NoOptions)
def mig_law(options: NoOptions) -> LawReport:
    """Compare the laws of slices with measurements: 28 training jobs, each left out, and MLPerf's smallest instances."""
    rows = sevenths()
    return LawReport(
        scores=slice_scores(), cases=cases(), busy=interference(), sevenths=rows,
        seventh_error=sum(abs(row.predicted / row.measured - 1) for row in rows) / len(rows),
    )  # fmt: skip
