"""The tables that podsim ships are what the readers of their sources' prose write."""

from __future__ import annotations

import csv
import gzip
import io

import pytest
from reference.recipes_of_projects import project_recipes

from podsim.accuracy.recipes import find_recipe, names, recipes
from podsim.accuracy.table_columns import KINDS, Kind
from podsim.graphs.networks import networks
from podsim.questions.train.graph import FUSIONS
from podsim.training.software import load_software
from reference import packaged

CURATED = [kind for kind in KINDS if not kind.packaged]


def _shipped(kind: Kind) -> list[dict[str, str]]:
    packed = (packaged.SHIPPED / f"{kind.name}.csv.gz").read_bytes()
    return list(csv.DictReader(io.StringIO(gzip.decompress(packed).decode("utf-8"))))


@pytest.mark.parametrize("kind", CURATED, ids=lambda kind: kind.name)
def test_shipped_tables_are_current(kind: Kind) -> None:
    """But for plans that a search chose: a changed law may choose others, and a stored plan stays."""
    differ = [
        row["id"]
        for row, raw in zip(_shipped(kind), packaged.raw_rows(kind.name), strict=True)
        if not row.get("chosen") and row != packaged.canonical(kind, raw)
    ]
    assert not differ, f"{len(differ)} rows differ: {differ[:10]}; python -m reference.packaged"


def test_every_recipe_names_what_there_is() -> None:
    for recipe in recipes():
        if not recipe.skip:
            assert recipe.network in networks(), recipe
            assert recipe.fuse in FUSIONS, recipe
            assert load_software(recipe.software).name == recipe.software
            assert recipe.items > 0
    for entry in (*names().networks, *names().frameworks):
        assert entry.get("skip") or entry.get("network") in networks() or load_software(entry["software"])


def test_every_recipe_is_the_first_that_fits_some_row() -> None:
    """An entry that no row of the tables meets is dead, or stands behind a wider one."""
    used = {
        id(find_recipe(kind, row, project_recipes()))
        for kind in ("vision", "mlperf")
        for row in packaged.raw_rows(kind)
    }
    dead = [
        (recipe.table, recipe.model, dict(recipe.where))
        for recipe in (*project_recipes(), *recipes())
        if id(recipe) not in used
    ]
    assert not dead


def test_every_training_row_of_a_network_has_a_recipe_or_a_reason() -> None:
    for kind in ("vision", "mlperf"):
        trained = [row for row in packaged.raw_rows(kind) if row.get("task", "train") == "train"]
        assert all(find_recipe(kind, row, project_recipes()) for row in trained)


def test_every_part_has_rows() -> None:
    parts = {
        (kind.name, part) for kind in CURATED for row in _shipped(kind) for part in row["tables"].split()
    }
    assert parts >= {(str(rule["of"]), slug) for slug, rule in packaged._memberships().items()}
