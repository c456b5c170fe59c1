"""The commands as one application: help in sections, mistakes at a glance, completion in shells."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import click
from click.shell_completion import get_completion_class

from podsim.answers.answer import load
from podsim.cli.command import Command, guarded
from podsim.cli.mistakes import keep_arguments, mistake_lines, usage_mistake
from podsim.options.question import Option
from podsim.questions.registry import DIVIDED, GROUPS, QUESTIONS, SECTIONS, commands
from podsim.quoting import visible_lines

SHELLS = ("bash", "zsh", "fish")
OWN = {
    "help": "help plan",
    "completion": "completion bash > ~/.local/share/bash-completion/completions/podsim",
}
"""the commands that ask no question, each with its example"""


class Commands(click.Group):
    """Commands in the order of the registry."""

    def __init__(self, **details: Any) -> None:
        """Help stands for a group without a command."""
        super().__init__(
            no_args_is_help=True, epilog=f"Example: podsim {_example(details['name'])}",
            context_settings={"help_option_names": ["-h", "--help"]}, **details,
        )  # fmt: skip

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names in the order of the registry."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments begin with; an unknown one is an error that knows the likely one."""
        if self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing and args[0][:1] != "-":
            path = ctx.command_path.split()[1:]
            raise load("cli.guesses:unknown_command")(args[0], command_names(self), path)
        return super().resolve_command(ctx, args)


class Divided(Commands):
    """Commands that were one before, whose old spelling still leads: without the name of any, it is that one."""

    def __init__(self, name: str) -> None:
        """Let options stand in front, as the old command did."""
        super().__init__(name=name, help=GROUPS[name])
        self.context_settings = {**self.context_settings, "ignore_unknown_options": True}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments begin with, or the old one."""
        if self.get_command(ctx, args[0]) is not None:
            return super().resolve_command(ctx, args)
        return self.name, Command(str(self.name), QUESTIONS[str(self.name)]), args


class Application(Commands):
    """The program."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """The context, with the arguments as they were typed."""
        typed = tuple(args)
        context = super().make_context(info_name, args, parent, **extra)
        keep_arguments(context, typed)
        return context

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> Any:
        """Run the program; a command line that cannot be read ends with the one that was probably meant."""
        typed = list(sys.argv[1:] if args is None else args)
        run = partial(super().main, typed, prog_name or "podsim", **(extra | {"standalone_mode": False}))
        try:
            status = guarded(run, lambda error: mistake_lines([str(error)]))
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            raise SystemExit(2) from None
        except click.UsageError as error:
            command = error.ctx.command if error.ctx else None
            options: Mapping[str, Option] = command.options if isinstance(command, Command) else {}
            mistake = usage_mistake(error, options, typed)
            sys.stderr.write(visible_lines(load("cli.repairs:mistake_text")(self, mistake)))
            raise SystemExit(2) from None
        except click.Abort:
            sys.stderr.write("podsim: interrupted\n")
            raise SystemExit(130) from None
        raise SystemExit(status if isinstance(status, int) else 0)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under the headings of their sections, each with an example."""
        for title, names in self._sections().items():
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(60)) for name in names])
                formatter.write_text(f"e.g. podsim {_example(names[0])}")

    def _sections(self) -> dict[str, list[str]]:
        """The commands and groups under each heading, in the order of the registry."""
        listed: dict[str, list[str]] = {}
        for name, entry in commands().items():
            names = listed.setdefault(SECTIONS[entry.section], [])
            if (own := name.split()[0]) not in names:
                names.append(own)
        return listed | {"podsim itself": list(OWN)}

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write how to go on."""
        formatter.write_paragraph()
        formatter.write_text("podsim help COMMAND lists the options of a command, with an example.")


def _example(name: str) -> str:
    """The example of a command, or of the first command of a group."""
    known = commands().items()
    return next(
        (entry.example for key, entry in known if f"{key} ".startswith(f"{name} ")), OWN.get(name, name)
    )


def command_names(group: click.Group) -> list[str]:
    """The commands of a group, and those of its groups in two words."""
    names = list(group.commands)
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            names += [f"{name} {own}" for own in command.commands]
    return names


def make_application() -> click.Group:
    """The questions of the registry as commands; a name of two words is a command of a group."""
    application = Application(
        name="podsim", help="A working model of an AI supercomputer, and of the training that runs on it."
    )
    groups = {
        name: Divided(name) if name in DIVIDED else Commands(name=name, help=about)
        for name, about in GROUPS.items()
    }
    for name, entry in commands().items():
        group = name.rpartition(" ")[0]
        (groups[group] if group else application).add_command(Command(name, entry))
    for made in (*groups.values(), _help_command(), _completion_command(application)):
        application.add_command(made)
    version: click.Group = click.version_option(package_name="podsim", message="podsim %(version)s")(
        application
    )
    return version


def _help_command() -> click.Command:
    @click.command("help", help="Show the help of a command.", epilog=f"Example: podsim {OWN['help']}")
    @click.argument("command", nargs=-1)
    @click.option("--all", "is_full", is_flag=True, help="Show every option.")
    @click.pass_context
    def show_help(ctx: click.Context, command: tuple[str, ...], is_full: bool) -> None:
        assert ctx.parent is not None
        here, shown = ctx.parent.command, ctx.parent
        shown.meta["podsim.all_options"] = is_full
        for number, word in enumerate(command):
            child = here.get_command(shown, word) if isinstance(here, click.Group) else None
            if child is None:
                names = command_names(here) if isinstance(here, click.Group) else []
                raise load("cli.guesses:unknown_command")(word, names, command[:number])
            here, shown = child, click.Context(child, info_name=word, parent=shown)
        click.echo(here.get_help(shown))

    return show_help


def _completion_command(application: click.Group) -> click.Command:
    @click.command(
        "completion", help="Print the script that makes a shell complete words.",
        epilog=f"Example: podsim {OWN['completion']}",
    )  # fmt: skip
    @click.argument("shell", type=click.Choice(SHELLS))
    def show_completion(shell: str) -> None:
        kind = get_completion_class(shell)
        assert kind is not None
        click.echo(kind(application, {}, "podsim", "_PODSIM_COMPLETE").source())

    return show_completion
