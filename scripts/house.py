"""Figures of the house: python scripts/house.py [--quick] [--write]

Prints each figure as it is now, its lowest value so far (house.toml) and the bar of the rebuild. --quick leaves out those
that start processes; --write lowers in house.toml what fell. A figure rises only by hand, with the number of a decision.

How they count. A closure is every module of podsim that imports reach from the core questions, packages' __init__.py
included; imports inside functions are a row of their own, those for type checkers count in neither, and neither do
modules that are named in texts and loaded late. Lines loaded are those of podsim's modules in sys.modules after one
import, or one command, in a fresh process.
"""

from __future__ import annotations

import ast
import gc
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
FILE = ROOT / "house.toml"
Function = ast.FunctionDef | ast.AsyncFunctionDef
Figures = dict[str, float]

CORE = ("predict", "plan", "simulate", "collective", "validate")
ASKED = (
    "diagnose", "format", "collective", "checkpoint", "predict", "serve", "plan", "simulate", "queue", "power", "train",
    "storage fio",
)  # fmt: skip
COMMANDS = {
    "predict": "predict gpt3-175b --on dgx-a100-80gb:64 --tp 8 --pp 8",
    "plan": "plan gpt3-175b --on dgx-a100-80gb:64 --batch 1536 --limit micro_batch=1",
    "simulate": "simulate gpt3-175b --on dgx-a100-80gb:64 --tp 8 --pp 8 --batch 64 --recompute full",
    "collective": "collective all-reduce --on dgx-a100-80gb:8 --sizes 1M:1G:8",
    "validate": "validate --table korthikanti",
}
"""the commands whose files that run are counted"""
RARE_FIELD = "capacity_factor"
"""a field of a plan that few modules name: what one more field costs"""
SHARE = "docstring lines, % of src"
"""the one figure that may not fall"""
HELD_ROOMS = ("cli", "options", "report", "web")
"""rooms that may not grow; what others gain by a move, the sum shows"""
WORDS = re.compile(
    r"\b(is told|are told|told by|makes it anew|anew|of one's own|so many of|hangs? on|of those that|what of a"
    r"|less what|lays? beside|laid beside|eras?|speed of light|a GPU-hour)\b",
    re.IGNORECASE,
)
PUBLICATIONS = re.compile(
    r"\b(Jean[ -]?Zay|vTrain|Polaris|InternEvo|MegaScale|Korthikanti|DeepLearningExamples)\b", re.IGNORECASE
)
VAGUE = ("found", "one", "told", "each", "place", "whole")
"""names that no variable bears: what it holds has a noun"""
AXIS_LETTERS = re.compile(r"^[a-z][a-z0-9_]*_[A-Z]{1,4}$")

RUN = """
import atexit, sys

files = set()
seen = {}


def is_class_body(code):
    return "__qualname__" in code.co_names and "__module__" in code.co_names


def look(frame, event, argument):
    code = frame.f_code
    if id(code) in seen:
        return
    seen[id(code)] = code
    if code.co_name != "<module>" and not is_class_body(code):
        name = code.co_filename
        if "/src/podsim/" in name and name.endswith(".py"):
            files.add(name[name.rindex("/podsim/"):])


def done():
    sys.settrace(None)
    print(*sorted(files), sep="\\n", file=sys.__stderr__)


atexit.register(done)
from podsim.cli import main

sys.argv = ["podsim", *sys.argv[1:]]
sys.settrace(look)
sys.exit(main())
"""
LOADED = """
import atexit, sys


def done():
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if name.partition(".")[0] == "podsim" and path and path.endswith(".py"):
            print("LOADED", name, file=sys.__stderr__)


atexit.register(done)
"""


