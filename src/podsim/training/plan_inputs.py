"""The plan that a user describes, checked against the model and the part of the cluster that it gets."""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

from podsim.errors import PlanError
from podsim.hardware.cluster import Cluster
from podsim.options.option import options_of
from podsim.options.plan_options import PlanOptions
from podsim.training.inputs import batch_of, precision_of, read_inputs, software_of
from podsim.training.plan import Plan
from podsim.training.software import load_software
from podsim.workload.graph import Model


class Setting(NamedTuple):
    """A legal plan of a model on (a part of) a cluster."""

    model: Model
    cluster: Cluster
    plan: Plan
    default_batch: bool
    """Whether the batch was not given."""


def read_plan(options: PlanOptions) -> Setting:
    """The plan of a model on a cluster, as `podsim.predict` words it.

    What is None follows: dp takes the GPUs that are left, overlaps are what the framework era can. Raises PlanError with
    all rules that it breaks, and PodsimError for anything unusable.
    """
    tp, pp, dp, cp = options.tp, options.pp, options.dp, options.cp
    degrees = {"tp": tp, "pp": pp, "cp": cp, **({} if dp is None else {"dp": dp})}
    if wrong := [
        f"{name}={value!r} is not a whole number" for name, value in degrees.items() if not _is_whole(value)
    ]:
        raise PlanError(wrong)
    gpus = int(tp * pp * dp * cp) if dp is not None and options.gpus is None else options.gpus
    network, cluster, count = read_inputs(
        options.model, options.on, gpus, options.sequence, options.overrides
    )
    sequences, default = batch_of(options.batch, network.sequence, count)
    each = int(tp * pp * cp)
    divided = each >= 1 and count % each == 0
    changes = {
        **_following(options, cluster, count // each if divided else 1),
        "software": software_of(options.software, cluster.gpu), "sequence": network.sequence,
    }  # fmt: skip
    fields = {name: getattr(options, name) for name in options_of(Plan)}
    plan = Plan(global_batch=sequences, **{**fields, **changes})
    problems = plan.problems(network, cluster)
    if dp is None and not divided:
        problems = [
            f"tp x pp x cp = {tp} x {pp} x {cp} does not divide {count} GPUs; give dp, or degrees that do",
            *(problem for problem in problems if "dp" not in problem),
        ]
    if problems:
        raise PlanError(problems)
    return Setting(network, cluster, plan, default)


def _following(options: PlanOptions, cluster: Cluster, replicas: int) -> dict[str, Any]:
    """Values of the fields that were not given."""
    software = load_software(software_of(options.software, cluster.gpu), cluster.gpu)
    values = {
        "dp": replicas,
        "schedule": "interleaved" if options.virtual_stages > 1 else "1f1b",
        "flash": cluster.gpu.compute_capability >= 7.5 and "flash" not in software.lacks,
        "overlap_grad": "overlap_grad" in software.can_overlap,
        "overlap_param": "overlap_param" in software.can_overlap,
        "precision": precision_of(None, cluster),
    }
    return {name: value for name, value in values.items() if getattr(options, name) in (None, "")}


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
