"""An option, and the Python function that a group of options becomes.

An option is a field of a dataclass that knows its description, its kind and its values. `question` makes a function of
keywords from a function that takes such a group. Repeated options (NAME=VALUE, RANK=FACTOR) have readers here.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache, wraps
from importlib import import_module
from inspect import Parameter, Signature, cleandoc, signature
from math import isfinite
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar, cast

from podsim.answers.answer import Hook
from podsim.errors import PodsimError, raise_all
from podsim.records import MISSING, dataclass, field, replace
from podsim.units import LEAST, MOST, has_magnitude, parse_quantity

Progress: TypeAlias = Callable[[int, int], None]
"""is called with (parts done, all)"""
Reader: TypeAlias = Callable[[Sequence[str], str], Any]
"""gives the value of a repeated option from its texts and its flag"""

_KINDS: dict[str, type] = {"bool": bool, "float": float, "int": int, "str": str, "Path": Path}
_KIND_NAMES = {
    str: "text", int: "a whole number", float: "a number", bool: "true or false", dict: "a table", Path: "text",
}  # fmt: skip
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
    also: tuple[str, ...] = ()
    """The other names that users give it; a terminal names the right one."""
    example: str = ""
    """A value that a terminal shows where the option is missing."""
    older: str = ""
    """The flag that it had before, which still works."""
    short: str = ""
    """The flag of one letter, as -v."""
    has_sign: bool = False
    """Whether an argument's text may begin with a minus, as a number's does."""
    bare: str | None = None
    """The value of the flag without a value."""
    complete: str = ""
    """The catalog whose names complete it in a shell: models or clusters."""
    section: str = "Options"
    """The heading in a command's help."""

    @property
    def is_required(self) -> bool:
        """Whether it has no default."""
        return self.default is MISSING

    @property
    def kinds(self) -> tuple[type, ...]:
        """The types that its value may have in a file."""
        if self.read:
            return (dict,)
        several = {"str | float": (str, float), "int | str": (int, str)}
        return several.get(self.annotation.removesuffix(" | None"), (self.kind or str,))

    @property
    def kind_names(self) -> str:
        """The same in words: "text or a number"."""
        return " or ".join(_KIND_NAMES[kind] for kind in self.kinds)


def no_progress(done: int, total: int) -> None:
    """Tell nobody of the parts that are done."""


def option(default: Any, help: str, **details: Any) -> Any:
    """A field of a group of options; MISSING as the default makes it required."""
    return field(default=default, metadata={"option": Option(help=help, default=default, **details)})


def like(group: type, name: str, help: str = "", **changes: Any) -> Any:
    """The same option as that of another group, with some changes."""
    known = options_of(group)[name]
    changed = replace(known, help=help or known.help, **changes)
    return field(default=changed.default, metadata={"option": changed})


def reworded(group: type, name: str, help: str) -> type:
    """The group with another text of one of its options."""
    changed = (name, options_of(group)[name].annotation, like(group, name, help))
    return dataclasses.make_dataclass(group.__name__, [changed], bases=(group,), frozen=True, kw_only=True)


def options_of(group: type) -> dict[str, Option]:
    """The options of a group by name, in their order."""
    return _options_of(cast("Hashable", group))


@cache
def _options_of(group: Any) -> dict[str, Option]:
    return {
        option_field.name: replace(_declared(option_field), section=_section(group, option_field.name))
        for option_field in dataclasses.fields(group)
        if "option" in option_field.metadata
    }


def _section(group: type, name: str) -> str:
    """The heading of the class that first declares an option."""
    owner = next(kind for kind in reversed(group.__mro__) if name in vars(kind).get("__annotations__", {}))
    return str(vars(owner).get("SECTION", "Options"))


def wrong_choices(options: object, *names: str) -> list[str]:
    """A line for each named option whose value is none of its choices."""
    known = options_of(type(options))
    return [
        f"{name}={str(value)[:40]!r} may be {', '.join(filter(None, known[name].choices))}"
        for name in names
        if (value := getattr(options, name)) not in known[name].choices
    ]


