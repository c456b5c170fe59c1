"""Small mistakes that a programmer could make in a module, one at a time: the mutants of scripts/mutants.py.

Left out by rule, as no test may see them: annotations, decorators (caches, flags of dataclasses), `assert` (for us,
not for users), what is raised (its text; `raise` itself is dropped), strings, `__all__`, `__slots__`, and `UNSEEN`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

UNSEEN = {
    "chunksize", "copy", "encoding", "errors", "max_workers", "maxsize", "newline", "stacklevel", "strict", "workers",
}  # fmt: skip
"""keywords that change speed, or that only guard"""
_ARITHMETIC = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
_COMPARISON: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
_EXTREMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}
_SYMMETRIC = {
    *_EXTREMES, "gcd", "lcm", "isclose", "logical_and", "logical_or", "hypot", "multiply", "add", "zip",
}  # fmt: skip
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SKIPPED = {"annotation", "returns", "decorator_list", "exc", "cause", "ctx"}


@dataclass(frozen=True)
class Mutant:
    """One mistake in the tree in which it was found."""

    path: str
    where: str
    """the function it is in"""
    lines: range
    """its statement, without the statements within"""
    is_inside: bool
    """whether it is in the body of a function, so that functions alone can be exchanged"""
    change: str
    site: tuple[ast.AST, str, int | None]
    new: ast.AST

    def apply(self) -> None:
        """Put the mistake into the tree."""
        holder, field, index = self.site
        if index is None:
            setattr(holder, field, self.new)
        else:
            getattr(holder, field)[index] = self.new


def mutants(path: str, tree: ast.Module) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of its source."""
    return _within(path, tree, (), tree.body[0], is_inside=False)


def _within(
    path: str, node: ast.AST, functions: tuple[ast.AST, ...], statement: ast.stmt, *, is_inside: bool
) -> Iterator[Mutant]:
    if isinstance(node, ast.Assert) or _is_unseen(node):
        return
    for field, value in ast.iter_fields(node):
        inside = is_inside or (field == "body" and isinstance(node, (*_FUNCTIONS, ast.Lambda)))
        for index, child in enumerate(value if isinstance(value, list) else [value]):
            if field in _SKIPPED or not isinstance(child, ast.AST):
                continue
            owner = child if isinstance(child, ast.stmt) else statement
            where = ".".join(getattr(function, "name", "lambda") for function in functions) or "module"
            for operator, new in (
                *_statements(child, functions),
                *_expressions(child),
                *_tests(node, field, child),
            ):
                ast.copy_location(new, child)
                ast.fix_missing_locations(new)
                change = f"{operator}: {_short(child)} -> {_short(new)}"
                site = (node, field, index if isinstance(value, list) else None)
                yield Mutant(path, where, _lines(owner), inside, change, site, new)
            inner = (*functions, child) if isinstance(child, (*_FUNCTIONS, ast.ClassDef)) else functions
            yield from _within(path, child, inner, owner, is_inside=inside)


def _is_unseen(node: ast.AST) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else []
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return (isinstance(node, ast.keyword) and node.arg in UNSEEN) or names in (["__all__"], ["__slots__"])


def _lines(statement: ast.stmt) -> range:
    inner = [part.lineno for part in getattr(statement, "body", ())]
    return range(statement.lineno, max(statement.lineno + 1, min([(statement.end_lineno or 0) + 1, *inner])))


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def _statements(node: ast.AST, functions: tuple[ast.AST, ...]) -> Iterator[tuple[str, ast.AST]]:
    """(operator, what stands in a statement's place)."""
    is_call = isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
    if is_call or isinstance(node, (ast.AugAssign, ast.Raise, ast.Continue, ast.Break)):
        yield "dropped statement", ast.Pass()
    if isinstance(node, ast.AugAssign) and type(node.op) in _ARITHMETIC:
        yield "arithmetic", ast.AugAssign(node.target, _ARITHMETIC[type(node.op)](), node.value)
    if isinstance(node, ast.Return) and node.value:
        text, function = ast.unparse(node.value), functions[-1]
        if text not in ("None", "False", "0", "''", "()", "[]", "{}"):
            yield "return", ast.Return(ast.Constant(None))
        names = [each.arg for each in function.args.args] if isinstance(function, _FUNCTIONS) else []
        if names and names[0] not in ("self", "cls", text):
            yield "return", ast.Return(ast.Name(names[0], ast.Load()))


def _expressions(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """(operator, what stands in an expression's place)."""
    match node:
        case ast.BinOp(left, operator, right) if type(operator) in _ARITHMETIC and not _is_text(left, right):
            yield "arithmetic", ast.BinOp(left, _ARITHMETIC[type(operator)](), right)
        case ast.Compare(left, [operator], right):
            yield from (
                ("comparison", ast.Compare(left, [new()], right)) for new in _COMPARISON[type(operator)]
            )
        case ast.BoolOp(operator, values):
            yield "boolean", ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)
        case ast.UnaryOp(ast.Not(), operand):
            yield "dropped not", operand
        case ast.Constant(bool() as value):
            yield "constant", ast.Constant(not value)
        case ast.Constant(int() | float() as value):
            others = dict.fromkeys((value + 1, value * 2, 0))
            yield from (("constant", ast.Constant(other)) for other in others if other != value)
        case ast.Slice(lower, upper, step):
            yield from [("slice", ast.Slice(None, upper, step))] * bool(lower)
            yield from [("slice", ast.Slice(lower, None, step))] * bool(upper)
        case ast.Call():
            yield from _calls(node)


def _is_text(*sides: ast.expr) -> bool:
    return any(
        isinstance(side, ast.JoinedStr) or isinstance(getattr(side, "value", 0), str) for side in sides
    )


def _tests(holder: ast.AST, field: str, node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    is_test = field == "test" or (field == "ifs" and isinstance(holder, ast.comprehension))
    is_compared = isinstance(node, (ast.Compare, ast.UnaryOp)) or getattr(node, "id", "") == "TYPE_CHECKING"
    if is_test and isinstance(node, ast.expr) and not is_compared:
        yield "condition", ast.UnaryOp(ast.Not(), node)


def _calls(call: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    function, arguments = call.func, call.args
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if other := _EXTREMES.get(name):
        is_method = isinstance(function, ast.Attribute)
        renamed = (
            ast.Attribute(function.value, other, ast.Load()) if is_method else ast.Name(other, ast.Load())
        )
        yield "extremes", ast.Call(renamed, arguments, call.keywords)
    if len(arguments) > 1 and name not in _SYMMETRIC and ast.dump(arguments[0]) != ast.dump(arguments[1]):
        yield (
            "swapped arguments",
            ast.Call(function, [arguments[1], arguments[0], *arguments[2:]], call.keywords),
        )
    for index, keyword in enumerate(call.keywords):
        if keyword.arg and keyword.arg not in UNSEEN and not name[:1].isupper():  # a class would miss a field
            rest = call.keywords[:index] + call.keywords[index + 1 :]
            yield "dropped keyword", ast.Call(function, arguments, rest)
