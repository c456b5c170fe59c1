"""Each command of the terminal is the Python function of the same name, with the same arguments and defaults."""

from __future__ import annotations

import inspect

import pytest

import podsim
from podsim import cli

ONLY_CLI = {"json", "csv"}
"""how a result is printed"""
ONLY_PYTHON = {"progress"}
"""a function that draws: the terminal has its own"""
RENAMED = {"set_": "overrides"}
"""--set KEY=VALUE, repeated, is a mapping"""
COMMANDS = sorted(command.callback.__name__ for command in cli.app.registered_commands if command.callback)


def test_every_command_is_public() -> None:
    assert set(COMMANDS) <= set(podsim.__all__)


@pytest.mark.parametrize("name", COMMANDS)
def test_same_arguments(name: str) -> None:
    command = inspect.signature(getattr(cli, name)).parameters
    function = inspect.signature(getattr(podsim, name)).parameters
    shown = {RENAMED.get(key, key): value for key, value in command.items() if key not in ONLY_CLI}
    held = {key: value for key, value in function.items() if key not in ONLY_PYTHON}
    assert set(shown) == set(held)
    for key in held:
        assert shown[key].default == held[key].default, key
