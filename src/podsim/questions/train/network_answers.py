"""What `podsim predict` answers for a captured network, such as resnet50 or dlrm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podsim.answers.graphs import GraphCost
from podsim.answers.minutes import TargetPlan
from podsim.answers.prediction import PlanResult
from podsim.errors import PodsimError
from podsim.graphs.recommender import tables_of
from podsim.hardware.cluster import load_cluster
from podsim.options.graph_options import GraphOptions
from podsim.options.plan_options import PredictOptions, TargetOptions
from podsim.options.question import options_of
from podsim.questions.train.graph import graph
from podsim.questions.train.plan import plan_or_target
from podsim.training.job_inputs import split_overrides

_SAMPLES, _IMPRESSIONS = 32, 4096
"""samples of a step on a GPU where no batch is given, and those of a network with embedding tables"""
_TABLES = ("tables", "placement", "servers")
_SHARED = ("on", "gpus", "precision", "software", "detail", "sparse", *_TABLES)


def predicted_network(options: Mapping[str, Any]) -> GraphCost:
    """The training step of a captured network, replicated over the GPUs; its batch is that of all of them together.

    Raises PodsimError for options that say how a transformer is laid out, and for a batch that the GPUs do not divide.
    """
    name = str(options["model"]).lower()
    known, own = (
        options_of(TargetOptions if "to_target" in options else PredictOptions),
        {"model", "batch", "overrides", "dp", *_SHARED},
    )
    said = [each for each, value in options.items() if each not in own and value != known[each].default]
    if said:
        flags = ", ".join(f"--{each.replace('_', '-')}" for each in said)
        raise PodsimError(
            f"{name} is a captured network, replicated on every GPU: {flags} says nothing of it"
        )
    gpus = options.get("gpus") or options.get("dp")
    on, overrides = str(options["on"]), options.get("overrides")
    count = load_cluster(on, split_overrides(overrides)[1], gpus).gpus
    batch = _batch(options.get("batch"), count, _SAMPLES if tables_of(name) is None else _IMPRESSIONS)
    shared = {each: options[each] for each in _SHARED if options.get(each) not in (None, "")}
    changes = {
        "software": shared.get("software") or options_of(GraphOptions)["software"].default,
        "gpus": gpus,
    }
    return graph(name, batch=batch, overrides=overrides, **(shared | changes))


def planned_network(options: Mapping[str, Any]) -> GraphCost | PlanResult | TargetPlan:
    """The best placement of a recommender's tables over the GPUs, with its step; what `plan` says of other networks."""
    if options["to_target"] or (tables_of(str(options["model"]).lower()) is None and not options["tables"]):
        return plan_or_target(**options)
    return predicted_network({**options, "placement": options["placement"] or "best"})


def _batch(text: object, gpus: int, usual: int) -> int:
    """Samples of a step on each of the GPUs."""
    if text is None:
        return usual
    digits = str(text).replace(",", "").replace("_", "")
    if not (digits.isdecimal() and len(digits) < 12 and int(digits) % gpus == 0 and int(digits) > 0):
        raise PodsimError(
            f"batch={str(text)[:40]!r}: give the samples of a step, a multiple of the {gpus} GPUs"
        )
    return int(digits) // gpus
