"""The command line: the same questions as the library, for a terminal.

Every command is the Python function of the same name with the same options, from one declaration in `podsim.options`;
`podsim.cli.command_table` says which. Nothing heavy is imported before a command runs, so that `podsim --help` is quick.
Exit status: 0 yes, 1 no (does not fit, falls short), 2 misuse, 70 a bug of podsim, 130 interrupted with nothing to show.
"""

from __future__ import annotations

import os
import sys

import click

from podsim.cli.command import Command, bug_report
from podsim.cli.command_table import COMMANDS, GROUPS

__all__ = ["app", "main"]


def _application() -> click.Group:
    """The commands of the table; a name of two words is a command of a group."""
    application = _Commands(
        name="podsim", help="A working model of an AI supercomputer, and of the training that runs on it."
    )
    groups = {name: _Commands(name=name, help=about) for name, about in GROUPS.items()}
    for name, row in COMMANDS.items():
        group, _, own = name.rpartition(" ")
        (groups[group] if group else application).add_command(Command(own, row))
    for made in groups.values():
        application.add_command(made)
    version: click.Group = click.version_option(package_name="podsim", message="podsim %(version)s")(
        application
    )
    return version


class _Commands(click.Group):
    """Commands in the order of the table."""

    def __init__(self, **details: object) -> None:
        super().__init__(no_args_is_help=True, **details)  # type: ignore[arg-type]

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


app = _application()


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal without these characters shows "?", not a traceback
            stream.reconfigure(errors="replace" if stream is sys.stdout else "backslashreplace")
    try:
        app()
    except SystemExit as end:
        if (
            end.code == 130
        ):  # Python would still end by the signal if that came while a dataclass was being made
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(130)
        raise
    except Exception as error:
        if os.environ.get("PODSIM_TRACEBACK"):
            raise
        sys.stderr.write(bug_report(error))
        raise SystemExit(70) from None
