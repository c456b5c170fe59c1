"""The plan of a training run: how a model is laid out on a cluster, and the rules that it keeps.

`read_plan` makes one of a user's options, checked against the model and the part of the cluster that it gets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log2
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple, Self

from podsim.errors import ClusterError, PlanError, PodsimError
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.hardware.parts import Gpu
from podsim.options.plan_options import PlanOptions
from podsim.options.question import options_of
from podsim.training.plan_values import PlanValues
from podsim.training.rules import problems
from podsim.training.software import default_software, load_software
from podsim.workload.catalog import load_model
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
        if broken:
            raise PlanError(broken)
        return self


DEFAULT_TOKENS = 4 * 2**20
"""tokens of a step when no batch is given, as large language models of 2020-2024 were trained with"""

LARGEST_BATCH = 10_000_000
"""sequences of a step: a thousand times what has been trained with"""


def split_overrides(pairs: Mapping[str, str] | None) -> tuple[dict[str, str], dict[str, str]]:
    """(overrides of the model, overrides of the cluster); the model's start with "model."."""
    if pairs is not None and not isinstance(pairs, Mapping):
        raise PodsimError(f'overrides={str(pairs)[:60]!r}: give a mapping, such as {{"gpu.memory": "64GB"}}')
    model, cluster = {}, {}
    for key, value in (pairs or {}).items():
        if key.startswith("model."):
            model[key.removeprefix("model.")] = value
        else:
            cluster[key] = value
    return model, cluster


def read_inputs(
    model: str | Path,
    on: str | Path,
    gpus: int | None,
    sequence: int | None,
    overrides: Mapping[str, str] | None,
) -> tuple[Model, Cluster, int]:
    """The model, the part of the cluster that the job gets, and its GPUs."""
    if not model or not on:
        raise PodsimError("give MODEL and --on CLUSTER, or a plan with --plan FILE")
    for_model, for_cluster = split_overrides(overrides)
    if sequence is not None:
        for_model["sequence"] = str(sequence)
    network = load_model(model, for_model)
    cluster = load_cluster(on, for_cluster)
    count = cluster.gpus if gpus is None else gpus
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ClusterError(f"gpus={count!r}: a job has 1 to {cluster.gpus} GPUs on {cluster.name}")
    return network, cluster.subset(count), count


def batch_of(batch: int | None, sequence: int, gpus: int = 1) -> tuple[int, bool]:
    """(sequences of a step, whether that is the default of about four million tokens).

    The default is a power of two times the odd part of the GPUs, so that replicas may divide it: 2,240 on 4,480 GPUs.
    """
    if batch is None:
        sequences = max(1, DEFAULT_TOKENS // sequence)
        odd = gpus // (gpus & -gpus)
        if 1 < odd <= 2 * sequences:
            return odd << max(0, round(log2(sequences / odd))), True
        return 1 << (sequences.bit_length() - 1), True
    if not isinstance(batch, int) or isinstance(batch, bool) or not 1 <= batch <= LARGEST_BATCH:
        raise PodsimError(f"batch={batch!r}: a step has 1 to {LARGEST_BATCH:,} sequences")
    return batch, False


def precision_of(precision: str | None, cluster: Cluster) -> str:
    """The precision asked for; without a wish bf16, or fp16 on a GPU without it, fp32 on processors."""
    return precision or default_precision(cluster.gpu)


def default_precision(gpu: Gpu) -> str:
    """bf16, or fp16 on a GPU without it; fp32 on processors."""
    return "fp32" if gpu.architecture == "cpu" else "bf16" if "bf16" in gpu.peaks else "fp16"


_OF_GPUS = "dle-pytorch"
"""the era that graphs take by default"""


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


def read_plan(options: PlanOptions, *, forced: bool = False) -> Setting:
    """The plan of a model on a cluster, as `podsim.predict` words it.

    A forced plan may break rules of the model and the cluster, but not the bounds of its fields.

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
    if forced and divided and not _out_of_bounds(plan):
        problems = []
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


def _out_of_bounds(plan: Plan) -> bool:
    """Whether a field of a scalar plan has a value that no plan can have."""
    known = options_of(Plan).items()
    bounds = [
        (int(getattr(plan, name)), each) for name, each in known if each.kind is int and not each.choices
    ]
    return any(not each.least <= value <= (each.most or 1 << 40) for value, each in bounds)


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
