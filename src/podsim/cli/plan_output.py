"""What `podsim plan` prints: the plans of a search, or the runs of a benchmark to its target."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.report.glance import plans_glance
from podsim.report.minutes_tables import target_report
from podsim.report.predictions import plans_report
from podsim.report.screen import Block
from podsim.results.minutes import TargetPlan
from podsim.results.prediction import PlanResult


def plan_report(answer: PlanResult | TargetPlan) -> Iterator[Block]:
    """The answer in full."""
    return iter(target_report(answer) if isinstance(answer, TargetPlan) else plans_report(answer))


def plan_brief(answer: PlanResult | TargetPlan) -> Iterator[Block]:
    """The answer at a glance."""
    return iter(target_report(answer) if isinstance(answer, TargetPlan) else plans_glance(answer))