def values_of(options: object, *groups: type) -> dict[str, Any]:
    """The values of the options that all the groups share."""
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


def pairs(example: str) -> Reader:
    """A reader of names and values."""

    def read(texts: Sequence[str], flag: str) -> dict[str, str]:
        values: dict[str, str] = {}
        for text in texts:
            key, equals, value = (part.strip() for part in text.partition("="))
            if not equals or not key or not value:
                raise PodsimError(f"{flag} {text[:80]!r}: expected key=value, such as {example}")
            if key in values:
                raise PodsimError(f"{flag} {key[:80]} is given twice: {values[key][:80]} and {value[:80]}")
            values[key] = value
        return values

    return read


def factors(member: str, example: str) -> Reader:
    """A reader of numbers of members (ranks, workers) and the factor of each."""

    return _members(member, example, lambda text, what, flag: parse_quantity(text, what=what))


def throttles(member: str, example: str) -> Reader:
    """A reader of numbers of members, and for each its factor when hot and the time in which it gets hot (s)."""

    def read(text: str, what: str, flag: str) -> tuple[float, float]:
        factor, at, time = text.partition("@")
        if not at:
            raise PodsimError(f"{what}={text[:40]}: expected FACTOR@TIME, such as {example}")
        return parse_quantity(factor, what=flag), parse_quantity(time, "s", what=flag)

    return _members(member, example, read)


def servers(example: str) -> Reader:
    """A reader of numbers of servers and the GPU of each."""

    return _members("server", example, lambda text, what, flag: text)


def _members(member: str, example: str, value_of: Callable[[str, str, str], Any]) -> Reader:
    """A reader of numbers of members, counted from 0, and the value of each, given (text, its member, flag)."""

    def read(texts: Sequence[str], flag: str) -> dict[int, Any]:
        values = {}
        for number, text in pairs(example)(texts, flag).items():
            what = f"{flag} {number[:40]}"
            try:
                position = int(number)
            except ValueError:
                raise PodsimError(f"{what}: a {member} is a number, such as {example}") from None
            values[position] = value_of(text, what, flag)
        return values

    return read


Group = TypeVar("Group")
Answer = TypeVar("Answer")
More = ParamSpec("More")


PLAN_FILE = "podsim.launching.plan_file:with_plan"
"""what completes the options of a question about a training plan"""


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How a terminal asks a question and prints its answer, beyond what its options and its answer say."""

    group: type
    """The options of the question."""
    output: type | None = None
    """The options of its output; by default --json, --csv and --html."""
    reads: Hook = None
    """The function that reads what the options name, given the options, and raises what the question would of it."""
    network: Hook = None
    """The function that answers for a captured network, given the options."""
    compared: Hook = None
    """The function that answers for several clusters, given (question, options that the user gave, clusters)."""
    enough: Hook = None
    """The function that gives an error that nothing fits with what would, given (error, options)."""
    ask: Hook = None
    """The function that asks instead, given (options, output)."""
    check: Hook = None
    """The check, given (output, options), that raises PodsimError for contradictory options before the work begins."""
    view: Any = None
    """The view, or a function that gives it from (answer, output, options); by default that of the kind of answer."""
    write: Hook = None
    """The function that writes further files, given (answer, output, options); it may give another answer instead."""
    text: Hook = None
    """The function that gives the text for a terminal, given (answer, output, options); None: the report's."""
    after: Hook = None
    """The function to call after the answer is printed, given (answer, output, options)."""
    plotted: str = ""
    """The keyword of the question that is true if --plot is given."""
    progress: str = ""
    """The title of a bar, or "doing" for a line, if the question reports its progress."""
    activity: str = ""
    """The activity, said on standard error after a second, if the question reports no progress."""
    ranked: bool = False
    """Whether it runs in every rank of a job, and only the first reports mistakes."""
    status: Callable[[Any], int] = lambda answer: 0
    """The exit status by the answer."""


