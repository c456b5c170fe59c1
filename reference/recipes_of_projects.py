"""Recipes of single projects, for rows that name the project: recipes/*.toml, with podsim.accuracy.recipes' keys."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from podsim.accuracy.recipes import Recipe, read_recipes


@cache
def project_recipes() -> tuple[Recipe, ...]:
    """Every recipe of a project, in the order in which they are tried."""
    return read_recipes(Path(__file__).parent / "recipes")
