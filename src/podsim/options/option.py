"""One option: a field of a dataclass that knows its description, its kind and its values."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import MISSING, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias, cast

Reader: TypeAlias = Callable[[Sequence[str], str], Any]
"""gives the value of a repeated option from its texts and its flag"""

_KINDS: dict[str, type] = {"bool": bool, "float": float, "int": int, "str": str, "Path": Path}
_LISTED = re.compile(r"(?:Sequence|tuple)\[(\w+)")


@dataclass(frozen=True, kw_only=True)
class Option:
    """What a terminal, a form or a file needs to know of one option."""

    help: str
    name: str = ""
    """The name of the field and of the keyword."""
    default: Any = MISSING
    annotation: str = ""
    kind: type | None = None
    """The kind of one value: bool, float, int, str or Path."""
    flag: str = ""
    """The flag in a terminal, if it is not --NAME."""
    argument: bool = False
    """Whether it is given by its position, not by its name."""
    metavar: str = ""
    many: bool = False
    """Whether it may be repeated."""
    read: Reader | None = None
    choices: tuple[str, ...] = ()
    """The names of the values; where a search needs a number, it is the position."""
    least: int = 1
    most: int | None = None
    """The upper bound of a search; None: the number of GPUs."""
    suffixes: tuple[str, ...] = ()
    """The possible suffixes of the file's name."""

    @property
    def is_required(self) -> bool:
        """Whether it has no default."""
        return self.default is MISSING


def option(default: Any, help: str, **details: Any) -> Any:
    """A field of a group of options; MISSING as the default makes it required."""
    return field(default=default, metadata={"option": Option(help=help, default=default, **details)})


def like(group: type, name: str, help: str = "", **changes: Any) -> Any:
    """The same option as that of another group, with some changes."""
    known = options_of(group)[name]
    changed = replace(known, help=help or known.help, **changes)
    return field(default=changed.default, metadata={"option": changed})


def options_of(group: type) -> dict[str, Option]:
    """The options of a group by name, in their order."""
    return _options_of(cast("Hashable", group))


@cache
def _options_of(group: Any) -> dict[str, Option]:
    return {each.name: _declared(each) for each in dataclasses.fields(group) if "option" in each.metadata}


def wrong_choices(options: object, *names: str) -> list[str]:
    """A line for each named option whose value is none of its choices."""
    known = options_of(type(options))
    return [
        f"{name}={str(value)[:40]!r} may be {', '.join(filter(None, known[name].choices))}"
        for name in names
        if (value := getattr(options, name)) not in known[name].choices
    ]


def values_of(options: object, *groups: type) -> dict[str, Any]:
    """The values of those options that all the groups have, too."""
    names = [name for name in options_of(type(options)) if all(name in options_of(group) for group in groups)]
    return {name: getattr(options, name) for name in names}


def _declared(declaration: dataclasses.Field[Any]) -> Option:
    known: Option = declaration.metadata["option"]
    annotation = str(declaration.type)
    listed = _LISTED.match(annotation)
    kind = known.kind or _kind(listed[1] if listed else annotation, known.default)
    return replace(
        known, name=declaration.name, annotation=annotation, kind=kind, many=bool(known.many or listed or known.read)
    )  # fmt: skip


def _kind(annotation: str, default: Any) -> type:
    """The type of one value, by the annotation or else by the default."""
    return _KINDS.get(annotation.split(" ", 1)[0]) or (str if default in (None, MISSING) else type(default))
