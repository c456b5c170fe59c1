"""Every notebook of examples/notebooks/ runs, and is committed with small outputs."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
_LARGEST = 150_000


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore")
def test_a_notebook_runs(path: Path) -> None:
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    from scripts.notebooks import run

    committed, cells = path.read_text("utf-8"), run(path).cells
    assert len(committed) <= _LARGEST
    for cell in cells:
        if cell.cell_type == "code" and not cell.source.startswith("import"):
            assert cell.outputs, cell.source
    assert committed.count('"output_type"') == sum(len(cell.get("outputs", ())) for cell in cells)


def test_there_are_three() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["architect", "engineer", "student"]
