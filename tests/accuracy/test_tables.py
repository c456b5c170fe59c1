"""The packaged tables: complete, sourced, unique, and each row of the language-model table in one part."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import podsim.accuracy.tables as package
from podsim.accuracy.table_columns import KINDS
from podsim.accuracy.tables import NAMED, UNRESOLVED, find_kind, load, measurement, named_table, names
from podsim.answers.comparison import BROKEN, QUANTITIES, ROLES
from podsim.errors import TableError

COUNTS = {"llm": 1328, "vision": 5977, "mlperf": 79, "kernels": 16321, "collectives": 6300}


@pytest.mark.parametrize("name", COUNTS)
def test_whole_tables_are_complete_and_sourced(name: str) -> None:
    rows = load(name)
    assert len(rows) == COUNTS[name]
    assert len({row.id for row in rows}) == len(rows)
    assert all(row.source and row.role in (*ROLES, BROKEN) and row.confirmed for row in rows)
    assert tuple(rows.rows[0].fields) == tuple(find_kind(name).columns)


@pytest.mark.parametrize("name", COUNTS)
def test_every_cell_has_the_type_its_column_says(name: str) -> None:
    rows = load(name)
    for column, cell_type in find_kind(name).columns.items():
        if cell_type in ("count", "positive", "amount"):
            cells = rows.column(column)
            known = cells[~np.isnan(cells)]
            assert np.all(known >= 0 if cell_type == "amount" else known > 0), column
            assert cell_type != "count" or np.all(known == np.floor(known)), column


def test_the_data_is_small() -> None:
    assert sum(path.stat().st_size for path in Path(package.__path__[0]).glob("*.csv.gz")) < 1_200_000


@pytest.mark.parametrize("of", sorted({table.of for table in NAMED}))
def test_each_row_is_in_exactly_one_part(of: str) -> None:
    parts = [table for table in NAMED if table.of == of and not (table.overlaps or table.file)]
    held = Counter(row.id for table in parts for row in load(table.slug))
    assert held == Counter(row.id for row in load(of))


@pytest.mark.parametrize("table", NAMED, ids=lambda table: table.slug)
def test_parts_are_what_they_say(table: object) -> None:
    part = named_table(getattr(table, "slug", ""))
    rows = load(part.slug)
    assert len(rows)
    assert rows.what in QUANTITIES
    assert any(measurement(row, rows.what) for row in rows)
    if part.of == "llm":
        years = sorted({row.text("year") for row in rows})
        assert part.years == (years[0] if len(years) == 1 else f"{years[0]}-{years[-1]}")
    sweeps = Counter(row.label(rows.sweep) for row in rows) if rows.sweep else Counter()
    assert part.sweep == (max(sweeps.values(), default=1) > 1)


def test_parts_by_hand() -> None:
    assert [row.role for row in load("korthikanti")] == ["calibrate"] * 2 + ["test"] * 7
    assert len(load("sc21-table2")) == len(load("sc21-table2-ptdp")) + len(load("sc21-table2-zero3")) == 12
    row = load("korthikanti")["KORT-0003"]
    assert (row.text("model"), row.integer("n_gpus"), row.number("step_time_s")) == ("GPT-175B", 64, 18.13)
    assert row.label(("tp", "pp")) == "tp=8, pp=8"
    assert row.validates


def test_rows_without_a_known_source_or_measurement_validate_nothing() -> None:
    rows = load("collectives")
    unresolved = rows.where(lambda row: row.source.startswith(UNRESOLVED))
    assert not any(row.validates for row in unresolved)
    assert not any(row.validates for row in rows.where(role=BROKEN))
    assert not any(row.validates for row in rows.where(lambda row: row.confirmed == "threshold"))
    assert not any(row.validates for row in load("mlperf").where(lambda row: row.confirmed == "no"))


def test_names_are_unique_and_unknown_ones_get_a_hint() -> None:
    assert len(set(names())) == len(names()) == len(KINDS) + len(NAMED)
    with pytest.raises(TableError, match="did you mean korthikanti"):
        load("korthikant")
    with pytest.raises(TableError, match="unknown column"):
        load("llama").rows[0].text("step_time")
    with pytest.raises(TableError, match="unknown row"):
        load("llama")["LL1-0002"]
    with pytest.raises(TableError, match="unknown kind"):
        find_kind("gpu")


def test_where_narrows_by_role_and_by_row() -> None:
    rows = load("vtrain-single")
    assert len(rows.where(role="test")) + len(rows.where(role="calibrate")) == len(rows)
    assert {row.text("tp") for row in rows.where(lambda row: row.text("tp") == "8")} == {"8"}
    assert len(rows.sources) == 1
