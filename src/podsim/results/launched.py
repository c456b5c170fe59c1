"""What one runs to start a plan, and what a launch file says: plain values that name no formula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from podsim.results.prediction import Prediction


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What one runs."""

    tool: str
    """which program reads it"""
    file: str
    """a name for the text"""
    text: str
    """the command, script or file itself"""
    plan: Mapping[str, object]
    notes: tuple[str, ...] = ()
    """what it does not say, and what to look over before it is run"""


@dataclass(frozen=True, kw_only=True)
class PlanRead:
    """What a launch file or command says."""

    tool: str
    """which program reads it"""
    gpus: int
    """ranks that it starts"""
    plan: Mapping[str, object]
    shape: Mapping[str, object]
    """fields of the model that it gives (podsim.workload.specification); empty if it names no shapes"""
    ignored: tuple[str, ...]
    """options that no law here depends on"""
    assumptions: tuple[str, ...]
    """what was taken to be so because it does not say"""
    prediction: Prediction | None = None
    """None: no cluster was named"""
