"""The table of commands: every name in it leads somewhere, and its options are those of the question."""

from __future__ import annotations

import ast
import inspect
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import podsim
from podsim.cli import app
from podsim.cli.application import command_names
from podsim.cli.command import Row
from podsim.cli.command_table import COMMANDS
from podsim.cli.help_table import EXAMPLES, GROUPS, MEANT, SECTIONS
from podsim.cli.late_import import load
from podsim.options.question import options_of


def _loaded() -> Iterator[str]:
    """Every text that a module of podsim.cli gives to `load`."""
    for path in sorted(Path(*podsim.__path__, "cli").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "load":
                yield from (part.value for part in node.args if isinstance(part, ast.Constant))


def test_every_name_that_a_command_loads_exists() -> None:
    names = set(_loaded())
    assert "report.progress:status_line" in names
    for name in names:
        assert callable(load(name)), name


@pytest.mark.parametrize("name", COMMANDS)
def test_every_name_of_a_row_leads_somewhere(name: str) -> None:
    row = COMMANDS[name]
    assert bool(row.verb) != bool(row.ask)
    assert name.count(" ") == 0 or name.split(maxsplit=1)[0] in GROUPS
    for path in (row.verb, row.ask, row.check, row.report, row.data, row.show, row.picture):
        assert not path or callable(load(path)), path
    assert ":" not in row.rows or callable(load(row.rows))
    assert row.report or row.show or name in ("emulate", "exporter", "web")


@pytest.mark.parametrize("name", [name for name, row in COMMANDS.items() if row.verb])
def test_a_command_asks_with_the_options_of_its_question(name: str) -> None:
    row: Row = COMMANDS[name]
    options = options_of(load(f"options.{row.options}"))
    output = options_of(load(f"options.{row.output}"))
    assert not set(options) & set(output)
    if row.verb in podsim.__all__:
        assert set(options) <= set(inspect.signature(load(row.verb)).parameters)


@pytest.mark.parametrize("path", ["\0", "\ud800"])
def test_a_path_that_no_machine_can_name_is_refused(path: str) -> None:
    result = CliRunner().invoke(app, ["replay", path])
    assert result.exit_code == 2
    assert "no path can hold" in result.stderr


def test_every_command_has_a_section_and_an_example() -> None:
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(app.commands)
    assert set(COMMANDS) <= set(EXAMPLES)
    assert set(MEANT.values()) <= {*command_names(app), "--version"}


@pytest.mark.parametrize("name", COMMANDS)
def test_an_example_can_be_read(name: str) -> None:
    words = shlex.split(EXAMPLES[name])
    assert words[: len(name.split())] == name.split()
    command = app
    for word in name.split():
        command = command.commands[word]  # type: ignore[attr-defined, assignment]
    assert command.make_context(name, words[len(name.split()) :])
