"""What a search for plans is about: a model, its part of a cluster, and what no search chooses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podsim.accuracy.measured_runs import MEMORY_ERROR
from podsim.answers.prediction import Correction
from podsim.errors import PlanError, raise_all
from podsim.hardware.cluster import Cluster
from podsim.options.plan_options import SearchOptions
from podsim.options.question import Progress, wrong_choices
from podsim.records import dataclass, replace
from podsim.storage.long_runs import read_tokens
from podsim.training.job_inputs import batch_of, read_inputs
from podsim.training.plan import Plan, precision_of, software_of
from podsim.training.plan_values import FACTOR_FIELDS
from podsim.training.search import SearchResult, search
from podsim.training.search_limits import fixed_limits, read_limits
from podsim.workload.model import Model


@dataclass(frozen=True, kw_only=True)
class Case:
    """The subject of a search: a model, its part of a cluster, the fixed fields of its plans, and the options."""

    model: Model
    cluster: Cluster
    fixed: Plan
    options: SearchOptions
    default_batch: bool
    correction: Correction | None = None
    """The correction by a measured step of the user."""

    @property
    def headroom(self) -> float:
        """share. The memory beyond the law's that plans leave which are ranked first."""
        return MEMORY_ERROR if self.options.headroom is None else float(self.options.headroom)

    def search(
        self, progress: Progress | None, *, cluster: Cluster | None = None, fields: Mapping[str, Any] | None = None,
        every: bool = False,
    ) -> SearchResult:  # fmt: skip
        """The plans on the cluster, or on a part of it, within the limits of the options and those of more fields."""
        wanted = read_limits({**(self.options.limit or {}), **(fields or {})}, self.cluster.gpus)
        return search(
            self.model, cluster or self.cluster, self.fixed, headroom=self.headroom, wanted=wanted, progress=progress,
            jobs=self.options.jobs, every=every,
        )  # fmt: skip

    @property
    def described(self) -> dict[str, Any]:
        """What a result says of its subject."""
        return {
            "model": self.model.name, "cluster": self.cluster.name, "gpus": self.cluster.gpus,
            "batch": int(self.fixed.global_batch), "sequence": self.model.sequence, "arguments": {},
        }  # fmt: skip


TRADES = ("cost", "energy")


def read_case(options: SearchOptions) -> tuple[Case, tuple[str, ...]]:
    """What is searched, and what was taken where the user left it open: model, cluster, fields that no search chooses."""
    tokens = None if options.tokens is None else read_tokens(options.tokens)
    limit = fixed_limits(options, options.limit)
    options = replace(options, price=str(options.price), tokens=tokens, limit=limit)
    _check(options)
    network, cluster, count, notes = read_inputs(
        options.model, options.on, options.gpus, options.sequence, options.overrides, options.train
    )
    software = software_of(options.software, cluster.gpu)
    sequences, default = batch_of(options.batch, network.sequence, count)
    fixed = Plan(
        global_batch=sequences, precision=precision_of(options.precision, cluster),
        optimizer_precision=options.optimizer_precision, software=software, sequence=network.sequence,
        flash=cluster.gpu.has_fused_attention, **{name: getattr(options, name) for name in FACTOR_FIELDS},
    ).check(network, cluster)  # fmt: skip
    case = Case(model=network, cluster=cluster, fixed=fixed, options=options, default_batch=default)
    return case, notes


def _check(options: SearchOptions) -> None:
    """Raise PlanError with all that is wrong of the options that name no model and no cluster."""
    objective, top = options.objective, options.top
    problems = wrong_choices(options, "objective", "detail")
    if not isinstance(top, int) or not 1 <= top <= 1000:
        problems.append(f"top={top}: between 1 and 1000 plans can be shown")
    if not isinstance(options.jobs, int) or not 0 <= options.jobs <= 1024:
        problems.append(f"jobs={options.jobs}: a search has 1 to 1024 threads, or 0 for one a processor")
    room = options.headroom or 0.0
    if not isinstance(room, (int, float)) or not 0 <= room < 1:
        problems.append(f"headroom={options.headroom}: a share of a plan's memory, from 0 to below 1")
    if objective in TRADES and (options.simulate or options.measured):
        problems.append(f"simulate and measured go with objective time or memory, not with {objective}")
    raise_all(problems, PlanError)
