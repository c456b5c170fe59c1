"""What a tool can run: values by field of a plan, further conditions, and the software that it starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from podsim.errors import PlanError
from podsim.launching.job import Job, effective
from podsim.training.plan import Plan
from podsim.workload.model import Model


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a tool can run of the legal plans."""

    title: str
    software: tuple[str, ...]
    """The software entries that it starts, its own first; patterns such as nemo-* after it."""
    can: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    """The values that it can run, by field of a plan."""
    rules: tuple[tuple[Callable[[Plan, Model], bool], str], ...] = ()
    """The other conditions of a plan that it cannot run, and why; {tp} in the text is the plan's, {model} the model."""

    def starts(self, software: str) -> bool:
        """Whether it starts a software entry."""
        return any(fnmatchcase(software, pattern) for pattern in self.software)

    def problems(self, job: Job) -> list[str]:
        """Everything of a legal plan that it cannot run."""
        plan = effective(job.plan, job.model)
        fields = plan.describe()
        problems = [
            f"{name}={fields[name]}: {name} may be {', '.join(map(str, values))}"
            for name, values in self.can.items()
            if fields[name] not in values
        ]
        problems += [
            text.format(**fields, model=job.model.name)
            for broken, text in self.rules
            if broken(plan, job.model)
        ]
        if not self.starts(plan.software):
            problems.append(
                f"software={plan.software!r} is not what {self.title} starts; software may be {', '.join(self.software)}"
            )
        return problems

    def refuse(self, job: Job) -> None:
        """Raise PlanError with everything of a legal plan that it cannot run, if there is anything."""
        if problems := self.problems(job):
            raise PlanError([f"{self.title}: {problem}" for problem in problems])


def is_waiting(plan: Plan, model: Model) -> bool:
    """Whether a plan exchanges gradients or weights without computing meanwhile."""
    moved = int(plan.dp) * int(plan.cp) > 1
    return moved and not (plan.overlap_grad and (plan.overlap_param or not plan.zero))


def is_unsharded(plan: Plan, model: Model) -> bool:
    """Whether ZeRO shards over a single rank."""
    return int(plan.zero) > 0 and int(plan.shard or plan.dp * plan.cp) == 1


def trains_no_decoder(plan: Plan, model: Model) -> bool:
    """Whether the model has an encoder."""
    return any(block.encoder for block in model.layers) or model.family == "bert"
