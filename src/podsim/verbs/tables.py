"""The packaged measurements, for verbs that need single rows of them."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["training_rows"]


def training_rows() -> list[Mapping[str, str]]:
    """Rows of the packaged LLM training table, as text by column."""
    from podsim.verify.tables import load

    return [row.fields for row in load("llm").rows]