@cache
def modules() -> dict[str, tuple[Path, ast.Module]]:
    """Every module of podsim by its dotted name."""
    trees = {}
    gc.disable()  # millions of nodes that all stay: to look for garbage among them takes as long as to read
    for path in sorted((SOURCE / "podsim").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        trees[name] = (path, ast.parse(path.read_text("utf-8")))
    gc.enable()
    gc.freeze()
    return trees


@dataclass
class Content:
    """What one walk through a module sees: functions, names, stored names, texts of the code, lines of docstrings."""

    functions: list[Function] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    stored: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    prose: int = 0


@cache
def content(name: str) -> Content:
    """What stands in a module; a docstring is any text that is a statement."""
    seen = Content()
    docstrings: set[ast.AST] = set()
    for node in ast.walk(modules()[name][1]):  # breadth first: a statement comes before its text
        kind = type(node)
        if kind is ast.Name:
            seen.names.add(node.id)
            if type(node.ctx) is ast.Store:
                seen.stored.append(node.id)
        elif kind is ast.Attribute:
            seen.names.add(node.attr)
        elif kind in (ast.arg, ast.keyword):
            seen.names.add(node.arg or "")
        elif kind is ast.Constant:
            if type(node.value) is str and node not in docstrings:
                seen.texts.append(node.value)
        elif kind in (ast.FunctionDef, ast.AsyncFunctionDef):
            seen.functions.append(node)
        elif kind is ast.Expr and type(node.value) is ast.Constant and type(node.value.value) is str:
            docstrings.add(node.value)
            seen.prose += node.end_lineno - node.lineno + 1
    return seen


@cache
def lines_of(path: Path) -> int:
    """Lines of a file."""
    return len(path.read_text("utf-8").splitlines())


def imported(node: ast.AST) -> set[str]:
    """Modules of podsim that a node imports, if it is an import."""
    names: list[str] = []
    if isinstance(node, ast.ImportFrom) and node.module:
        names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    elif isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    return {name for name in names if name in modules()}


@dataclass
class Imports:
    """Modules that a module imports at its top, inside functions (with the lines), and for type checkers only."""

    top: set[str] = field(default_factory=set)
    inner: set[str] = field(default_factory=set)
    typed: set[str] = field(default_factory=set)
    lines: set[int] = field(default_factory=set)


@cache
def imports(name: str) -> Imports:
    """What a module imports."""
    known = Imports()

    def visit(statements: list[ast.stmt], into: set[str]) -> None:
        for statement in statements:
            others = imported(statement) - {name}
            into |= others
            if others and into is known.inner:
                known.lines.add(statement.lineno)
            is_function = isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)
            is_typed = isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.dump(statement.test)
            body = known.inner if is_function else known.typed if is_typed else into
            visit(getattr(statement, "body", []), body)
            for part in ("orelse", "finalbody", "handlers", "cases"):
                visit(getattr(statement, part, []), into)

    visit(modules()[name][1].body, known.top)
    return known


def closure(names: Iterable[str], *, inner: bool = False) -> set[str]:
    """Modules that imports reach from some, and the packages that hold them; `inner`: through functions too."""
    reached: set[str] = set()
    todo = set(names)
    while todo:
        name = todo.pop()
        reached.add(name)
        known = imports(name)
        packages = {name.rsplit(".", depth)[0] for depth in range(1, name.count(".") + 1)}
        todo |= (known.top | packages | (known.inner if inner else set())) - reached
    return reached


def question_module(question: str) -> str:
    """The module of a question: of two words, that of both, or of the first."""
    questions = [name for name in modules() if name.startswith("podsim.questions.") and name.count(".") == 3]
    for stem in (question.replace(" ", "_"), question.partition(" ")[0]):
        for name in questions:
            if name.rpartition(".")[2] == stem:
                return name
    raise LookupError(f"{question}: no module of podsim.questions has this name")


def imports_inside_functions() -> list[str]:
    """Where a function imports a module of podsim."""
    return sorted(f"{name}:{line}" for name in modules() for line in imports(name).lines)


