"""Steps of jobs with a plan: `predict` gives their time for each placement, and on fewer GPUs.

Law: a job on one node, on nodes under one leaf switch, or under several leaves takes the step time of podsim.training
for these links. Across nodes it has the adapters of its nodes. Across leaves it has two more switches on every way, and
the share of the uplinks of a tapered tree.  Limits: other jobs may use the same uplinks.
"""

from __future__ import annotations

from dataclasses import replace

from podsim.errors import PlanError, raise_all
from podsim.hardware.cluster import Cluster
from podsim.training.plan import Plan
from podsim.training.predict import predict_plan
from podsim.workload.model import Model


def placed_step_seconds(
    model: Model, cluster: Cluster, plan: Plan, *, taper: float = 1.0
) -> tuple[float, float, float]:
    """Seconds of a step on the fewest nodes, on twice as many (a part of each), and under several leaves.

    A job of full nodes has the same time in the first two cases, and a job of one GPU in all.
    """
    gpus = int(plan.gpus)
    part = cluster.subset(gpus)
    problems = plan.problems(model, part)
    raise_all(problems, PlanError)
    best = _step_seconds(model, part, plan)
    if gpus == 1 or (part.nodes == 1 and (gpus % 2 or not cluster.nics)):
        return best, best, best
    apart = part
    if part.nodes == 1:
        half = cluster.subset(gpus // 2)
        apart = replace(half, nodes=2, name=f"{cluster.name} ({gpus} GPUs of two nodes)")
    switch = cluster.system.switch
    hop = 2 * switch.latency if switch is not None else 0.0
    link = apart.network
    far = replace(
        apart, network=replace(link, bandwidth=link.bandwidth * taper, latency=link.latency + hop),
        name=f"{apart.name}, under several leaves",
    )  # fmt: skip
    return best, _step_seconds(model, apart, plan), _step_seconds(model, far, plan)


def reduce_replicas(plan: Plan, gpus: int) -> Plan:
    """The plan with fewer data-parallel replicas and the same batch. Raises PlanError if they do not divide it."""
    block = int(plan.gpus) // int(plan.dp)
    replicas, left = divmod(gpus, block)
    if left or not 1 <= replicas <= int(plan.dp) or int(plan.global_batch) % replicas:
        fitting = [block * dp for dp in range(1, int(plan.dp) + 1) if int(plan.global_batch) % dp == 0]
        raise PlanError(
            [f"{gpus} GPUs: one replica takes {block}; {', '.join(map(str, fitting[-12:]))} would work"]
        )
    return replace(plan, dp=replicas)


def _step_seconds(model: Model, cluster: Cluster, plan: Plan) -> float:
    prediction = predict_plan(model, cluster, plan)
    if not prediction.fits:
        need, room = prediction.memory / 1e9, prediction.memory_limit / 1e9
        raise PlanError([f"the plan needs {need:.1f} GB on {cluster.name}, which has {room:.1f} GB"])
    return prediction.step_time
