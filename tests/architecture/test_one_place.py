"""Formulas that stand in one place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "podsim"
RING = Path("network", "bus.py")


def _factors(node: ast.expr) -> Iterator[ast.expr]:
    """What a product multiplies."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        yield from _factors(node.left)
    else:
        yield node
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        yield from _factors(node.right)


def _is_one_less(node: ast.expr, than: str) -> bool:
    """Whether an expression is another minus 1."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)):
        return False
    return ast.dump(node.left) == than and isinstance(node.right, ast.Constant) and node.right.value == 1


def _has_ring(tree: ast.Module) -> bool:
    """Whether (n - 1) / n stands anywhere, whatever n is and whatever it is multiplied by."""
    quotients = [n for n in ast.walk(tree) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)]
    return any(_is_one_less(f, ast.dump(q.right)) for q in quotients for f in _factors(q.left))


def test_the_share_of_a_ring_is_recognised() -> None:
    assert _has_ring(ast.parse("2.0 * (group.ranks - 1) / group.ranks"))
    assert _has_ring(ast.parse("a / 16 * (n - 1.0) / n"))
    assert not _has_ring(ast.parse("(pp - 1) / micro_batches"))


def test_the_share_of_a_ring_stands_once() -> None:
    files = [
        p.relative_to(PACKAGE) for p in PACKAGE.rglob("*.py") if _has_ring(ast.parse(p.read_text("utf-8")))
    ]
    assert files == [RING]
