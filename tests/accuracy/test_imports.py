"""A verifier that shares formulas with the predictor verifies nothing."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import podsim.accuracy
import podsim.report

ALLOWED = {
    "verify": ("podsim.errors", "podsim.units", "podsim.results", "podsim.timeline.trace_events", "podsim.accuracy"),
    "report": (
        "podsim.errors", "podsim.units", "podsim.results", "podsim.hardware", "podsim.timeline.protobuf", "podsim.timeline.trace_events",
        "podsim.report",
    ),
}  # fmt: skip
FILES = [
    (name, path)
    for name, package in (("verify", podsim.accuracy), ("report", podsim.report))
    for path in sorted(Path(package.__path__[0]).rglob("*.py"))
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


@pytest.mark.parametrize(("name", "path"), FILES, ids=lambda value: str(getattr(value, "stem", value)))
def test_imports_nothing_that_predicts(name: str, path: Path) -> None:
    for module in imported(path):
        assert any(module == a or module.startswith(f"{a}.") for a in ALLOWED[name]), module
