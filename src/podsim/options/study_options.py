"""Options of a study, and of its output."""

from __future__ import annotations

from dataclasses import MISSING, dataclass

from podsim.options.plan_options import SearchOptions
from podsim.options.question import like, option

FIGURES = ("GPUs", "days", "money", "energy", "carbon", "power", "step", "tokens/s", "MFU", "memory", "loss")
"""the figures of a design"""


@dataclass(frozen=True, kw_only=True)
class FewestOptions(SearchOptions):
    """A search for the fewest GPUs."""

    days: float = option(MISSING, "Days that training may take, with failures.", kind=float)
    gpus: int | None = like(SearchOptions, "gpus", "The most GPUs to try; default the whole cluster.")
