"""Command-line options as argparse reads them: the given ones, their values, and their mistakes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(kw_only=True)
class Flags:
    """Options of a command; readers take them one by one, and the rest was never requested."""

    given: dict[str, list[str]]
    """The values by option, without dashes, with underscores turned to dashes."""
    problems: list[str]
    taken: set[str] = field(default_factory=set)
    repeated: set[str] = field(default_factory=set)
    """The options with a value that are given more than once; a problem if a reader uses them."""

    def has(self, *names: str) -> bool:
        """Whether any of the options is given; a modelled switch takes no value."""
        given = [name for name in names if name in self.given]
        self.taken.update(given)
        self.problems += [
            f"--{name} is a switch and takes no value (given: {' '.join(self.given[name])[:60]!r})"
            for name in given
            if self.given[name]
        ]
        return bool(given)

    def number(self, *names: str, least: int = 1) -> int | None:
        """The whole number of an option under any of its names; None if it is not given."""
        text = self.word(*names)
        if text is None:
            return None
        if text.isascii() and text.removeprefix("-").isdecimal() and len(text) < 16 and int(text) >= least:
            return int(text)
        hint = "; its value is not set in the script" if "$" in text else ""
        self.problems.append(f"--{self._name(names)} {text[:60]!r} is no whole number from {least}{hint}")
        return None

    def word(self, *names: str, choices: Sequence[str] = ()) -> str | None:
        """The single value of an option under any of its names; None if it is not given."""
        given = [name for name in names if name in self.given]
        self.taken.update(given)
        values = {tuple(self.given[name]) for name in given}
        if not given:
            return None
        if twice := sorted(self.repeated & set(given)):
            self.problems.append(f"--{twice[0]} is given twice; keep one")
            return None
        if len(values) > 1:
            self.problems.append(
                f"{' and '.join('--' + name for name in given)} say different things; keep one"
            )
            return None
        (value,) = values
        if len(value) != 1:
            self.problems.append(f"--{given[0]} takes one value, {len(value)} are given")
            return None
        if choices and value[0] not in choices:
            self.problems.append(f"--{given[0]} {value[0][:60]!r} may be {', '.join(choices)}")
            return None
        return value[0]

    def _name(self, names: Sequence[str]) -> str:
        return next(name for name in names if name in self.given)

    def rest(self) -> tuple[str, ...]:
        """Options that no reader took, as they were given."""
        return tuple(
            " ".join([f"--{name}", *values]) for name, values in self.given.items() if name not in self.taken
        )


def flags_of(words: Sequence[str], known: Mapping[str, str] | None = None) -> Flags:
    """Options and values of a list of words; short ones spelt out.

    `known` names short options: {"N": "nodes"}.
    """
    given: dict[str, list[str]] = {}
    repeated: set[str] = set()
    name = ""
    for word in words:
        short = word[1:2] if word.startswith("-") and not word.startswith("--") else ""
        if word.startswith("--") or short in (known or {}):
            text = (
                word[2:] if word.startswith("--") else (known or {})[short] + "=" * (len(word) > 2) + word[2:]
            )
            name, equals, value = text.partition("=")
            name = name.replace("_", "-")
            values = [value] if equals else []
            if given.get(name):
                repeated.add(name)
            given[name] = values
        elif name:
            given[name].append(word)
    return Flags(given=given, problems=[], repeated=repeated)
