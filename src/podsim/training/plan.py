"""The plan of a training run: how a model is laid out on a cluster, and the rules that it keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from podsim.errors import PlanError
from podsim.hardware.cluster import Cluster
from podsim.training.plan_values import PlanValues
from podsim.training.rules import problems
from podsim.workload.graph import Model


@dataclass(frozen=True, kw_only=True)
class Plan(PlanValues):
    """The layout of one training run. Integer and boolean fields may be numpy arrays that broadcast together."""

    def problems(self, model: Model, cluster: Cluster) -> list[str]:
        """Every rule this (scalar) plan breaks, each with the value and what would be allowed."""
        return problems(self, model, cluster)

    def check(self, model: Model, cluster: Cluster) -> Self:
        """Give the plan itself, or raise PlanError with all its problems."""
        broken = self.problems(model, cluster)
        if broken:
            raise PlanError(broken)
        return self
