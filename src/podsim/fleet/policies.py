"""The policies of the queue, each an order (podsim.fleet.orders) with rules for backfill and preemption.

A new policy is one entry of POLICIES (and one small function of ORDERS for a new order). All property tests and the
naive reference run over the list.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from podsim.errors import PodsimError, check_name, unknown_name
from podsim.fleet.orders import MOVING, ORDERS
from podsim.fleet.queue_state import CONSERVATIVE, EASY, SKIP, STRICT, Rules

BACKFILLS = {"strict": STRICT, "skip": SKIP, "easy": EASY, "conservative": CONSERVATIVE}


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A policy: the order of the queue, and the rules for the other jobs."""

    name: str
    says: str
    """A description in one line."""
    order: str = "first come"
    """A key of podsim.fleet.orders.ORDERS."""
    backfill: str = "skip"
    """The rule for jobs behind one that does not fit: strict (wait), skip (start), easy (start unless the first is
    delayed), conservative (start unless any is delayed)."""
    preempt: bool = False
    """Whether running jobs give way."""
    interval: float = 0.0
    """s. The time between decisions; 0: a decision at every arrival and end."""
    refresh: float = 0.0
    """s. The time after which waiting jobs are sorted again; 0: never."""
    depth: int = 0
    """The number of jobs behind the first that are considered (Slurm's bf_max_job_test); 0: all."""
    checkpoint: float = 0.0
    """s. The time that a preempted job needs on its GPUs to save, charged when it continues."""
    restart: float = 0.0
    """s. The time that a preempted job needs on its GPUs to load and continue."""
    start: float = 0.0
    """s. The time that a job needs on its GPUs before its first step."""
    moves: bool = False
    """Whether running jobs may move at every decision, at no cost."""
    levels: tuple[float, ...] = ()
    """factor. The GPU-seconds of attained service at which a job falls by a level."""
    age: float = 0.0
    """factor. The weight of age (Slurm's PriorityWeightAge)."""
    max_age: float = 7 * 86400.0
    """s. The waiting time beyond which age no longer counts (PriorityMaxAge)."""
    fair: float = 0.0
    """factor. The weight of fair share."""
    half_life: float = 7 * 86400.0
    """s. The time in which past usage halves (PriorityDecayHalfLife)."""
    big: float = 0.0
    """factor. The weight of the size of a job."""
    site: float = 0.0
    """factor. The weight of a job's own rank (quality of service)."""
    tiers: bool = False
    """Whether jobs of a higher rank, or of a partition of a higher tier, come first and stop those of lower ones."""
    saves: float = 0.0
    """s. The training time between checkpoints, to which a failure throws a job back; 0: to its last start."""
    elastic: bool = False
    """Whether goodput sets the number of GPUs of elastic jobs."""
    lease: float = 1800.0
    """s. The time for which an elastic job keeps its GPUs."""
    mount: float = 0.0
    """s. The start of a container whose image is on the node."""
    pull: float = 0.0
    """s. The time to bring an image to one node."""
    pull_each: float = 0.0
    """s. The time that each of many nodes adds, as the store sets the pace."""

    def __post_init__(self) -> None:
        """Raise PodsimError with all contradictions."""
        problems = [
            f"{name}={getattr(self, name):g}; it must be finite and not negative"
            for name in ("depth", *sorted(_SAME - {"max_age", "half_life"}))
            if not 0 <= getattr(self, name) < np.inf
        ]
        problems += [
            f"{name}={getattr(self, name):g}; it must be finite and positive"
            for name in ("max_age", "half_life")
            if not 0 < getattr(self, name) < np.inf
        ]
        if self.order not in ORDERS:
            problems.append(unknown_name("order", self.order, ORDERS))
        if self.backfill not in BACKFILLS:
            problems.append(unknown_name("backfill", self.backfill, BACKFILLS))
        if self.preempt and self.backfill in ("easy", "conservative"):
            problems.append(
                f"backfill={self.backfill} plans with running jobs; with preempt give skip or strict"
            )
        if self.backfill == "conservative" and self.interval:
            problems.append("conservative backfill decides at every event; give interval=0")
        if self.levels and self.order != "by level":
            problems.append(f"levels={self.levels} need order='by level', not {self.order!r}")
        if list(self.levels) != sorted(set(self.levels)) or any(level <= 0 for level in self.levels):
            problems.append(f"levels={self.levels} must be positive and rise")
        if problems:
            raise PodsimError(f"policy {self.name}: " + "; ".join(problems))

    def rules(self, gpus: int) -> Rules:
        """The policy in numbers, for a machine of `gpus` GPUs."""
        same = {name: getattr(self, name) for name in Rules._fields if name in _SAME}
        return Rules(
            total=float(gpus), order=list(ORDERS).index(self.order), preempt=self.preempt,
            still=self.order not in MOVING and not self.elastic, tiers=self.tiers, elastic=self.elastic,
            backfill=BACKFILLS[self.backfill], depth=int(self.depth), moves=self.moves,
            levels=np.array(self.levels, np.float64), bounds=len(self.levels),
            **{name: float(value) for name, value in same.items()},
        )  # fmt: skip


