"""Shapes stand in annotations, in the words of one glossary, and never as letters in a name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from podsim.axes import AXES

SOURCE = Path(__file__).parents[2] / "src" / "podsim"
SHAPED = re.compile(r'Shaped\[[^"]*, "([^"]*)"\]')
AXIS_LETTERS = re.compile(r"^_?[a-z][a-z0-9_]*_[A-Z][A-Z0-9]{0,3}$")
PUBLIC = {"arrived_A", "allocated_A"}
"""keys of `podsim pack --json`"""


def test_every_axis_is_a_word_of_the_glossary() -> None:
    shapes = [shape for path in SOURCE.rglob("*.py") for shape in SHAPED.findall(path.read_text("utf-8"))]
    words = {word for shape in shapes for word in shape.split()} - {"..."}
    assert shapes
    assert words == set(AXES), f"unknown: {words - set(AXES)}, unused: {set(AXES) - words}"


def test_no_name_carries_axis_letters() -> None:
    found = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            name = getattr(node, "id", None) or getattr(node, "arg", None) or getattr(node, "attr", None)
            if isinstance(name, str) and AXIS_LETTERS.match(name) and name not in PUBLIC:
                found.append(f"{path.relative_to(SOURCE)}:{node.lineno} {name}")
    assert not found
