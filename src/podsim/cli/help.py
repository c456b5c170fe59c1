"""The options of a command as its help shows them: all in their groups, or those that users type most."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import shorten

import click

from podsim.options.question import Option

_ROOM = 17
"""lines of options, with those of the output, that leave a screen of 30 room for what stands around them"""
_OFTEN = (
    "on", "gpus", "batch", "tokens", "days", "sequence", "precision", "tp", "pp", "zero", "plan", "price", "overrides",
)  # fmt: skip
"""options that users type most, in that order"""


def write_options(
    command: click.Command, asked: Mapping[str, Option], ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    """Write the options under the headings of their groups; of many only those that are used most."""
    sections: dict[str, list[tuple[str, str]]] = {}
    parameters = {parameter.name or "": parameter for parameter in command.get_params(ctx)}
    output = [name for name in parameters if name not in asked and name != "help"]
    lines = len(output) + sum(1 + len(known.help) // 50 for known in asked.values())
    is_brief = lines > _ROOM and not ctx.meta.get("podsim.all_options")
    names = [*_often(asked, _ROOM - len(output)), *output]
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


def _often(options: Mapping[str, Option], room: int) -> list[str]:
    """The names of the options that a brief help shows: those typed most, then the question's own."""
    typed = [name for name in _OFTEN if name in options]
    own = [name for name, known in options.items() if known.section == "Options" and name not in typed]
    return [*typed, *own][:room]


def _write_records(formatter: click.HelpFormatter, records: list[tuple[str, str]], is_brief: bool) -> None:
    """Write flags and their help; a brief one has a line each."""
    if is_brief:
        room = formatter.width - max(len(flag) for flag, _ in records) - 4
        records = [(flag, shorten(text, room, placeholder=" …")) for flag, text in records]
    formatter.write_dl(records)
