"""A working model of an AI supercomputer, and of the distributed training that runs on it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from podsim.errors import NoFitError as NoFitError
    from podsim.errors import PlanError as PlanError
    from podsim.errors import PodsimError as PodsimError
    from podsim.hardware.catalog import load_gpu as load_gpu
    from podsim.hardware.cluster import Cluster as Cluster
    from podsim.hardware.cluster import load_cluster as load_cluster
    from podsim.hardware.parts import Gpu as Gpu
    from podsim.hardware.parts import Link as Link
    from podsim.prediction import PlanResult as PlanResult
    from podsim.prediction import Prediction as Prediction
    from podsim.training.plan import Plan as Plan
    from podsim.verbs.calibrate import calibrate as calibrate
    from podsim.verbs.collective import collective as collective
    from podsim.verbs.fabric import fabric as fabric
    from podsim.verbs.plan import plan as plan
    from podsim.verbs.plan import replay as replay
    from podsim.verbs.predict import predict as predict
    from podsim.verbs.queue import pack as pack
    from podsim.verbs.queue import queue as queue
    from podsim.verbs.show import clusters as clusters
    from podsim.verbs.show import models as models
    from podsim.verbs.show import show as show
    from podsim.verbs.validate import validate as validate
    from podsim.workload.catalog import load_model as load_model
    from podsim.workload.graph import Model as Model

__version__ = "0.1.0"

_PUBLIC = {
    "Cluster": "hardware.cluster",
    "Gpu": "hardware.parts",
    "Link": "hardware.parts",
    "Model": "workload.graph",
    "NoFitError": "errors",
    "Plan": "training.plan",
    "PlanError": "errors",
    "PlanResult": "prediction",
    "PodsimError": "errors",
    "Prediction": "prediction",
    "calibrate": "verbs.calibrate",
    "clusters": "verbs.show",
    "collective": "verbs.collective",
    "fabric": "verbs.fabric",
    "load_cluster": "hardware.cluster",
    "load_gpu": "hardware.catalog",
    "load_model": "workload.catalog",
    "models": "verbs.show",
    "pack": "verbs.queue",
    "plan": "verbs.plan",
    "predict": "verbs.predict",
    "queue": "verbs.queue",
    "replay": "verbs.plan",
    "show": "verbs.show",
    "validate": "verbs.validate",
}

__all__ = [*_PUBLIC, "__version__"]  # noqa: PLE0604 - names from the table above


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `podsim --help` imports nothing heavy."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'podsim' has no attribute {name!r}")
    return getattr(import_module(f"podsim.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