def circles() -> list[str]:
    """Modules that import one another, and those between them, whether at the top, for types only or inside functions."""
    graph = {name: (known := imports(name)).top | known.inner | known.typed for name in modules()}
    for direction in (graph, _turned(graph)):
        left = {name: others & graph.keys() for name, others in direction.items() if name in graph}
        while free := {name for name, others in left.items() if not others}:
            left = {name: others - free for name, others in left.items() if name not in free}
        graph = {name: graph[name] for name in left}
    return sorted(graph)


def _turned(graph: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """By module those that import it."""
    turned: dict[str, set[str]] = {name: set() for name in graph}
    for name, others in graph.items():
        for other in others:
            turned[other].add(name)
    return turned


def imports_between_questions() -> list[str]:
    """Questions that import questions, inside functions too: `ask` of the registry asks one by its name instead."""
    return [
        f"{name} -> {other}"
        for name in modules()
        if name.startswith("podsim.questions.")
        for other in sorted(imports(name).top | imports(name).inner)
        if other.count(".") == 3 and other.startswith("podsim.questions.")
    ]


def parameter_count(function: Function) -> int:
    """Parameters of a function, `*args` and `**kwargs` apart."""
    given = function.args
    return len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs)


def files_run(command: str) -> list[str]:
    """Files of podsim of which a command runs a function."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *command.split()], capture_output=True, text=True, check=False
    )
    return [line for line in done.stderr.splitlines() if line.startswith("/podsim/")]


def lines_loaded(code: str) -> int:
    """Lines of podsim's modules that a fresh process has loaded after a piece of code."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED + code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    names = [line.split()[1] for line in done.stderr.splitlines() if line.startswith("LOADED ")]
    if not names:
        raise RuntimeError(f"{code}: loaded nothing\n{done.stderr[-500:]}")
    return sum(lines_of(modules()[name][0]) for name in names)


def files_with_axis_letters() -> list[str]:
    """Modules with names that end in the letters of axes, as seconds_LF."""
    return [name for name in modules() if any(map(AXIS_LETTERS.match, content(name).names))]


def lines_by_room() -> Figures:
    """Lines of Python by package of podsim, and the sums by language and folder."""
    rooms: Counter[str] = Counter()
    for path, _ in modules().values():
        parts = path.relative_to(SOURCE / "podsim").parts
        rooms[parts[0] if len(parts) > 1 else "podsim itself"] += lines_of(path)
    return {
        "lines, src": sum(rooms.values()),
        "lines, reference": _lines(ROOT / "reference", "*.py"),
        "lines, scripts": _lines(ROOT / "scripts", "*.py"),
        "lines, C and JavaScript": sum(_lines(SOURCE, f"*.{kind}") for kind in ("c", "h", "js")),
        "lines, TOML": _lines(SOURCE, "*.toml"),
        **{f"lines, src/{room}": count for room, count in sorted(rooms.items())},
    }


def _lines(folder: Path, pattern: str) -> int:
    return sum(map(lines_of, folder.rglob(pattern)))


def read_figures() -> Figures:
    """The figures that the source gives."""
    texts = {name: path.read_text("utf-8") for name, (path, _) in modules().items()}
    contents = [content(name) for name in modules()]
    each_function = [function for part in contents for function in part.functions]
    core = [question_module(question) for question in CORE]
    rooms = lines_by_room()
    return rooms | {
        "closure of the core": sum(lines_of(modules()[name][0]) for name in closure(core)),
        "closure of the core, functions too": sum(
            lines_of(modules()[name][0]) for name in closure(core, inner=True)
        ),
        "questions that import questions": len(imports_between_questions()),
        f"modules that name a plan's {RARE_FIELD}": sum(
            bool(re.search(rf"\b{RARE_FIELD}\b", text)) for text in texts.values()
        ),
        "files with axis letters": len(files_with_axis_letters()),
        "words to avoid": sum(len(WORDS.findall(text)) for text in texts.values()),
        "vague names": sum(name in VAGUE for part in contents for name in part.stored),
        "words of publications": sum(
            len(PUBLICATIONS.findall(text)) for part in contents for text in part.texts
        ),
        SHARE: round(100 * sum(part.prose for part in contents) / rooms["lines, src"], 1),
        "longest line": max(len(line) for text in texts.values() for line in text.splitlines()),
        "circles": len(circles()),
        "imports inside functions": len(imports_inside_functions()),
        "functions over 8 parameters": sum(parameter_count(function) > 8 for function in each_function),
        "functions over 60 lines": sum(
            (function.end_lineno or 0) - function.lineno >= 60 for function in each_function
        ),
        "modules over 400 lines": sum(lines_of(path) > 400 for path, _ in modules().values()),
    }


