"""The command line that a user probably meant: one repair after another, until it reads and its names exist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import click

from podsim.cli.command import Command
from podsim.cli.mistakes import Mistake, keep_arguments, mistake_lines, question_mistake, usage_mistake
from podsim.errors import PodsimError
from podsim.options.question import Option

_MOST = 40
"""command lines that are tried before none is shown"""


def mistake_text(application: click.Group, mistake: Mistake) -> str:
    """What is printed of a mistake, with the command that works."""
    return mistake_lines(*repaired(application, mistake))


def repaired(application: click.Group, mistake: Mistake) -> tuple[list[str], list[str] | None]:
    """(the problems to print, the arguments that work); None where no repair leads to a command that works."""
    words, problems = _working_line(application, mistake.lines, [_MOST])
    return [mistake.text if words else mistake.plain, *mistake.more, *problems], words


def _working_line(
    application: click.Group, lines: Iterable[Sequence[str]], left: list[int]
) -> tuple[list[str] | None, list[str]]:
    """(the first line that works, repaired if need be; the unknown options on the way); `left` counts the tries."""
    for line in lines:
        left[0] -= 1
        if left[0] < 0:
            break
        mistake = first_mistake(application, list(line))
        if mistake is None:
            return list(line), []
        words, problems = _working_line(application, mistake.lines, left)
        if words is not None:
            return words, [*([mistake.text] if mistake.is_option else []), *problems]
    return None, []


def first_mistake(application: click.Group, words: list[str]) -> Mistake | None:
    """What is wrong with a command line, without asking its question; None if it reads and its names exist."""
    options: Mapping[str, Option] = {}
    given: dict[str, Any] = {}
    path = click.Context(application, info_name="podsim")
    keep_arguments(path, words)
    command: click.Command = application
    rest = words
    try:
        while isinstance(command, click.Group) and rest:
            with path, redirect_stdout(StringIO()):  # --version prints
                name, child, rest = command.resolve_command(path, list(rest))
            assert child is not None
            command = child
            if isinstance(command, Command):
                options = command.options
                path = command.make_context(name, list(rest), parent=path)
                given = path.params
                with path:
                    command.check(given)
            else:
                path = click.Context(command, info_name=name, parent=path)
    except click.UsageError as error:
        return usage_mistake(error, options, words)
    except PodsimError as error:
        return question_mistake(error, options, given, words)
    except click.exceptions.Exit:  # after --help
        pass
    return None
