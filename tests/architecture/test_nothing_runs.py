"""No file that podsim reads is run: nothing unpickles, evaluates or imports what it finds, but where a row says why."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "pickletools", "code",
           "multiprocessing", "xmlrpc", "runpy", "imp", "jsonpickle"}  # fmt: skip
"""modules that make objects or run code of bytes or text"""
CALLS = {"eval", "exec", "__import__", "system", "popen", "read_pickle", "unsafe_load", "full_load",
         "unsafe_load_all", "full_load_all", "spec_from_file_location", "run_path", "distributed_load"}  # fmt: skip
SAFE = {
    "torch.load": ("weights_only", True),
    "numpy.load": ("allow_pickle", False),
    "np.load": ("allow_pickle", False),
}
"""functions that are safe with one value of a keyword only"""
ALLOWED = {
    ("src/podsim/timeline/counter_files.py", "pickletools"): "lists opcodes; those that could run are refused",
    ("src/podsim/studies/executors.py", "multiprocessing"): "between processes that this one starts",
    ("src/podsim/lab/loader.py", "multiprocessing"): "between processes that this one starts",
    ("src/podsim/web/answering.py", "multiprocessing"): "between the server and the workers that it starts",
    ("src/podsim/web/worker_pool.py", "multiprocessing"): "between the server and the workers that it starts",
    ("src/podsim/graphs/module_capture.py", "exec"): "`capture FILE.py:FUNCTION` is asked to run it (SECURITY.md)",
    ("src/podsim/network/collectives/lookup.py", "exec"): "`--algo FILE.py:FUNCTION` is asked to run it (SECURITY.md)",
    ("src/podsim/records.py", "exec"): "compiles an `__init__` of the names of a class's fields, as the standard library",
    ("src/podsim/safe_yaml.py", "yaml.load_all"): "by a loader that makes plain values only",
}  # fmt: skip


def _risks(source: str) -> Iterator[str]:
    """The names of a module that could run what is read."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Call):
            yield from _called(node)


def _called(call: ast.Call) -> Iterator[str]:
    given = {word.arg: word.value for word in call.keywords}
    if isinstance(shell := given.get("shell"), ast.Constant) and shell.value:
        yield "shell"
    if isinstance(call.func, ast.Name):
        yield f"call {call.func.id}"
    if isinstance(call.func, ast.Attribute):
        owner = ast.unparse(call.func.value)
        name = f"{owner.rpartition('.')[2]}.{call.func.attr}"
        keyword, value = SAFE.get(name, ("", None))
        if name in SAFE and not (
            isinstance(said := given.get(keyword), ast.Constant) and said.value is value
        ):
            yield "unsafe"
        if name in ("yaml.load", "yaml.load_all"):
            yield name
        if owner not in ("re", "self") and (call.args or call.keywords):  # a module's eval() takes nothing
            yield f"call {call.func.attr}"


def _found(source: str) -> set[str]:
    wrong = {"unsafe", "shell", "yaml.load", "yaml.load_all"}
    names = set(_risks(source))
    return {name for name in names if name in MODULES | wrong} | {
        call for name in names if (call := name.removeprefix("call ")) in CALLS and call != name
    }


def test_no_module_runs_what_it_reads() -> None:
    found = {
        (path.relative_to(ROOT).as_posix(), name)
        for folder in ("src", "reference", "examples")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name in _found(path.read_text("utf-8"))
    }
    assert found == ALLOWED.keys()


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import pickle", "pickle"), ("from pickle import loads", "pickle"), ("import torch; torch.load(f)", "unsafe"),
        ("torch.load(f, weights_only=False)", "unsafe"), ("np.load(f)", "unsafe"), ("eval(text)", "eval"),
        ("numpy.load(f, allow_pickle=True)", "unsafe"), ("yaml.load(t, yaml.Loader)", "yaml.load"),
        ("yaml.unsafe_load(t)", "unsafe_load"), ("run(text, shell=True)", "shell"), ("os.system(t)", "system"),
        ("pd.read_pickle(f)", "read_pickle"), ("builtins.exec(t)", "exec"), ("import a.b, marshal as m", "marshal"),
    ],
)  # fmt: skip
def test_the_search_finds(source: str, name: str) -> None:
    assert _found(source) == {name}


def test_the_search_leaves_what_is_safe() -> None:
    assert not _found(
        "re.compile(t); np.load(f, allow_pickle=False); self.system(1); torch.load(f, weights_only=True)"
    )
