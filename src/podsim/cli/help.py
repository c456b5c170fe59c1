"""The options of a command as its help shows them: all in their groups, or those that users type most."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import shorten

import click

from podsim.options.question import Option

MOST_OPTIONS = 25
"""options of a question that its help shows without --all"""
_OFTEN = (
    "on", "gpus", "batch", "tokens", "days", "sequence", "precision", "tp", "pp", "zero", "plan", "price", "overrides",
)  # fmt: skip
"""options that users type most, in that order"""
_SHOWN = 14


def write_options(
    command: click.Command, asked: Mapping[str, Option], ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    """Write the options under the headings of their groups; of many only those that are used most."""
    sections: dict[str, list[tuple[str, str]]] = {}
    is_brief = len(asked) > MOST_OPTIONS and not ctx.meta.get("podsim.all_options")
    often = _often(asked)
    parameters = {parameter.name or "": parameter for parameter in command.get_params(ctx)}
    names = [*often, *(name for name in parameters if name not in asked and name != "help")]
    for name in names if is_brief else parameters:
        record, known = parameters[name].get_help_record(ctx), asked.get(name)
        if record is not None and not isinstance(parameters[name], click.Argument):
            title = known.section if known and not is_brief else "Options" if known else "Output"
            sections.setdefault(title, []).append(record)
    for title, records in sorted(sections.items(), key=lambda section: section[0] != "Options"):
        with formatter.section(title):
            _write_records(formatter, records, is_brief)
    if is_brief:
        formatter.write_paragraph()
        formatter.write_text(
            f"All {len(asked)} options: podsim help {ctx.command_path.partition(' ')[2]} --all"
        )


def _often(options: Mapping[str, Option]) -> list[str]:
    """The names of the options that a brief help shows: those typed most, then the question's own."""
    typed = [name for name in _OFTEN if name in options]
    own = [name for name, known in options.items() if known.section == "Options" and name not in typed]
    return [*typed, *own][:_SHOWN]


def _write_records(formatter: click.HelpFormatter, records: list[tuple[str, str]], is_brief: bool) -> None:
    """Write flags and their help; a brief one has a line each."""
    if is_brief:
        room = formatter.width - max(len(flag) for flag, _ in records) - 4
        records = [(flag, shorten(text, room, placeholder=" …")) for flag, text in records]
    formatter.write_dl(records)
