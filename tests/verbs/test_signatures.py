"""Each command of the terminal is the Python function of the same name, with the same arguments and defaults."""

from __future__ import annotations

import inspect

import pytest

import podsim
from podsim import cli
from podsim.training.plan_inputs import read_plan

ONLY_CLI = {
    "json",
    "csv",
    "html",
    "pdf",
    "markdown",
    "sensitivity",
    "fabric",
    "svg",
    "plot",
    "csv_torch",
    "timeline",
}
"""how and where a result is printed, or another question asked by the same command"""
ONLY_PYTHON = {"progress", "cross_validate", "timeline", "own"}
"""a function that draws: the terminal has its own; what a terminal always does, and how; what it keeps to draw it"""
RENAMED = {"set_": "overrides", "table": "tables", "gpu": "gpus"}
"""a repeated option, named for one of its values, is a mapping or a list"""
DEFAULTS = {name: {None, ()} for name in ("tables", "files", "gpus", "policy", "packer", "mount", "fio")} | {
    "price": {None, (), ""}
}
"""a terminal has no empty tuple"""
ONLY_CLI_OF = {"simulate": {"timeline", "links", "against"}, "train": {"against"}}
"""the same, of one command"""
COMMANDS = {
    callback.__name__: callback
    for command in cli.app.registered_commands
    if (callback := command.callback) is not None
}


@pytest.mark.parametrize("name", COMMANDS)
def test_same_arguments(name: str) -> None:
    assert name in podsim.__all__
    command = inspect.signature(COMMANDS[name]).parameters
    function = dict(inspect.signature(getattr(podsim, name)).parameters)
    if function.pop("options", None):  # a plan's: those of the function that reads them
        function = dict(inspect.signature(read_plan).parameters) | function
    printed = ONLY_CLI | ONLY_CLI_OF.get(name, set())
    shown = {RENAMED.get(key, key): value.default for key, value in command.items() if key not in printed}
    held = {key: value.default for key, value in function.items() if key not in ONLY_PYTHON}
    assert set(shown) == set(held)
    for key, default in held.items():
        assert {shown[key], default} <= DEFAULTS.get(key, {default}), key


def test_no_exception_is_stale() -> None:
    both = [inspect.signature(one).parameters for one in COMMANDS.values()]
    both += [inspect.signature(getattr(podsim, name)).parameters for name in COMMANDS]
    used = {key for parameters in both for key in parameters}
    assert ONLY_CLI | ONLY_PYTHON | set(RENAMED) <= used
