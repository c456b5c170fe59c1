"""docs/measured-rows.md names the columns that each kind of table needs, and its example is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from podsim.accuracy.reading import read_rows
from podsim.accuracy.table_columns import KINDS, Kind

PAGE = (Path(__file__).parents[2] / "docs" / "measured-rows.md").read_text("utf-8")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_page_names_the_columns_of_a_kind(kind: Kind) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{kind.name}`:"))
    _, _, needed, measured, _ = (cell.strip() for cell in row.split("|"))
    assert needed.partition("**")[2].partition("**")[0].split(", ") == list(kind.required)
    assert measured.split(", ") == list(kind.measured)


def test_the_example_is_read(tmp_path: Path) -> None:
    table = PAGE.partition("    network,cluster,plan,")[2].partition("\n\n")[0]
    lines = f"network,cluster,plan,{table}".splitlines()
    path = tmp_path / "mine.csv"
    path.write_text("".join(f"{line.strip()}\n" for line in lines), "utf-8")
    kind, rows = read_rows(path)
    assert kind == "llm"
    assert len(rows.rows) == 2