def question(
    group: type[Group], *, fill: str = "", **manner: Any
) -> Callable[[Callable[Concatenate[Group, More], Answer]], Callable[..., Answer]]:
    """Make a function of a group of options one of their names, as `podsim.predict("gpt2", on="dgx-a100", tp=8)`.

    Its signature and its help show the options. Keywords that are not options, such as `progress`, stay as they are.
    If `plan` names a file that holds more of the options, the function that `fill` names (MODULE:FUNCTION, loaded when
    it is needed) gives their values from the group and from those that the user gave.
    The other keywords are fields of the question's `Manner`, which a command reads as `FUNCTION.manner`.
    """

    def made(answer: Callable[Concatenate[Group, More], Answer]) -> Callable[..., Answer]:
        options = options_of(group)
        shown = _signature(options, answer)

        @wraps(answer)
        def ask(*arguments: Any, **named: Any) -> Answer:
            try:
                given = shown.bind(*arguments, **named).arguments
            except TypeError as error:
                raise TypeError(f"{answer.__name__}(): {error}{_hint(named, shown)}") from None
            said = {name: _file(value, options[name]) for name, value in given.items() if name in options}
            if fill and said.get("plan"):
                module, _, function = fill.partition(":")
                said = getattr(import_module(module), function)(group, said)
            _check_magnitudes(said, options)
            return answer(
                group(**said), **{name: value for name, value in given.items() if name not in options}
            )  # type: ignore[call-arg]

        ask.__signature__ = shown  # type: ignore[attr-defined]
        ask.manner = Manner(group=group, **manner)  # type: ignore[attr-defined]
        ask.__doc__ = _document(answer, options)
        return ask

    return made


def _file(value: Any, known: Option) -> Any:
    """The value, as a Path if the option is one and the value the name of a file."""
    return Path(value) if isinstance(value, str) and known.annotation.startswith("Path") else value


def _check_magnitudes(given: Mapping[str, Any], options: Mapping[str, Option]) -> None:
    """Raise PodsimError with every number beyond all magnitudes. What a NaN or infinity would mean, questions say."""
    wrong = [
        f"--{name.replace('_', '-')} {value:g}: expected 0, or a number from {LEAST:g} to {MOST:g}"
        for name, value in given.items()
        if isinstance(value, float) and isfinite(value) and name in options and not has_magnitude(value)
    ]
    raise_all(wrong)


def _signature(options: dict[str, Option], answer: Callable[..., Any]) -> Signature:
    _, *more = signature(answer).parameters.values()
    parameters = [_parameter(parameter) for parameter in options.values()] + more
    parameters.sort(
        key=lambda parameter: (
            parameter.kind,
            parameter.kind is Parameter.POSITIONAL_OR_KEYWORD and parameter.default is not Parameter.empty,
        )
    )
    return Signature(parameters, return_annotation=signature(answer).return_annotation)


def _parameter(known: Option) -> Parameter:
    return Parameter(
        known.name, Parameter.POSITIONAL_OR_KEYWORD if known.argument else Parameter.KEYWORD_ONLY,
        default=Parameter.empty if known.default is MISSING else known.default, annotation=known.annotation,
    )  # fmt: skip


def _hint(named: dict[str, Any], shown: Signature) -> str:
    """The closest names to a keyword that does not exist."""
    from difflib import get_close_matches

    wrong = next((name for name in named if name not in shown.parameters), "")
    close = get_close_matches(wrong, shown.parameters) if wrong else []
    return f"; did you mean {', '.join(close)}?" if close else ""


def _document(answer: Callable[..., Any], options: dict[str, Option]) -> str:
    """The docstring, with a line for each option."""
    width = max(map(len, options), default=0)
    lines = [f"{name:{width}}  {known.help}" for name, known in options.items()]
    return "\n".join([cleandoc(answer.__doc__ or ""), *(["", "Options:", ""] if lines else []), *lines])


def overrides_option(example: str) -> Any:
    """The option that changes what the catalogs say, by key and value."""
    text = f"Override, as {example}. Repeatable." + " --force reads a doubtful config." * (
        "model." in example
    )
    return option(None, text, flag="--set", read=pairs(example.partition(",")[0]))


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """The options of a question that has none."""