def run_figures() -> Figures:
    """The figures that need a process each, with what a first run keeps in the cache: lines loaded, files that run."""
    codes = {f"loaded by {question}": f"import {question_module(question)}" for question in ASKED}
    codes["loaded by `format tf32`"] = (
        "from podsim.cli import main\nsys.argv = ['podsim', 'format', 'tf32']\nsys.exit(main())"
    )
    for _ in ("first", "second"):
        with ThreadPoolExecutor(2) as pool:
            loaded, files = pool.map(lines_loaded, codes.values()), pool.map(files_run, COMMANDS.values())
    counts = {f"files that run, {name}": len(paths) for name, paths in zip(COMMANDS, files, strict=True)}
    return dict(zip(codes, loaded, strict=True)) | counts


Records = dict[str, dict[str, float]]
"""by figure its `lowest`, perhaps a `bar`, and the number of the `decision` that raised it"""


def records(text: str) -> Records:
    """The figures of a house.toml."""
    kept: Records = tomllib.loads(text)
    return kept


def is_held(figure: str) -> bool:
    """Whether a figure may not rise: all but the rooms that may take over lines of others."""
    return not figure.startswith("lines, src/") or figure.removeprefix("lines, src/") in HELD_ROOMS


def worse(now: Mapping[str, float], kept: Mapping[str, Mapping[str, float]]) -> list[str]:
    """A line for each held figure that is worse than recorded, or is not recorded."""
    return [
        f"{name} is {value:,}, " + (f"was {kept[name]['lowest']:,}" if name in kept else "not in house.toml")
        for name, value in now.items()
        if is_held(name)
        and (
            name not in kept
            or (value < kept[name]["lowest"] if name == SHARE else value > kept[name]["lowest"])
        )
    ]


def written(now: Figures, kept: Records) -> str:
    """A house.toml with what fell; the share of docstrings keeps its bound, free rooms have the value of today."""
    head = "# Figures of the house: the lowest so far, and the bar. python scripts/house.py --write lowers them.\n"
    lines = []
    for name in [*now, *(name for name in kept if name not in now and not name.startswith("lines, src/"))]:
        record = dict(kept.get(name, {}))
        if name in now:
            keeps = name in kept and is_held(name)
            lowest = record["lowest"] if keeps else now[name]
            record["lowest"] = lowest if name == SHARE else min(lowest, now[name])
        values = ", ".join(f"{key} = {value}" for key, value in record.items())
        lines.append(f'"{name}" = {{ {values} }}\n')
    return head + "".join(lines)


def main() -> int:
    """Print the table; exit status 1 if a figure is worse than recorded."""
    kept = records(FILE.read_text("utf-8")) if FILE.is_file() else {}
    now = read_figures() | ({} if "--quick" in sys.argv else run_figures())
    print(f"{'figure':42} {'now':>9} {'lowest':>9} {'bar':>9}")
    for name, value in now.items():
        lowest, bar = (kept.get(name, {}).get(part, "") for part in ("lowest", "bar"))
        print(f"{name:42} {value:9,} {lowest:>9} {bar:>9}")
    if "--write" in sys.argv:
        FILE.write_text(written(now, kept), "utf-8")
    problems = worse(now, kept)
    print(*problems, sep="\n")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
