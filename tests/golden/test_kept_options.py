"""Every option of every command stays: its flags, its kind, its default.

`PODSIM_REFRESH=1 python -m pytest -n0` on this file records anew.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from podsim.cli import app

FILE = Path(__file__).with_name("kept_options.json.gz")


def test_every_option_stays() -> None:
    now = dict(_options(app, ""))
    if os.environ.get("PODSIM_REFRESH"):
        FILE.write_bytes(gzip.compress(json.dumps(now, sort_keys=True).encode(), mtime=0))
    then = json.loads(gzip.decompress(FILE.read_bytes()))
    changed = [
        f"{name}: {then[name]} -> {now[name]}" for name in then.keys() & now if then[name] != now[name]
    ]
    gone, new = then.keys() - now, now.keys() - then
    assert not [*gone, *new, *changed], f"gone: {sorted(gone)}\nnew: {sorted(new)}\n" + "\n".join(changed)


def _options(group: click.Group, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each option of the commands of a group, as `COMMAND FLAG`, and what is known of it."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from _options(command, f"{path}{name} ")
            continue
        for option in command.get_params(click.Context(command)):
            flags = sorted([*option.opts, *option.secondary_opts])
            if "--help" not in flags:  # click keeps it with the names of the first context
                yield f"{path}{name} {max(flags, key=len)}", _described(option) | {"flags": flags}


def _described(option: click.Parameter) -> dict[str, Any]:
    default = None if repr(option.default).startswith("Sentinel") else option.default
    return {
        "kind": option.type.name,
        "choices": [str(choice) for choice in getattr(option.type, "choices", ())],
        "default": default if isinstance(default, bool | int | float | str | None) else str(default),
        "required": option.required,
        "many": option.multiple or option.nargs == -1,
        "argument": isinstance(option, click.Argument),
    }
