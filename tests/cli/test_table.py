"""The registry: every name in it leads somewhere, and the options of a command are those of its question."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import podsim
from podsim.answers.answer import load
from podsim.cli import app
from podsim.cli.application import OWN, command_names
from podsim.options.output_options import Output
from podsim.options.question import Manner, NoOptions, options_of
from podsim.questions.registry import GROUPS, PHRASES, QUESTIONS, commands, function_of, words_meant


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


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_name_of_a_question_leads_somewhere(name: str) -> None:
    function = function_of(name)
    assert name.count(" ") == 0 or name.split(maxsplit=1)[0] in GROUPS
    for hook in vars(getattr(function, "manner", Manner(group=NoOptions))).values():
        assert not (isinstance(hook, str) and ":" in hook) or callable(load(hook)), hook


@pytest.mark.parametrize("name", commands())
def test_a_command_asks_with_the_options_of_its_question(name: str) -> None:
    function = function_of(name)
    options = options_of(function.manner.group)
    assert not set(options) & set(options_of(function.manner.output or Output))
    assert set(options) <= set(inspect.signature(function).parameters)


@pytest.mark.parametrize("path", ["\0", "\ud800"])
def test_a_path_that_no_machine_can_name_is_refused(path: str) -> None:
    result = CliRunner().invoke(app, ["replay", path])
    assert result.exit_code == 2
    assert "no path can hold" in result.stderr


def test_every_other_word_means_a_command() -> None:
    first_words = {name.split()[0] for name in command_names(app)} | {"--version"}
    assert {meant.split()[0] for meant in words_meant().values()} <= first_words
    assert len(words_meant()) == sum(len(entry.also.split()) for entry in QUESTIONS.values()) + len(PHRASES)


@pytest.mark.parametrize("name", [*commands(), *GROUPS, *OWN])
def test_help_is_one_screen_with_an_example(name: str) -> None:
    text = CliRunner().invoke(app, ["help", *name.split()], env={"COLUMNS": "80"}).stdout
    assert "Example: podsim " in text
    assert len(text.splitlines()) <= 30
    shown = set(re.findall(r"(?<=^  )--[\w-]+", text, re.MULTILINE))
    full = CliRunner().invoke(app, ["help", *name.split(), "--all"], env={"COLUMNS": "80"}).stdout
    assert shown <= set(re.findall(r"--[\w-]+", full))


def test_help_of_a_plan_begins_with_what_is_typed_most() -> None:
    text = CliRunner().invoke(app, ["help", "plan"], env={"COLUMNS": "80"}).stdout
    assert re.findall(r"(?<=^  )--[\w-]+", text, re.MULTILINE)[:4] == [
        "--on",
        "--gpus",
        "--batch",
        "--tokens",
    ]
