"""No question imports another: what two need belongs to the room below, and an answer is asked for by name."""

from __future__ import annotations

import ast
from pathlib import Path

import podsim

ROOT = Path(podsim.__file__).parent / "questions"
SHARED = ("podsim.questions.registry", "podsim.questions.registry")
"""the modules of questions/ that are no question"""


def test_no_question_imports_a_question() -> None:
    imported = [
        f"{path.relative_to(ROOT)}: {node.module}"
        for path in sorted(ROOT.glob("*/*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("podsim.questions")
        and node.module not in SHARED
    ]
    assert not imported
