"""The plan of a training run: how a model is laid out on a cluster, and the rules that it keeps.

`read_plan` makes one of a user's options, checked against the model and the part of the cluster that it gets.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, NamedTuple, Self

from podsim.errors import PlanError, PodsimError, raise_all
from podsim.hardware.cluster import Cluster
from podsim.hardware.parts import Gpu
from podsim.options.plan_options import LayoutFields, PlanOptions, SearchOptions, TrainedFields
from podsim.options.question import options_of
from podsim.records import dataclass
from podsim.training.job_inputs import batch_of, read_inputs
from podsim.training.plan_values import SHARED_FIELDS, PlanValues
from podsim.training.rules import problems, problems_of_each
from podsim.training.software import default_software, load_software
from podsim.workload.model import Model


@dataclass(frozen=True, kw_only=True)
class Plan(PlanValues):
    """The layout of one training run. Integer and boolean fields may be numpy arrays that broadcast together."""

    def problems(self, model: Model, cluster: Cluster) -> list[str]:
        """Every rule this (scalar) plan breaks, each with the value and what would be allowed."""
        return problems(self, model, cluster)

    def check(self, model: Model, cluster: Cluster) -> Self:
        """Give the plan itself, or raise PlanError with all its problems."""
        broken = self.problems(model, cluster)
        raise_all(broken, PlanError)
        return self


def precision_of(precision: str | None, cluster: Cluster) -> str:
    """The precision asked for; without a wish bf16, or fp16 on a GPU without it, fp32 on processors."""
    return precision.lower() if precision else default_precision(cluster.gpu)


def default_precision(gpu: Gpu) -> str:
    """bf16, or fp16 on a GPU without it; fp32 on processors."""
    return "fp32" if gpu.architecture == "cpu" else "bf16" if "bf16" in gpu.peaks else "fp16"


_OF_GPUS = "dle-pytorch"
"""the software that graphs take by default"""


def software_of(software: str | None, gpu: Gpu) -> str:
    """The requested software; by default what was calibrated on the GPU's family, and eager PyTorch on processors.

    What is printed names what was taken.
    """
    if not software or (gpu.architecture == "cpu" and software == _OF_GPUS):
        return default_software(gpu)
    return software


class Setting(NamedTuple):
    """A legal plan of a model on (a part of) a cluster."""

    model: Model
    cluster: Cluster
    plan: Plan
    default_batch: bool
    """Whether the batch was not given."""
    notes: tuple[str, ...] = ()
    """What names and open settings stand for."""


def read_plan(options: PlanOptions, *, forced: bool = False) -> Setting:
    """The plan of a model on a cluster, as `podsim.predict` words it.

    A forced plan may break rules of the model and the cluster, but not the bounds of its fields.

    What is None follows: dp takes the GPUs that are left, overlaps are what the software can. Raises PlanError with
    all rules that it breaks, and PodsimError for anything unusable.
    """
    setting, divided = _worded(options)
    if not (forced and divided and not _out_of_bounds(setting.plan)):
        problems = setting.plan.problems(setting.model, setting.cluster)
        raise_all(_broken(options, setting, divided, problems), PlanError)
    return setting


def read_plans(asked: Sequence[PlanOptions]) -> list[Setting | PodsimError]:
    """Each plan, or what `read_plan` raises of it; a rule is held to all plans of one job at once."""
    read: list[Setting | PodsimError] = []
    groups: dict[tuple[object, ...], list[tuple[int, Setting, bool]]] = {}
    for at, options in enumerate(asked):
        try:
            setting, divided = _worded(options)
        except PodsimError as error:
            read.append(error)
            continue
        read.append(setting)
        shared = (getattr(setting.plan, name) for name in SHARED_FIELDS)
        groups.setdefault((setting.model, setting.cluster, *shared), []).append((at, setting, divided))
    for group in groups.values():
        job = group[0][1]
        broken_rules = problems_of_each([setting.plan for _, setting, _ in group], job.model, job.cluster)
        for (at, setting, divided), rules in zip(group, broken_rules, strict=True):
            if broken := _broken(asked[at], setting, divided, rules):
                read[at] = PlanError(broken)
    return read


def _worded(options: PlanOptions) -> tuple[Setting, bool]:
    """(a plan that may break rules, whether its degrees divide the GPUs)."""
    tp, pp, dp, cp = options.tp, options.pp, options.dp, options.cp
    degrees = {"tp": tp, "pp": pp, "cp": cp, **({} if dp is None else {"dp": dp})}
    raise_all(
        [
            f"{name}={value!r} is not a whole number"
            for name, value in degrees.items()
            if not _is_whole(value)
        ],
        PlanError,
    )
    gpus = int(tp * pp * dp * cp) if dp is not None and options.gpus is None else options.gpus
    overrides = options.overrides
    if getattr(options, "force", False):
        overrides = {**(overrides or {}), "model.force": "true"}
    network, cluster, count, notes = read_inputs(
        options.model, options.on, gpus, options.sequence, overrides, options.train
    )
    sequences, default = batch_of(options.batch, network.sequence, count)
    model_gpus = int(tp * pp * cp)
    divided = model_gpus >= 1 and count % model_gpus == 0
    changes = {
        **following(options, cluster, count // model_gpus if divided else 1),
        "software": software_of(options.software, cluster.gpu), "sequence": network.sequence,
        "precision": precision_of(options.precision, cluster),
    }  # fmt: skip
    fields = {name: getattr(options, name) for name in options_of(Plan)}
    plan = Plan(global_batch=sequences, **{**fields, **changes})
    return Setting(network, cluster, plan, default, notes), divided


def _broken(options: PlanOptions, setting: Setting, divided: bool, problems: list[str]) -> list[str]:
    """The problems of a plan as the user words them, where the degrees may not divide its GPUs."""
    if options.dp is not None or divided:
        return problems
    tp, pp, cp, count = options.tp, options.pp, options.cp, setting.cluster.gpus
    return [
        f"tp x pp x cp = {tp} x {pp} x {cp} does not divide {count} GPUs; give dp, or degrees that do",
        *(problem for problem in problems if "dp" not in problem),
    ]


def following(options: PlanOptions, cluster: Cluster, replicas: int) -> dict[str, Any]:
    """Values of the fields that were not given."""
    software = load_software(software_of(options.software, cluster.gpu), cluster.gpu)
    values = {
        "dp": replicas,
        "micro_batch": 1,
        "recompute": "none",
        "schedule": "interleaved" if options.virtual_stages > 1 else "1f1b",
        "expert_tp": int(software.folds_experts and options.ep > 1 and bool(options.sequence_parallel)),
        "flash": cluster.gpu.has_fused_attention and "flash" not in software.lacks,
        "overlap_grad": "overlap_grad" in software.can_overlap,
        "overlap_param": "overlap_param" in software.can_overlap,
        "precision": precision_of(None, cluster),
    }
    return {name: value for name, value in values.items() if getattr(options, name) in (None, "")}


def _out_of_bounds(plan: Plan) -> bool:
    """Whether a field of a scalar plan has a value that no plan can have."""
    known = options_of(Plan).items()
    bounds = [
        (int(getattr(plan, name)), bound) for name, bound in known if bound.kind is int and not bound.choices
    ]
    return any(not bound.least <= value <= (bound.most or 1 << 40) for value, bound in bounds)


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def plan_command(options: PlanOptions | SearchOptions, plan: Plan, cluster: Cluster) -> str:
    """The command that predicts a plan of a job again, as a user types it."""
    fields = plan.describe()
    words = ["podsim", "predict", str(options.model), "--on", str(options.on)]
    gpus = int(plan.gpus)
    if options.gpus is not None or gpus != cluster.gpus:
        words += ["--gpus", str(gpus)]
    if options.batch is not None:
        words += ["--batch", str(plan.global_batch)]
    if options.sequence is not None:
        words += ["--sequence", str(options.sequence)]
    if options.train != "full":
        words += ["--train", options.train]
    words += ["--sparse"] if getattr(options, "sparse", False) else []
    for key, value in (options.overrides or {}).items():
        words += ["--set", f"{key}={value}"]
    return shlex.join([*words, *_flags(options, fields, cluster)])


def _flags(options: PlanOptions | SearchOptions, fields: Mapping[str, Any], cluster: Cluster) -> list[str]:
    """The flags of the fields that differ from what follows without them."""
    declared = {**options_of(LayoutFields), **options_of(TrainedFields)}
    given = PlanOptions(
        model=options.model,
        on=options.on,
        software=fields["software"],
        virtual_stages=fields["virtual_stages"],
        ep=fields["ep"],
        sequence_parallel=fields["sequence_parallel"],
    )
    defaults = following(given, cluster, int(fields["dp"]))
    if cluster.gpu.streams_weights:  # where these are the best unless said
        defaults |= dict.fromkeys(("micro_batch", "recompute"))
    flags: list[str] = []
    for name, known in declared.items():
        value, default = fields.get(name), defaults.get(name, known.default)
        if name in ("dp", "sequence") or value is None or value == default:
            continue
        if name == "software" and not options.software and value == software_of("", cluster.gpu):
            continue
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            flags.append(flag if value else flag.replace("--", "--no-", 1))
        else:
            flags += [flag, str(value)]
    return flags
