"""A working model of an AI supercomputer, and of the distributed training that runs on it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from podsim.questions.registry import function_of, public_names
from podsim.version import __version__ as __version__

_NOUNS = {
    "Cluster": "hardware.cluster",
    "Figure": "answers.served",
    "Gpu": "hardware.parts",
    "Link": "hardware.parts",
    "Model": "workload.model",
    "NoFitError": "errors",
    "Plan": "training.plan",
    "PlanError": "errors",
    "PlanResult": "answers.prediction",
    "PodsimError": "errors",
    "Prediction": "answers.prediction",
    "Served": "answers.served",
    "SimulatedStep": "answers.simulated",
    "StudyResult": "answers.study",
    "StudyRow": "answers.study",
    "load_cluster": "hardware.cluster",
    "load_gpu": "hardware.catalog",
    "load_model": "workload.catalog",
}
"""the public nouns and their modules; the questions stand in the registry"""

_QUESTIONS = public_names()

__all__ = [*_NOUNS, *_QUESTIONS, "__version__"]  # noqa: PLE0604 - names from the tables above


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `podsim --help` imports nothing heavy."""
    if name in _NOUNS:
        return getattr(import_module(f"podsim.{_NOUNS[name]}"), name)
    if name in _QUESTIONS:
        return function_of(_QUESTIONS[name])
    raise AttributeError(f"module 'podsim' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
