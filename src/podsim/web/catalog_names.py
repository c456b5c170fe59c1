"""The names that fields of a form offer."""

from __future__ import annotations

from typing import Any

from podsim.options.question import NoOptions, question
from podsim.questions.registry import ask


@question(NoOptions)
def catalog_names(options: NoOptions) -> dict[str, Any]:
    """Models and clusters with what a list shows of them."""
    return {"models": ask("models"), "clusters": ask("clusters")}
