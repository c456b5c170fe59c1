"""The assumptions of a prediction, in words; and the reasons why it may be implausible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from podsim.accuracy.bands import operand_bits, residuals
from podsim.hardware.cluster import Cluster
from podsim.results.prediction import Prediction
from podsim.schedules import SCHEDULES
from podsim.training.plan import Plan
from podsim.training.rules import ABILITIES, lacking_titles
from podsim.training.software import Software, load_software
from podsim.units import format_quantity
from podsim.workload.model import Model


def assumptions(model: Model, cluster: Cluster, plan: Plan, *, default_batch: bool) -> tuple[str, ...]:
    """Sentences, the ones that matter most first."""
    software = load_software(plan.software, cluster.gpu)
    length = plan.length(model)
    said = [
        f"software: {software.title}; source: {software.source}" + _lacking(software),
        f"a step trains {plan.global_batch} sequences of {length} tokens"
        + (" (default: about four million tokens; --batch changes it)" if default_batch else ""),
        f"Adam with {plan.optimizer_precision} moments; weights and activations in {plan.precision}, "
        f"gradients kept at {software.gradient_memory:g} B and reduced at {software.gradient_bytes:g} B per parameter",
        f"memory floor of {format_quantity(software.memory_floor, 'B')} for context, libraries and communicators"
        + (
            f", and {format_quantity(software.reserved, 'B')} that the allocator holds beyond what is in use"
            if software.reserved
            else ""
        ),
        "GPUs of a job fill whole nodes, tensor-parallel groups first; no other job shares the fabric; "
        "data loading keeps up; nothing fails",
    ]
    if any(block.experts for block in model.layers):
        said.append(
            f"the busiest expert rank gets {software.expert_imbalance:g} times the mean number of tokens"
        )
    said += _of_schedule(plan)
    if cluster.gpu.kernels == "":
        said.append(
            f"no kernel of {cluster.gpu.name} was measured: its speed is scaled from the nearest GPU with data"
        )
    return tuple(said)


def changed(prediction: Prediction, overrides: Mapping[str, str] | None) -> Prediction:
    """The prediction with what the user changed of the model and the cluster that it names, said before all else."""
    if not overrides:
        return prediction
    said = "changed: " + ", ".join(f"{key} = {value}" for key, value in overrides.items())
    return replace(prediction, assumptions=(said, *prediction.assumptions))


def _lacking(software: Software) -> str:
    """What a search leaves out, because the framework has none of it."""
    lacks = [ABILITIES[name].title for name in software.lacks]
    return f"; it has no {', '.join(lacks)} (a search leaves these out)" if lacks else ""


def _of_schedule(plan: Plan) -> list[str]:
    """What a schedule brings that others do not."""
    name = str(plan.describe()["schedule"])
    said = []
    if not SCHEDULES[name].flush:
        said.append(
            f"{name} never drains the pipeline: gradients are applied to weights newer than made them"
        )
    if SCHEDULES[name].placement == "two ways":
        said.append(f"{name} trains each part of the model on two ranks of a pipeline")
    if name.startswith(("zb", "dualpipe")):
        said.append(
            "activations are kept until the gradient of the weights is made, not only that of the input"
        )
    return said


def best_measured(architecture: str, precision: str) -> tuple[float, str] | None:
    """(utilisation, row id) of the best measured run of a class; fp16 and bf16 count as one. None without rows."""
    wanted = (architecture, operand_bits(precision))
    rows = [row for row in residuals() if (row.features.architecture, row.features.bits) == wanted]
    return max(((row.utilisation, row.id) for row in rows), default=None)


def warnings(prediction: Prediction, cluster: Cluster, plan: Plan) -> tuple[str, ...]:
    """What a reader should doubt."""
    software = load_software(plan.software, cluster.gpu)
    said = [
        f"{software.title} has no {title}: predicted as if it had" for title in lacking_titles(plan, software)
    ]
    best = best_measured(cluster.gpu.architecture, plan.precision)
    if best is None:
        said.append(
            f"no measured run on {cluster.gpu.architecture} in {plan.precision} is at hand: nothing validates this"
        )
    elif prediction.mfu > best[0]:
        said.append(
            f"implausible: its model FLOPs utilisation of {prediction.mfu:.1%} beats every measured run on "
            f"{cluster.gpu.architecture} in {plan.precision} (best {best[0]:.1%}, row {best[1]})"
        )
    if prediction.fits and prediction.memory > 0.95 * prediction.memory_limit:
        said.append("within 5 % of the GPU's memory: fragmentation may make it fail")
    return tuple(said)
