"""Configurations in Python: nested calls with keywords, written, and read without running anything.

Recipes are understood as people write them: a call whose keywords are literals or calls, and later assignments to its
parts (`config.training.steps = 10`). A value has its path, `training.steps`, and a call the path of its keyword.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from podsim.errors import PodsimError

LARGEST = 1 << 17
"""characters of the longest configuration read"""
_DEEPEST = 40


class Expression(str):
    """A value that is written as it stands, such as a name or an enumeration."""

    __slots__ = ()


def call_text(name: str, keywords: Mapping[str, Any], *, indent: int = 4) -> str:
    """A call with a keyword a line; a value that is a pair (name, keywords) is a call, too."""
    inner = " " * (indent + 4)
    lines = [f"{inner}{key}={_value_text(value, indent + 4)},\n" for key, value in keywords.items()]
    return f"{name}(\n{''.join(lines)}{' ' * indent})" if lines else f"{name}()"


def _value_text(value: Any, indent: int) -> str:
    if isinstance(value, Expression):
        return str(value)
    if isinstance(value, tuple):
        return call_text(value[0], value[1], indent=indent)
    return ascii(value)


def read_paths(text: str) -> dict[str, Any]:
    """The values of a configuration by path: literals, names as Expressions. PodsimError if it is no Python."""
    if len(text) > LARGEST:
        raise PodsimError(f"{len(text):,} characters are too many for a configuration; at most {LARGEST:,}")
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise PodsimError(f"not Python: {str(error)[:120]}") from None
    try:
        return _all_paths(tree)
    except RecursionError:
        raise PodsimError("expressions within expressions, too deep to read") from None


def _all_paths(tree: ast.Module) -> dict[str, Any]:
    """The values of all statements by path."""
    paths: dict[str, Any] = {}
    for statement in _statements(tree.body):
        value: ast.expr | None = getattr(statement, "value", None)
        above = ""
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = ast.unparse(statement.targets[0])
            above = target.partition(".")[2] or ("" if _is_container(value) else target)
        elif not isinstance(statement, ast.Return):
            continue
        if value is not None:
            paths.update(_paths(value, above, 0))
    return paths


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The assignments and returns of a module and of its functions, in order."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef):
            yield from _statements(statement.body)
        elif isinstance(statement, (ast.Assign, ast.Return)):
            yield statement


def _is_container(value: ast.expr | None) -> bool:
    """Whether a call makes the entire configuration: its keywords are the tables."""
    return isinstance(value, ast.Call) and any(
        isinstance(keyword.value, ast.Call) for keyword in value.keywords
    )


def _paths(value: ast.expr, above: str, depth: int) -> Iterator[tuple[str, Any]]:
    if depth > _DEEPEST:
        raise PodsimError(f"calls within calls, more than {_DEEPEST} deep")
    if isinstance(value, ast.Call):
        yield above, Expression(ast.unparse(value.func))
        for number, argument in enumerate(value.args):
            yield from _paths(argument, f"{above}.{number}", depth + 1)
        for keyword in value.keywords:
            if keyword.arg:
                yield from _paths(keyword.value, f"{above}.{keyword.arg}".lstrip("."), depth + 1)
    else:
        try:
            yield above, ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            yield above, Expression(ast.unparse(value))
