"""Choices of a plan that no published run on GPUs has, and what the usual choice would give: the reason for them."""

from __future__ import annotations

from typing import Any

from podsim.answers.prediction import Prediction
from podsim.errors import PodsimError
from podsim.hardware.cluster import Cluster
from podsim.training.batch import step_cost
from podsim.training.plan import Plan
from podsim.training.software import load_software, usable_bytes
from podsim.units import format_quantity
from podsim.workload.model import Model

_SHORT = 2048
"""tokens. The longest sequence that no published run divides."""
_MANY = 256
"""The experts of a layer from which every published run divides them."""


def unusual_choices(model: Model, cluster: Cluster, plan: Plan, prediction: Prediction) -> tuple[str, ...]:
    """A sentence for each unusual choice of a scalar plan, with the usual one's step and memory."""
    tp, cp, dp, length = int(plan.tp), int(plan.cp), int(plan.dp), plan.length(model)
    node, experts = cluster.gpus_per_node, max(block.experts for block in model.kinds)
    cases: list[tuple[str, dict[str, Any]]] = []
    if tp > node and cluster.gpu.architecture != "tpu":
        cases.append((f"tp {tp} leaves the node of {node} GPUs", {"tp": node, "dp": dp * tp // node}))
    if cp > 1 and length <= _SHORT:
        cases.append((f"cp {cp} divides a sequence of {length} tokens", {"cp": 1, "dp": dp * cp}))
    if int(plan.ep) == 1 and experts >= _MANY and dp > 1:
        cases.append((f"ep 1 keeps all {experts} experts of a layer on a GPU", {"ep": min(dp, 8)}))
    return tuple(
        f"{said}, as no published run does; {_usual(model, cluster, plan, changes, prediction)}"
        for said, changes in cases
    )


def _usual(
    model: Model, cluster: Cluster, plan: Plan, changes: dict[str, Any], prediction: Prediction
) -> str:
    """The step and the memory with the usual choice, beside those of the plan."""
    words = ", ".join(f"{name} {value}" for name, value in changes.items())
    usual = plan.having(changes)
    try:
        usual.check(model, cluster)
    except PodsimError as error:
        return f"with {words} the plan is not legal: {str(error).splitlines()[0]}"
    cost = step_cost(model, cluster, usual)
    seconds, memory = float(cost.seconds[0]), float(cost.memory[0])
    room = usable_bytes(cluster.gpu, load_software(plan.software, cluster.gpu))
    needs = f"{memory / 1e9:.1f} of {room / 1e9:.1f} GB"
    if memory > room:
        return f"with {words} it does not fit ({needs})"
    change = seconds / float(prediction.law_time) - 1.0
    step = format_quantity(seconds, "s")
    return f"with {words} a step takes {step} ({change:+.1%}) and {needs}"
