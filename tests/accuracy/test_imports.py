"""What judges predictions shares no formula with what makes them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import podsim.accuracy
import podsim.report

JUDGES = ("table_columns", "score", "rankings", "tables/__init__", "bars")
ALLOWED = {
    "accuracy": ("errors", "units", "answers", "axes", "packaged", "records", "accuracy"),
    "report": (
        "errors",
        "quoting",
        "units",
        "whole_files",
        "answers",
        "axes",
        "packaged",
        "records",
        "hardware",
        "report",
    ),
}
FILES = [
    *(("accuracy", Path(podsim.accuracy.__path__[0]) / f"{name}.py") for name in JUDGES),
    *(("report", path) for path in sorted(Path(podsim.report.__path__[0]).rglob("*.py"))),
]


def imported(path: Path) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.append(node.module or "")
    return [name for name in names if name.split(".")[0] == "podsim"]


@pytest.mark.parametrize(("room", "path"), FILES, ids=lambda value: str(getattr(value, "stem", value)))
def test_imports_nothing_that_predicts(room: str, path: Path) -> None:
    for module in imported(path):
        assert module.split(".")[1] in ALLOWED[room], module