_SAME = {
    "interval", "refresh", "checkpoint", "restart", "start", "age", "max_age", "fair", "half_life", "big", "site",
    "saves", "lease", "mount", "pull", "pull_each",
}  # fmt: skip

POLICIES = (
    Policy(name="fifo", says="first come first served; nobody overtakes", backfill="strict"),
    Policy(name="fifo-skip", says="first come first served; what fits overtakes what does not"),
    Policy(name="easy", says="FIFO with EASY backfill: overtakes only if the first is not delayed", backfill="easy"),
    Policy(
        name="conservative", says="FIFO with conservative backfill: nobody is delayed", backfill="conservative"
    ),
    Policy(name="sjf", says="shortest job first, not preempted", order="shortest"),
    Policy(name="qssf", says="shortest service (time x GPUs) first, not preempted", order="smallest"),
    Policy(name="srtf", says="shortest remaining time first, preempting", order="shortest remaining", preempt=True),
    Policy(
        name="srsf", says="shortest remaining service first, preempting", order="smallest remaining", preempt=True
    ),
    Policy(
        name="las", says="least attained service first, looked at every six minutes", order="least attained",
        preempt=True, refresh=360.0,
    ),
    Policy(
        name="tiresias", says="three levels of attained service; within a level nobody is stopped", order="by level",
        preempt=True, levels=(3250.0, 7200.0),
    ),
    Policy(
        name="themis", says="worst finish-time fairness first, lengths unknown, looked at every twenty minutes",
        order="worst off", preempt=True, refresh=1200.0,
    ),
    Policy(
        name="themis-known", says="the same where lengths are known", order="worst off for its length", preempt=True,
        refresh=1200.0,
    ),
    Policy(
        name="slurm", says="multifactor priority (age 1000, fair share 10000, size 100) with EASY backfill",
        order="multifactor", backfill="easy", refresh=300.0, age=1000.0, fair=10000.0, big=100.0, site=1000.0,
    ),
)  # fmt: skip
"""300 s is Slurm's PriorityCalcPeriod.  Unconfirmed, remembered and read in no source: Tiresias' three queues with bounds
of 3250 and 7200 GPU seconds and the rule within them, from the simulator of its authors; leases of 20 min for Themis.
360 s for `las` and the weights of `slurm` are podsim's choices."""


ELASTIC = Policy(
    name="elastic", says="the levels of tiresias at the least size; goodput sets who gets more GPUs", order="by level",
    preempt=True, levels=(3250.0, 7200.0), refresh=1800.0, elastic=True,
)  # fmt: skip
"""For elastic jobs only, so not among POLICIES. The lease of half an hour is podsim's choice."""


def find_policy(name: str, **changes: object) -> Policy:
    """A policy by name, with some of its fields changed. Raises PodsimError for an unknown name or field."""
    known = {policy.name: policy for policy in (*POLICIES, ELASTIC)}
    check_name("policy", name, known)
    return replace(known[name], **changes)  # type: ignore[arg-type]
