"""Figures of the house, read from the source: imports, circles, parameters, names; and the files that a command runs."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
Function = ast.FunctionDef | ast.AsyncFunctionDef

RUN = """
import atexit, sys

files = set()


def is_class_body(code):
    return "__qualname__" in code.co_names and "__module__" in code.co_names


def look(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_name != "<module>" and not is_class_body(code):
        name = code.co_filename
        if "/podsim/" in name and name.endswith(".py"):
            files.add(name[name.rindex("/podsim/"):])


def done():
    sys.setprofile(None)
    print(*sorted(files), sep="\\n", file=sys.__stderr__)


atexit.register(done)
from podsim.cli import main

sys.argv = ["podsim", *sys.argv[1:]]
sys.setprofile(look)
sys.exit(main())
"""


@cache
def modules() -> dict[str, tuple[Path, ast.Module]]:
    """Every module of podsim by its dotted name."""
    trees = {}
    for path in sorted((SOURCE / "podsim").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        trees[name] = (path, ast.parse(path.read_text("utf-8")))
    return trees


def functions(tree: ast.Module) -> Iterator[Function]:
    """Every function of a module, methods and inner ones too."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def imported(node: ast.AST) -> set[str]:
    """Modules of podsim that a node imports, if it is an import."""
    names: list[str] = []
    if isinstance(node, ast.ImportFrom) and node.module:
        names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    elif isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    return {name for name in names if name in modules()}


def imports_inside_functions() -> list[str]:
    """Where a function imports a module of podsim."""
    places = {
        f"{name}:{node.lineno}"
        for name, (_, tree) in modules().items()
        for function in functions(tree)
        for node in ast.walk(function)
        if imported(node) - {name}
    }
    return sorted(places)


def circles() -> list[list[str]]:
    """Modules that import one another, whether at the top, for types only or inside functions."""
    graph = {
        name: set().union(*(imported(node) for node in ast.walk(tree))) - {name}
        for name, (_, tree) in modules().items()
    }
    reached: dict[str, set[str]] = {}
    for name in graph:
        seen: set[str] = set()
        todo = [name]
        while todo:
            for other in graph[todo.pop()] - seen:
                seen.add(other)
                todo.append(other)
        reached[name] = seen
    rings = {frozenset(other for other in reached[name] if name in reached[other]) for name in graph}
    return sorted(sorted(ring) for ring in rings if ring)


def files_run(command: str) -> list[str]:
    """Files of podsim of which a command runs a function."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *command.split()], capture_output=True, text=True, check=False
    )
    return [line for line in done.stderr.splitlines() if line.startswith("/podsim/")]
