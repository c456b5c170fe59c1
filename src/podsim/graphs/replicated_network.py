"""What a training step of a captured network, such as resnet50 or dlrm, is asked with: a replica on every GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podsim.errors import PodsimError
from podsim.graphs.recommender import tables_of
from podsim.hardware.cluster import load_cluster
from podsim.options.graph_options import GraphOptions
from podsim.options.plan_options import PredictOptions, TargetOptions
from podsim.options.question import options_of
from podsim.training.job_inputs import split_overrides

_SAMPLES, _IMPRESSIONS = 32, 4096
"""samples of a step on a GPU where no batch is given, and those of a network with embedding tables"""
_TABLES = ("tables", "placement", "servers")
_SHARED = ("on", "gpus", "precision", "software", "detail", "sparse", "train", *_TABLES)


def graph_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of `podsim.graph` for those of `predict` or `plan`; the batch is that of all GPUs together.

    Raises PodsimError for options that say how a transformer is laid out, and for a batch that the GPUs do not divide.
    """
    name = str(options["model"]).lower()
    _check(options, {"model", "batch", "overrides", "dp", *_SHARED})
    gpus = options.get("gpus") or options.get("dp")
    on, overrides = str(options["on"]), options.get("overrides")
    count = load_cluster(on, split_overrides(overrides)[1], gpus).gpus
    batch = _batch(options.get("batch"), count, _SAMPLES if tables_of(name) is None else _IMPRESSIONS)
    shared = {each: options[each] for each in _SHARED if options.get(each) not in (None, "")}
    changes = {
        "software": shared.get("software") or options_of(GraphOptions)["software"].default,
        "gpus": gpus,
    }
    return {"file": name, "batch": batch, "overrides": overrides, **shared, **changes}


def division_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of `podsim.shard` for those of `plan`. Raises PodsimError for those of a transformer's layout."""
    own = ("model", "on", "gpus", "batch", "precision", "software", "overrides")
    _check(options, {*own, "top"})
    return {each: options[each] for each in own if options.get(each) is not None}


def _check(options: Mapping[str, Any], own: set[str]) -> None:
    """Raise PodsimError for options that say how a transformer is laid out."""
    known = options_of(TargetOptions if "to_target" in options else PredictOptions)
    said = [each for each, value in options.items() if each not in own and value != known[each].default]
    if said:
        flags = ", ".join(f"--{each.replace('_', '-')}" for each in said)
        name = str(options["model"]).lower()
        raise PodsimError(f"{name} is a captured network, no transformer: {flags} says nothing of it")


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
